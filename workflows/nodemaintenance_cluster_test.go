package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// clusterHeldOnce lets a lock of the cluster be held when it is asked first.
func clusterHeldOnce(w *world) {
	asked := 0
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		asked++
		locks := activities.NodeLocks{Asked: true, ClusterHeld: asked == 1, ClusterRequestUID: "uid-of-request"}
		if asked == 1 {
			return activities.TakeNodeResult{Locks: locks}
		}
		locks.Inactive = true
		return activities.TakeNodeResult{Locks: locks, Cordon: &activities.CordonResult{CordonedByUs: true}}
	})
}

func TestTheWorkloadsOfTheClusterLetGoBeforeThoseOfTheNodeAndGoBackToWorkAfter(t *testing.T) {
	w := newWorld(t)
	clusterHeldOnce(w)
	play(w, "ReturnNode", func(in activities.ReturnNodeInput) any {
		require.True(t, in.WithdrawCluster)
		require.Equal(t, types.UID("uid-of-request"), in.ClusterRequestUID)
		return activities.ReturnNodeResult{Locks: activities.NodeLocks{Active: true}, ClusterWithdrawn: true}
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.Equal(t, []string{"TakeNode", "AwaitClusterLocks", "TakeNode", "AwaitPodCompletion"}, w.called()[3:7])
	require.True(t, w.inputs["TakeNode"][0].(activities.TakeNodeInput).WithCluster)
	require.NotContains(t, w.called(), "WithdrawClusterMaintenance", "it went with the node")
	stage := stageKeeper{stages: &status.Stages}.stage(ranv1.StageClusterWorkloadLocksInactive)
	require.True(t, stage.Succeeded)
}

func TestTheRequestForTheClusterIsWithdrawnAlsoWhereTheNodeIsNotAsked(t *testing.T) {
	w := newWorld(t)
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		locks := activities.NodeLocks{Inactive: true, ClusterRequestUID: "uid-of-request"}
		return activities.TakeNodeResult{Locks: locks, Cordon: &activities.CordonResult{CordonedByUs: true}}
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).WithdrawCluster)
}

func TestWorkloadsOfTheClusterThatDoNotLetGoEndTheMaintenanceBeforeItsNodeIsTouched(t *testing.T) {
	w := newWorld(t)
	clusterHeldOnce(w)
	w.fail["AwaitClusterLocks"] = always(temporal.Error(temporal.ErrLockTimedOut, "ceph did not let go of cluster c1 in time", nil))
	in := wholeMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireFailure[nodeStatus](w, temporal.ErrLockTimedOut)
	require.NotNil(t, w.inputs["AwaitClusterLocks"][0].(activities.ClusterLockInput).Deadline)
	require.NotContains(t, w.called(), "Cordon")
	require.Equal(t, "WithdrawClusterMaintenance", w.called()[len(w.called())-1])
}

func TestTheMaintenanceOfARolloutLeavesTheClusterToTheRollout(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	in := wholeMaintenance()
	in.Parent, in.TaskQueue, in.Slot = "cgu/ops/june/c1", temporal.TaskQueue, nil
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.False(t, w.inputs["TakeNode"][0].(activities.TakeNodeInput).WithCluster)
	require.False(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).WithdrawCluster)
	require.NotContains(t, w.called(), "WithdrawClusterMaintenance")
}
