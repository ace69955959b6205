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

func TestAMaintenanceBeginsAtTheStartOfAnOpeningThatWasConfirmed(t *testing.T) {
	w := newWorld(t)
	opening := w.Now().Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: confirmed(1, opening)}
	w.RegisterDelayedCallback(func() { require.Empty(t, w.scheduler.sets) }, 10*time.Hour-time.Second)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Nil(t, requireResult[nodeStatus](w).Held)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

// maintenanceInWindow is one that nobody's rollout has, and may begin while the window is open.
func maintenanceInWindow() NodeMaintenanceInput {
	in := wholeMaintenance()
	in.Object.Namespace = "ops"
	in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return in
}

func TestAMaintenanceAsksForNoSlotWhileItsWindowIsClosed(t *testing.T) {
	w := newWorld(t)
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, w.Now().Add(10*time.Hour))}
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.scheduler.sets)
		require.NotContains(t, w.called(), "TakeNode")
		status := statusOf[nodeStatus](w)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.Equal(t, nightWindow, status.Held.Window)
	}, 9*time.Hour)
	w.tells(10*time.Hour, openUntil(2, w.Now().Add(14*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Nil(t, requireResult[nodeStatus](w).Held)
}

func TestWhatBecomesOfAMaintenanceWhoseWindowCloses(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunFinish, drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			open, closed := openUntil(1, start.Add(4*time.Hour)), opensAt(2, start.Add(24*time.Hour))
			open.OnOverrun, closed.OnOverrun = action, action
			w.windows = map[string]windows.Standing{nightWindow: open}
			w.fail["AwaitPodCompletion"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			again := openUntil(3, start.Add(28*time.Hour))
			if action == drydockv1.OverrunPause {
				w.RegisterDelayedCallback(func() {
					require.NotContains(t, w.called(), "Drain")
					require.Equal(t, emergency.ReasonWaitingForWindow, statusOf[nodeStatus](w).Wait.Reason)
				}, 23*time.Hour)
				w.tells(24*time.Hour, again)
			}
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			if action == drydockv1.OverrunCancel {
				status := requireCancelled[nodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				require.Contains(t, status.Notes[0], "cancelled by window ops/night")
				require.Contains(t, w.called(), "ReturnNode")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
			require.Contains(t, w.called(), "Drain")
		})
	}
}

func TestAWindowThatClosesTakesTheNodeBackFromAllItsRequestors(t *testing.T) {
	for name, test := range map[string]struct{ handedOver bool }{
		"while pods end by themselves": {},
		"who have the node":            {handedOver: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = drydockv1.OverrunCancel
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
			w.blocked["AwaitPodCompletion"] = !test.handedOver
			in := maintenanceInWindow()
			in.Object.Spec.Action = nil
			in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com", "net.example.com"}
			w.RegisterDelayedCallback(func() { require.Equal(t, test.handedOver, statusOf[nodeStatus](w).HandedOver) }, 2*time.Hour)
			w.tells(4*time.Hour, closed)
			w.simulateAfter(5*time.Hour, func() { require.Fail(t, "it waits for the next opening") })
			w.ExecuteWorkflow(NodeMaintenance, in)

			status := requireCancelled[nodeStatus](w)
			require.Contains(t, status.Notes[len(status.Notes)-1], "cancelled by window ops/night")
			require.Contains(t, w.called(), "ReturnNode")
			require.Len(t, status.Notes, 1)
			for _, requestor := range status.Requestors {
				require.Equal(t, maintenancev1.RequestorLeft, requestor.State)
			}
		})
	}
}

// An emergency stop does not end because a window opens, nor the other way round.
func TestAMaintenanceBeginsWhenNeitherTheEmergencyStopNorItsWindowHoldsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		opens, released time.Duration
		waits           string
	}{
		"the window opens first":     {5 * time.Hour, 10 * time.Hour, emergency.ReasonHeld},
		"the release comes first":    {10 * time.Hour, 5 * time.Hour, emergency.ReasonWaitingForWindow},
		"the window is open already": {0, 10 * time.Hour, emergency.ReasonHeld},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			w.held = heldState(1, drydockv1.HoldAll)
			w.windows = map[string]windows.Standing{nightWindow: opensAt(1, start.Add(tt.opens))}
			w.tells(tt.opens, openUntil(2, start.Add(14*time.Hour)))
			w.releaseAfter(tt.released, 2)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, w.called(), "TakeNode")
				require.Equal(t, tt.waits, statusOf[nodeStatus](w).Wait.Reason)
			}, 7*time.Hour)
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			requireResult[nodeStatus](w)
			require.WithinDuration(t, start.Add(10*time.Hour), w.Now(), time.Minute)
		})
	}
}

// A window that has closed lets it finish; the emergency stop does not.
func TestANodeAtWorkWhoseWindowHasClosedIsHeldByTheEmergencyStopAllTheSame(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, drydockv1.HoldAll))
		w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour)))
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.NotContains(t, w.called(), "Drain")
		require.Equal(t, emergency.ReasonHeld, statusOf[nodeStatus](w).Wait.Reason)
	}, 5*time.Hour)
	w.releaseAfter(6*time.Hour, 3)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	requireResult[nodeStatus](w)
	require.WithinDuration(t, start.Add(6*time.Hour), w.Now(), time.Minute, "the closed window lets it finish")
}

func TestWhatBecomesOfANodeAtWorkWhenTheOverrideOfItsWindowExpires(t *testing.T) {
	for action, ends := range map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Hour, drydockv1.OverrunPause: 24 * time.Hour, drydockv1.OverrunCancel: time.Hour,
	} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(1, start.Add(24*time.Hour))
			closed.OnOverrun = action
			overridden := closed
			overridden.Override = &windows.Override{By: "ann", Reason: "CVE", Since: start, Until: start.Add(time.Hour)}
			w.windows = map[string]windows.Standing{nightWindow: overridden}
			closed.Number = 2
			w.RegisterDelayedCallback(func() {
				require.Equal(t, maintenancev1.NodeWaitForPodCompletion, statusOf[nodeStatus](w).State)
				w.SignalWorkflow(temporal.SignalWindow, closed)
			}, time.Hour)
			w.fail["AwaitPodCompletion"] = func(int) error { // it takes until the override has expired
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			require.WithinDuration(t, start.Add(ends), w.Now(), 20*time.Minute)
			if action == drydockv1.OverrunCancel {
				require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
				require.NotContains(t, w.called(), "Drain")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
		})
	}
}

// inBoth are two windows of a maintenance, of which the second begins when the first ends. Each returns what is at work.
func inBoth(early, late windows.Standing) map[string]windows.Standing {
	early.Window, early.OnOverrun, late.Window, late.OnOverrun = "ops/early", drydockv1.OverrunCancel, "ops/late", drydockv1.OverrunCancel
	return map[string]windows.Standing{early.Window: early, late.Window: late}
}

func TestANodeAtWorkPassesFromOneWindowToTheNext(t *testing.T) {
	for name, opens := range map[string]bool{"that opens a moment later": true, "but not when that was cancelled in the last moment": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			seam := start.Add(time.Hour)
			w.windows = inBoth(openUntil(1, seam), opensAt(1, seam))
			closed := inBoth(opensAt(2, start.Add(24*time.Hour)), openUntil(2, seam.Add(4*time.Hour)))
			w.tells(time.Hour, closed["ops/early"])
			late := closed["ops/late"]
			if !opens {
				late.Outlook.Openings = late.Outlook.Openings[1:]
			}
			w.tells(time.Hour+5*time.Second, late)
			w.fail["AwaitPodCompletion"] = func(int) error {
				if w.Now().Before(seam.Add(time.Minute)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			in := maintenanceInWindow()
			in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"early", "late"}
			w.ExecuteWorkflow(NodeMaintenance, in)
			if opens {
				require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
				return
			}
			require.Contains(t, requireCancelled[nodeStatus](w).Notes[0], "cancelled by window ops/early, ops/late")
		})
	}
}

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
				w.RegisterDelayedCallback(func() { require.NotContains(t, w.called(), "Drain") }, 23*time.Hour)
				w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			}
			if after > 0 {
				w.RegisterDelayedCallback(func() {
					require.True(t, statusOf[nodeStatus](w).HandedOver)
					require.Nil(t, statusOf[nodeStatus](w).Held, "nothing holds it any more")
					w.SignalWorkflow(temporal.SignalDone, nil)
				}, after)
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
	second.RegisterDelayedCallback(func() {
		require.Empty(t, second.scheduler.sets)
		require.Equal(t, emergency.ReasonWaitingForWindow, statusOf[nodeStatus](second).Wait.Reason)
	}, 20*time.Hour)
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
	w.scheduler.capacity = 0
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { require.False(t, w.IsWorkflowCompleted(), "it may have its turn any moment") }, 3*time.Hour)
	w.tells(4*time.Hour, opensAt(2, start.Add(24*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	in := handedOn[NodeMaintenanceInput](w)
	require.NotNil(t, in)
	require.WithinDuration(t, start.Add(4*time.Hour), w.Now(), time.Minute)
	require.Equal(t, int64(1), in.Carried.Slots.Number)
	require.True(t, w.scheduler.state.Empty(), "it asks for nothing")

	second := newWorld(t)
	second.SetStartTime(w.Now())
	second.tells(20*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	second.ExecuteWorkflow(NodeMaintenance, *in)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](second).State)
	require.Equal(t, int64(2), second.scheduler.sets[0].Slots[0].Number)
}

// It is said while the scheduler is told that the slot is not asked for any more.
func TestAMaintenanceThatIsCancelledWhenItContinuesAsNewIsCancelled(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.scheduler.capacity = 0
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour)))
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	}, 4*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
}
