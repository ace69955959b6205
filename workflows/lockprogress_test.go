package workflows

import (
	"testing"

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
		c.nodes.ended(ctx, "w0", nodeStatus{State: maintenancev1.NodeCompleted, LockProgress: updated(2)}, nil, true)
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
