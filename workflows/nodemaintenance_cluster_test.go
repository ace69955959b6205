package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
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
	for _, name := range []drydockv1.Stage{ranv1.StageClusterMaintenanceRequested, ranv1.StageClusterWorkloadLocksInactive, ranv1.StageClusterMaintenanceRemoved} {
		stage := stageKeeper{stages: &status.Stages}.stage(name)
		require.NotNil(t, stage, "%s", name)
		require.True(t, stage.Succeeded)
		require.Empty(t, stage.Message)
	}
}

func TestTheRequestForTheClusterIsWithdrawnAlsoWhereTheNodeIsNotAsked(t *testing.T) {
	w := newWorld(t)
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		locks := activities.NodeLocks{Skipped: true, Inactive: true, ClusterRequestUID: "uid-of-request"}
		return activities.TakeNodeResult{Locks: locks, Cordon: &activities.CordonResult{CordonedByUs: true}}
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	status := requireResult[nodeStatus](w)
	stages := stageKeeper{stages: &status.Stages}
	require.Equal(t, "no lock holds the node, and annotation lcm.mirantis.com/skip-maintenance forbids to ask for it",
		stages.stage(maintenancev1.StageNodeMaintenanceRequested).Message)
	require.True(t, stages.stage(ranv1.StageClusterMaintenanceRequested).Succeeded)
	require.True(t, stages.stage(ranv1.StageClusterWorkloadLocksInactive).Succeeded, "nobody had to be waited for")
	for _, stage := range status.Stages {
		require.NotContains(t, stage.Message, "no workload locks", "%s", stage.Stage)
	}
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

// A lock of the cluster may be made while a rollout is at work, or taken back when somebody has deleted its request.
func TestTheMaintenanceOfARolloutAsksTheClusterItselfWhenALockHoldsItAllTheSame(t *testing.T) {
	w := newWorld(t)
	var asked []bool
	play(w, "TakeNode", func(in activities.TakeNodeInput) any {
		asked = append(asked, in.WithCluster)
		if len(asked) < 3 {
			return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true, ClusterHeld: true}}
		}
		return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true}}
	})
	w.fail["Cordon"] = once(temporal.Error(temporal.ErrLockRefused, "lock tf-n1 is active", nil))
	w.ExecuteWorkflow(NodeMaintenance, ofRollout())

	requireResult[nodeStatus](w)
	require.Equal(t, []bool{false, true, true, true}, asked)
	require.Equal(t, []string{"TakeNode", "TakeNode", "AwaitClusterLocks", "TakeNode", "AwaitNodeLocks", "Cordon", "TakeNode", "AwaitNodeLocks", "Cordon"}, w.called()[:9])
	require.True(t, w.inputs["AwaitClusterLocks"][0].(activities.ClusterLockInput).Requested)
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).WithdrawCluster)
	require.Contains(t, w.called(), "WithdrawClusterMaintenance")
}

func TestARequestThatSomebodyDeletedIsMadeAgain(t *testing.T) {
	gone := temporal.Error(temporal.ErrLockRefused, "somebody has deleted maintenance request drydock-1234", nil)
	w := newWorld(t)
	w.locked = true
	w.fail["AwaitNodeLocks"] = once(gone)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Contains(t, requireResult[nodeStatus](w).Notes[0], "somebody has deleted maintenance request")
	require.Len(t, w.inputs["TakeNode"], 2)
	require.True(t, w.inputs["AwaitNodeLocks"][0].(activities.NodeLockInput).Requested)

	w, nodes := newClusterWorld(t, 0, 1, 1)
	w.fail["AwaitClusterLocks"] = once(gone)
	in := oneCluster()
	in.Remediation.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(ClusterUpgrade, in)
	requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"+w0", "-w0"}, nodes.events)
	require.Len(t, w.inputs["RequestClusterMaintenance"], 2)
	require.Equal(t, w.inputs["AwaitClusterLocks"][0], w.inputs["AwaitClusterLocks"][1], "until the same deadline")
	require.True(t, w.inputs["AwaitClusterLocks"][0].(activities.ClusterLockInput).Requested)
}

// An application may let go of a node that is only drained, and not of one that is restarted.
func TestLocksAreAskedForARestartUnlessTheWorkIsKnownToDoWithout(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action *maintenancev1.Action
		scope  lcmv1.Scope
	}{
		{"nothing is known of the work", nil, lcmv1.ScopeOS},
		{"nothing is known of the job", &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: "ops"}}, lcmv1.ScopeOS},
		{"it restarts the node", &maintenancev1.Action{RebootsNode: new(true)}, lcmv1.ScopeOS},
		{"it does not", &maintenancev1.Action{RebootsNode: new(false)}, lcmv1.ScopeDrain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			in := ofRollout()
			in.Object.Spec.Action = tt.action
			w.ExecuteWorkflow(NodeMaintenance, in)
			requireResult[nodeStatus](w)
			require.Equal(t, tt.scope, w.inputs["TakeNode"][0].(activities.TakeNodeInput).Scope)

			c, _ := newClusterWorld(t, 0, 1, 1)
			whole := oneCluster()
			whole.Remediation.Action = tt.action
			c.ExecuteWorkflow(ClusterUpgrade, whole)
			requireResult[ranv1.ClusterStatus](c)
			require.Equal(t, tt.scope, c.inputs["RequestClusterMaintenance"][0].(activities.ClusterLockInput).Scope)
		})
	}
}
