package clusterupgrade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// updated is the progress of an application with two nodes.
func updated(nodes int32) []drydockv1.LockProgress {
	return []drydockv1.LockProgress{{Controller: "tf", Percentage: 50 * nodes, Updated: nodes, Total: 2}}
}

func TestAMaintenanceReportsTheProgressOfApplications(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "Cordon", func(node.CordonInput) any {
		return node.CordonResult{CordonedByUs: true, NodeUID: workflowtest.NodeUID, LockProgress: updated(1)}
	})
	w.Blocked["Drain"] = true
	w.When(func() bool { return len(workflowtest.StatusOf[workflowtest.NodeStatus](w).LockProgress) > 0 }, func() {
		require.Equal(t, updated(1), workflowtest.StatusOf[workflowtest.NodeStatus](w).LockProgress)
		w.CancelWorkflow()
	})
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{LockProgress: updated(2)} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Equal(t, updated(2), workflowtest.RequireCancelled[workflowtest.NodeStatus](w).LockProgress)
}

func TestALockThatBecomesActiveDuringAMaintenanceIsRecordedAndBlocksNothing(t *testing.T) {
	held := []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "tf holds it"}}
	note := "NodeWorkloadLock tf-n1 held the node again before it was returned: tf holds it"
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{LocksHeld: held} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, note)

	w = workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "tf did not release its lock", nil))
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{LocksHeld: held} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.NotContains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrLockTimedOut).Notes, note, "it never held the locks")
}

func TestALockThatIsTemporarilyActiveDuringTheDrainIsRecorded(t *testing.T) {
	tf := drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "tf holds it"}
	ceph := drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "ceph-n1", Message: "ceph holds it"}
	w := workflowtest.NewWorld(t)
	w.Locked, w.Blocked["Drain"] = true, true
	w.ReactivatedLocks = [][]drydockv1.Blocker{{tf}, {ceph}}
	workflowtest.Simulate(w, "Cordon", func(node.CordonInput) any {
		return node.CordonResult{CordonedByUs: true, NodeUID: workflowtest.NodeUID, HasLocks: true}
	})
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		tf.Message = "tf holds it: it is back"
		return node.ReturnNodeResult{LocksHeld: []drydockv1.Blocker{tf}}
	})
	notes := []string{
		"NodeWorkloadLock tf-n1 held the node again before it was returned: tf holds it",
		"NodeWorkloadLock ceph-n1 held the node again before it was returned: ceph holds it",
	}
	w.When(func() bool { return len(w.InputsOf("AwaitHeldAgain")) == 3 }, func() {
		require.Equal(t, maintenancev1.NodeDraining, workflowtest.StatusOf[workflowtest.NodeStatus](w).State, "the drain continues")
		require.Equal(t, notes, workflowtest.StatusOf[workflowtest.NodeStatus](w).Notes)
		w.CancelWorkflow()
	})
	w.SimulateAfter(time.Minute, w.CancelWorkflow) // if the lock is not observed
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Equal(t, notes, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).Notes, "each lock is recorded once")
	require.Equal(t, []string{"tf-n1", "ceph-n1"}, w.Inputs["AwaitHeldAgain"][2].(locks.AwaitHeldAgainInput).Known)

	w = workflowtest.NewWorld(t)
	w.Locked = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Empty(t, w.InputsOf("AwaitHeldAgain"), "the node has no locks")
}

func TestAClusterFollowsItsLocksAfterTheFirstReportOfANode(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Duration = time.Hour
	at := func(after time.Duration, signal string, payload any) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signal, payload) }, after)
	}
	node := ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining}
	at(5*time.Minute, temporal.SignalNodeProgress, node)
	w.RegisterDelayedCallback(func() { require.Empty(t, w.InputsOf("FollowLocks"), "no application holds a lock") }, 6*time.Minute)
	node.LockProgress = updated(0)
	at(7*time.Minute, temporal.SignalNodeProgress, node)
	at(8*time.Minute, temporal.SignalObserved, temporal.Observation{Activity: "FollowLocks", LockProgress: updated(1)})
	at(9*time.Minute, temporal.SignalNodeProgress, node)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.InputsOf("FollowLocks"), 1)
		require.Equal(t, updated(1), workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).LockProgress, "the report of the node is older")
	}, 10*time.Minute)
	at(11*time.Minute, temporal.SignalObserved, temporal.Observation{Activity: "FollowLocks"})
	w.RegisterDelayedCallback(func() {
		require.Empty(t, workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).LockProgress, "no application holds a lock")
	}, 12*time.Minute)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
}

func TestATemporarilyUnreachableClusterKeepsFollowingItsLocks(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	nodes.Duration = 3 * time.Hour
	start := w.Now()
	workflowtest.Simulate(w, "FollowLocks", func(locks.ClusterLockInput) any { return nil })
	w.Blocked["FollowLocks"] = true
	w.Fail["FollowLocks"] = func(int) error {
		if w.Now().Before(start.Add(time.Hour)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalNodeProgress, ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining, LockProgress: updated(0)})
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		inputs := w.InputsOf("FollowLocks")
		require.True(t, inputs[len(inputs)-1].(locks.ClusterLockInput).Deadline.After(start.Add(time.Hour)))
	}, 2*time.Hour)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
}

func TestAMaintenanceThatWaitsForLocksReportsTheProgressOfApplications(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}, LockProgress: updated(0)}
	})
	w.Blocked["AwaitNodeLocks"] = true
	seen := false
	w.When(func() bool { return len(w.InputsOf("AwaitNodeLocks")) > 0 }, func() {
		seen = true
		require.Equal(t, updated(0), workflowtest.StatusOf[workflowtest.NodeStatus](w).LockProgress, "its node is not cordoned yet")
		w.CancelWorkflow()
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.True(t, seen)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}
