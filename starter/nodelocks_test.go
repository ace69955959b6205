package main

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// guardedNode has workload locks.
const guardedNode = "worker-7"

// acquireNode cordons every node except the one with locks.
func acquireNode(_ context.Context, in node.AcquireNodeInput) (node.AcquireNodeResult, error) {
	if in.Node == guardedNode {
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true, RequestUID: "request", ClusterRequestUID: "request-for-cluster"}}, nil
	}
	return node.AcquireNodeResult{Cordon: &node.CordonResult{CordonedByUs: true}}, nil
}

// lockActivities simulate locks that become inactive on each wait, and active again before that many cordons.
func lockActivities(refusals int32) map[string]any {
	var cordons atomic.Int32
	return map[string]any{
		"AwaitNodeLocks": func(context.Context, locks.NodeLockInput) error { return nil },
		"Cordon": func(context.Context, node.CordonInput) (node.CordonResult, error) {
			if cordons.Add(1) <= refusals {
				return node.CordonResult{}, temporal.Error(temporal.ErrLockRefused, "node "+guardedNode+" is not cordoned: ceph holds it", nil)
			}
			return node.CordonResult{CordonedByUs: true}, nil
		},
		"AwaitNodeLocksActive":       func(context.Context, locks.NodeLockInput) ([]drydockv1.Blocker, error) { return nil, nil },
		"WithdrawClusterMaintenance": func(context.Context, locks.ClusterLockInput) error { return nil },
	}
}

// continuesAsNewWithLocks: a maintenance that continues as new while locks flap keeps its slot and its requests, and the watch follows it.
func (s *stage) continuesAsNewWithLocks(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	succeeds(t, "node", "maintain", guardedNode, "--requestor", "kim.example.com", "--name", "guarded")
	watch := begin(t, "node", "status", "guarded", "--watch")
	nodeReaches(t, "guarded", maintenancev1.NodeReady)
	described, err := s.client.DescribeWorkflowExecution(t.Context(), temporal.NodeMaintenanceID("spoke-1", "default", "guarded"), "")
	require.NoError(t, err)
	info := described.GetWorkflowExecutionInfo()
	require.NotEqual(t, info.GetFirstRunId(), info.GetExecution().GetRunId(), "the maintenance continued as new")
	succeeds(t, "node", "done", "guarded")
	got := watch.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	require.Contains(t, got.stdout, guardedNode+": Completed")
	ended := nodeReaches(t, "guarded", maintenancev1.NodeCompleted)
	require.Equal(t, "waiting for locks again: node "+guardedNode+" is not cordoned: ceph holds it", ended.Status.Notes[0])
	require.Equal(t, maintenancev1.NodePending, ended.Status.States[0].State)
	for _, stage := range ended.Status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
	}
}
