package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// updated is the progress of an application with two nodes.
func updated(nodes int32) []drydockv1.LockProgress {
	return []drydockv1.LockProgress{{Controller: "tf", Percentage: 50 * nodes, Updated: nodes, Total: 2}}
}

func TestAMaintenanceTellsHowFarApplicationsHaveCome(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	play(w, "Cordon", func(activities.CordonInput) any {
		return activities.CordonResult{CordonedByUs: true, NodeUID: takenUID, LockProgress: updated(1)}
	})
	w.blocked["Drain"] = true
	w.when(func() bool { return len(statusOf[nodeStatus](w).LockProgress) > 0 }, func() {
		require.Equal(t, updated(1), statusOf[nodeStatus](w).LockProgress)
		w.CancelWorkflow()
	})
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{LockProgress: updated(2)} })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Equal(t, updated(2), requireCancelled[nodeStatus](w).LockProgress)
}

func TestALockThatHoldsANodeDuringItsMaintenanceIsRecordedAndStopsNothing(t *testing.T) {
	held := []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "tf holds it"}}
	note := "NodeWorkloadLock tf-n1 held the node again before it was returned: tf holds it"
	w := newWorld(t)
	w.locked = true
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{LocksHeld: held} })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Contains(t, requireResult[nodeStatus](w).Notes, note)

	w = newWorld(t)
	w.locked = true
	w.fail["AwaitNodeLocks"] = always(temporal.Error(temporal.ErrLockTimedOut, "tf did not let go", nil))
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{LocksHeld: held} })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.NotContains(t, requireFailure[nodeStatus](w, temporal.ErrLockTimedOut).Notes, note, "it never had the node")
}

func TestALockThatHoldsANodeForAWhileDuringTheDrainIsRecordedThen(t *testing.T) {
	tf := drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "tf holds it"}
	ceph := drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "ceph-n1", Message: "ceph holds it"}
	w := newWorld(t)
	w.locked, w.blocked["Drain"] = true, true
	w.heldAgain = [][]drydockv1.Blocker{{tf}, {ceph}}
	play(w, "Cordon", func(activities.CordonInput) any {
		return activities.CordonResult{CordonedByUs: true, NodeUID: takenUID, HasLocks: true}
	})
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any {
		tf.Message = "tf holds it: it is back"
		return activities.ReturnNodeResult{LocksHeld: []drydockv1.Blocker{tf}}
	})
	notes := []string{
		"NodeWorkloadLock tf-n1 held the node again before it was returned: tf holds it",
		"NodeWorkloadLock ceph-n1 held the node again before it was returned: ceph holds it",
	}
	w.when(func() bool { return len(w.inputsOf("AwaitHeldAgain")) == 3 }, func() {
		require.Equal(t, maintenancev1.NodeDraining, statusOf[nodeStatus](w).State, "it stops nothing")
		require.Equal(t, notes, statusOf[nodeStatus](w).Notes)
		w.CancelWorkflow()
	})
	w.simulateAfter(time.Minute, w.CancelWorkflow) // if it is not seen
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Equal(t, notes, requireCancelled[nodeStatus](w).Notes, "each once")
	require.Equal(t, []string{"tf-n1", "ceph-n1"}, w.inputs["AwaitHeldAgain"][2].(activities.AwaitHeldAgainInput).Known)

	w = newWorld(t)
	w.locked = true
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
	require.Empty(t, w.inputsOf("AwaitHeldAgain"), "the node has no locks")
}

func TestARolloutFollowsTheLocksOfItsClustersOnceItHasSeenSome(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.takes = time.Hour
	at := func(after time.Duration, signal string, payload any) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signal, payload) }, after)
	}
	node := ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining}
	at(5*time.Minute, temporal.SignalNodeProgress, node)
	w.RegisterDelayedCallback(func() { require.Empty(t, w.inputsOf("FollowLocks"), "nobody holds any") }, 6*time.Minute)
	node.LockProgress = updated(0)
	at(7*time.Minute, temporal.SignalNodeProgress, node)
	at(8*time.Minute, temporal.SignalObserved, temporal.Observation{Activity: "FollowLocks", LockProgress: updated(1)})
	at(9*time.Minute, temporal.SignalNodeProgress, node)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.inputsOf("FollowLocks"), 1)
		require.Equal(t, updated(1), statusOf[ranv1.ClusterUpgradeStatus](w).LockProgress, "what the node had seen is older")
	}, 10*time.Minute)
	at(11*time.Minute, temporal.SignalObserved, temporal.Observation{Activity: "FollowLocks"})
	w.RegisterDelayedCallback(func() {
		require.Empty(t, statusOf[ranv1.ClusterUpgradeStatus](w).LockProgress, "the last lock is gone")
	}, 12*time.Minute)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
}

func TestARolloutFollowsTheLocksOfAClusterOnThatDoesNotAnswerForAWhile(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 1, 1)
	nodes.takes = 3 * time.Hour
	start := w.Now()
	play(w, "FollowLocks", func(activities.ClusterLockInput) any { return nil })
	w.blocked["FollowLocks"] = true
	w.fail["FollowLocks"] = func(int) error {
		if w.Now().Before(start.Add(time.Hour)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalNodeProgress, ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining, LockProgress: updated(0)})
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		asked := w.inputsOf("FollowLocks")
		require.True(t, asked[len(asked)-1].(activities.ClusterLockInput).Deadline.After(start.Add(time.Hour)))
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
}

func TestAMaintenanceThatWaitsForLocksTellsHowFarApplicationsHaveCome(t *testing.T) {
	w := newWorld(t)
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true}, LockProgress: updated(0)}
	})
	w.blocked["AwaitNodeLocks"] = true
	seen := false
	w.when(func() bool { return len(w.inputsOf("AwaitNodeLocks")) > 0 }, func() {
		seen = true
		require.Equal(t, updated(0), statusOf[nodeStatus](w).LockProgress, "its node is not taken yet")
		w.CancelWorkflow()
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.True(t, seen)
	requireCancelled[nodeStatus](w)
}

func TestTheNodeThatIsNamedIsTheOneWhoseLockHasFailed(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) (ranv1.ClusterStatus, error) {
		c, err := newClusterUpgrade(ctx, oneCluster())
		waits := func(name, reason string) ranv1.ClusterNodeStatus {
			return ranv1.ClusterNodeStatus{Name: name, State: maintenancev1.NodeScheduled, StartedAt: c.status.StartedAt, Wait: &drydockv1.Wait{Reason: reason}}
		}
		c.status.Nodes = []ranv1.ClusterNodeStatus{
			waits("w0", activities.ReasonWorkloadLocksHeld), waits("w1", activities.ReasonWorkloadLocksFailed), waits("w2", activities.ReasonWorkloadLocksHeld),
		}
		return c.record.summary(), err
	}, "")
	summary := requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, "w1: Scheduled", summary.Step)
	require.Equal(t, activities.ReasonWorkloadLocksFailed, summary.Reason)
}

func TestARolloutTellsHowFarApplicationsHaveComeUntilTheClusterIsOver(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) ([]ranv1.ClusterStatus, error) {
		c, err := newClusterUpgrade(ctx, oneCluster())
		c.status.Nodes = []ranv1.ClusterNodeStatus{{Name: "w0"}, {Name: "w1"}}
		told := []ranv1.ClusterStatus{c.record.summary()}
		c.nodes.running = []string{"w0"}
		c.nodes.progressed(ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining, LockProgress: updated(1)})
		told = append(told, c.record.summary())
		c.nodes.progressed(ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeReady})
		told = append(told, c.record.summary())
		c.nodes.ended(ctx, "w0", nodeStatus{State: maintenancev1.NodeCompleted, LockProgress: updated(2)}, nil)
		told = append(told, c.record.summary())
		require.Empty(t, c.status.Nodes[0].LockProgress, "it is kept once")
		c.status.State = ranv1.ClusterComplete
		return append(told, c.record.summary()), err
	}, "")
	var told [][]drydockv1.LockProgress
	for _, summary := range requireResult[[]ranv1.ClusterStatus](w) {
		told = append(told, summary.LockProgress)
	}
	require.Equal(t, [][]drydockv1.LockProgress{nil, updated(1), updated(1), updated(2), nil}, told, "the record of one that is over stays short")
}
