package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// The answer comes when the window has closed, and the node is out of service.
func TestWhatBecomesOfAMaintenanceWhoseWindowClosesWhileItsNodeIsTaken(t *testing.T) {
	handedOverAfter := map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Minute, drydockv1.OverrunPause: 24*time.Hour + time.Minute, drydockv1.OverrunCancel: 0,
	}
	for action, after := range handedOverAfter {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = action
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
			w.fail["TakeNode"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			if action == drydockv1.OverrunPause {
				w.lookAfter(23*time.Hour, func() { require.NotContains(t, w.called(), "Drain") })
				w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			}
			if after > 0 {
				w.lookAfter(after, func() {
					require.True(t, statusOf[nodeStatus](w).HandedOver)
					require.Nil(t, statusOf[nodeStatus](w).Held, "nothing holds it any more")
					w.SignalWorkflow(temporal.SignalDone, nil)
				})
			}
			in := maintenanceInWindow()
			in.Object.Spec.Action = nil
			w.ExecuteWorkflow(NodeMaintenance, in)
			if action != drydockv1.OverrunCancel {
				requireResult[nodeStatus](w)
				return
			}
			require.Contains(t, requireCancelled[nodeStatus](w).Notes[0], "cancelled by window ops/night")
			require.NotContains(t, w.called(), "Drain")
		})
	}
}

// It may wait for thousands of openings before it has its turn.
func TestAMaintenanceThatWaitsForItsWindowContinuesAsNew(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, start.Add(24*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 150*time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	in := handedOn[NodeMaintenanceInput](w)
	require.NotNil(t, in)
	require.WithinDuration(t, start.Add(150*time.Minute), w.Now(), time.Minute)
	require.NotContains(t, w.called(), "ReturnNode", "nothing is taken back: it goes on")

	second := newWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	second.lookAfter(20*time.Hour, func() {
		require.Empty(t, second.schedulerCalls)
		require.Equal(t, emergency.ReasonWaitingForWindow, statusOf[nodeStatus](second).Wait.Reason)
	})
	second.tells(21*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	second.ExecuteWorkflow(NodeMaintenance, *in)
	status := requireResult[nodeStatus](second)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.WithinDuration(t, start, status.StartedAt.Time, time.Second)
	require.NotContains(t, second.called(), "CheckNodeMaintenance")
	require.NotContains(t, second.called(), "FollowHolds", "it follows already")
}

// In no opening it has had its turn: it gives back what it has asked for, and asks anew with a higher number.
func TestAMaintenanceThatWaitsForItsTurnInManyOpeningsContinuesAsNewWhenOneCloses(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.slots = 0
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.lookAfter(3*time.Hour, func() { require.False(t, w.IsWorkflowCompleted(), "it may have its turn any moment") })
	w.tells(4*time.Hour, opensAt(2, start.Add(24*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	in := handedOn[NodeMaintenanceInput](w)
	require.NotNil(t, in)
	require.WithinDuration(t, start.Add(4*time.Hour), w.Now(), time.Minute)
	require.Equal(t, int64(1), in.Carried.Asked)
	require.True(t, w.book.Empty(), "it asks for nothing")

	second := newWorld(t)
	second.SetStartTime(w.Now())
	second.tells(20*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	second.ExecuteWorkflow(NodeMaintenance, *in)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](second).State)
	require.Equal(t, int64(2), second.schedulerCalls[0].Slots[0].Number)
}

// It is said while the scheduler is told that the slot is not asked for any more.
func TestAMaintenanceThatIsCancelledWhenItContinuesAsNewIsCancelled(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.slots = 0
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour)))
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	}, 4*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
}
