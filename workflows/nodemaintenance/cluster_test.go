package nodemaintenance_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// clusterLockActiveOnce simulates a cluster lock that is active only at the first request.
func clusterLockActiveOnce(w *workflowtest.World) {
	requests := 0
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		requests++
		locks := locks.NodeLocks{Asked: true, ClusterHeld: requests == 1, ClusterRequestUID: "uid-of-request"}
		if requests == 1 {
			return node.AcquireNodeResult{Locks: locks}
		}
		locks.Inactive = true
		return node.AcquireNodeResult{Locks: locks, Cordon: &node.CordonResult{CordonedByUs: true}}
	})
}

func TestClusterLocksAreInactiveBeforeNodeLocksAndActiveAfterThem(t *testing.T) {
	w := workflowtest.NewWorld(t)
	clusterLockActiveOnce(w)
	workflowtest.Simulate(w, "ReturnNode", func(in node.ReturnNodeInput) any {
		require.True(t, in.WithdrawCluster)
		require.Equal(t, types.UID("uid-of-request"), in.ClusterRequestUID)
		return node.ReturnNodeResult{Locks: locks.NodeLocks{Active: true}, ClusterWithdrawn: true}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"AcquireNode", "AwaitClusterLocks", "AcquireNode", "AwaitPodCompletion"}, w.Called()[3:7])
	require.True(t, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).WithCluster)
	require.NotContains(t, w.Called(), "WithdrawClusterMaintenance", "ReturnNode withdraws it")
	for _, name := range []drydockv1.Stage{ranv1.StageClusterMaintenanceRequested, ranv1.StageClusterWorkloadLocksInactive, ranv1.StageClusterMaintenanceRemoved} {
		stage := kit.Stages{Records: &status.Stages}.Stage(name)
		require.NotNil(t, stage, "%s", name)
		require.True(t, stage.Succeeded)
		require.Empty(t, stage.Message)
	}
}

func TestTheClusterRequestIsWithdrawnForAnExcludedNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		locks := locks.NodeLocks{Skipped: true, Inactive: true, ClusterRequestUID: "uid-of-request"}
		return node.AcquireNodeResult{Locks: locks, Cordon: &node.CordonResult{CordonedByUs: true}}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	stages := kit.Stages{Records: &status.Stages}
	require.Equal(t, "no lock holds the node, and annotation lcm.mirantis.com/skip-maintenance forbids a request",
		stages.Stage(maintenancev1.StageNodeMaintenanceRequested).Message)
	require.True(t, stages.Stage(ranv1.StageClusterMaintenanceRequested).Succeeded)
	require.True(t, stages.Stage(ranv1.StageClusterWorkloadLocksInactive).Succeeded, "no lock was active")
	for _, stage := range status.Stages {
		require.NotContains(t, stage.Message, "no workload locks", "%s", stage.Stage)
	}
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).WithdrawCluster)
}

func TestClusterLocksThatStayActiveEndTheMaintenanceBeforeTheCordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	clusterLockActiveOnce(w)
	w.Fail["AwaitClusterLocks"] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "ceph did not release cluster c1 in time", nil))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrLockTimedOut)
	require.NotNil(t, w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Deadline)
	require.NotContains(t, w.Called(), "Cordon")
	require.Equal(t, "WithdrawClusterMaintenance", w.Called()[len(w.Called())-1])
}

func TestAMaintenanceOfARolloutDoesNotRequestTheCluster(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	in := workflowtest.FullMaintenance()
	in.Parent, in.TaskQueue, in.Slot = "cgu/ops/june/c1", temporal.TaskQueue, nil
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.False(t, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).WithCluster)
	require.False(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).WithdrawCluster)
	require.NotContains(t, w.Called(), "WithdrawClusterMaintenance")
}

// A lock may be created during a rollout, or become active because its request was deleted.
func TestAMaintenanceOfARolloutRequestsTheClusterIfALockIsActive(t *testing.T) {
	w := workflowtest.NewWorld(t)
	var requests []bool
	workflowtest.Simulate(w, "AcquireNode", func(in node.AcquireNodeInput) any {
		requests = append(requests, in.WithCluster)
		if len(requests) < 3 {
			return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true, ClusterHeld: true}}
		}
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}}
	})
	w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrLockRefused, "lock tf-n1 is active", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []bool{false, true, true, true}, requests)
	require.Equal(t, []string{"AcquireNode", "AcquireNode", "AwaitClusterLocks", "AcquireNode", "AwaitNodeLocks", "Cordon", "AcquireNode", "AwaitNodeLocks", "Cordon"}, w.Called()[:9])
	require.True(t, w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Requested)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).WithdrawCluster)
	require.Contains(t, w.Called(), "WithdrawClusterMaintenance")
}

func TestADeletedLockRequestIsCreatedAgain(t *testing.T) {
	gone := temporal.Error(temporal.ErrLockRefused, "maintenance request drydock-1234 was deleted by another client", nil)
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(gone)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes[0], "was deleted by another client")
	require.Len(t, w.Inputs["AcquireNode"], 2)
	require.True(t, w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Requested)

	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	w.Fail["AwaitClusterLocks"] = workflowtest.Once(gone)
	in := workflowtest.OneCluster()
	in.Remediation.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"+w0", "-w0"}, nodes.Events)
	require.Len(t, w.Inputs["RequestClusterMaintenance"], 2)
	require.Equal(t, w.Inputs["AwaitClusterLocks"][0], w.Inputs["AwaitClusterLocks"][1], "the deadline stays")
	require.True(t, w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Requested)
}

// An application may allow a drain but not a restart.
func TestLockRequestsAnnounceARestartUnlessTheWorkNeedsNone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action *maintenancev1.Action
		scope  lcmv1.Scope
	}{
		{"unknown work", nil, lcmv1.ScopeOS},
		{"a Job that may restart the node", &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: "ops"}}, lcmv1.ScopeOS},
		{"work with a restart", &maintenancev1.Action{RebootsNode: new(true)}, lcmv1.ScopeOS},
		{"work without a restart", &maintenancev1.Action{RebootsNode: new(false)}, lcmv1.ScopeDrain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			in := workflowtest.MaintenanceOfRollout()
			in.Object.Spec.Action = tt.action
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.Equal(t, tt.scope, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).Scope)

			c, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
			whole := workflowtest.OneCluster()
			whole.Remediation.Action = tt.action
			c.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, whole)
			workflowtest.RequireResult[ranv1.ClusterStatus](c)
			require.Equal(t, tt.scope, c.Inputs["RequestClusterMaintenance"][0].(locks.ClusterLockInput).Scope)
		})
	}
}

func TestTheReleaseOfAMaintenanceIsThatOfItsLockRequestsAndWaits(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockRelease = "25.2"
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, "25.2", w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).Release)
	require.Equal(t, "25.2", w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Release)
	require.Equal(t, "25.2", w.Inputs["Cordon"][0].(node.CordonInput).Release)

	c, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
	whole := workflowtest.OneCluster()
	whole.Remediation.LockRelease = "25.2"
	c.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, whole)
	workflowtest.RequireResult[ranv1.ClusterStatus](c)
	require.Equal(t, "25.2", c.Inputs["RequestClusterMaintenance"][0].(locks.ClusterLockInput).Release)
	require.Equal(t, "25.2", c.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Release)
	child := rollout.NodeMaintenanceFor(types.NamespacedName{Namespace: "ops", Name: "june"}, whole.Remediation, "w0")
	require.Equal(t, "25.2", child.Spec.LockRelease)
}
