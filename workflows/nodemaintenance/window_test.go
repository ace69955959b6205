package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAMaintenanceStartsWithAConfirmedOpening(t *testing.T) {
	w := workflowtest.NewWorld(t)
	opening := w.Now().Add(10 * time.Hour)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.ConfirmedOpening(1, opening)}
	w.RegisterDelayedCallback(func() { require.Empty(t, w.Scheduler.Sets) }, 10*time.Hour-time.Second)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	require.Nil(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Held)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

func TestAMaintenanceRequestsNoSlotWhileItsWindowIsClosed(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, w.Now().Add(10*time.Hour))}
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.Scheduler.Sets)
		require.NotContains(t, w.Called(), "AcquireNode")
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.Equal(t, workflowtest.NightWindow, status.Held.Window)
	}, 9*time.Hour)
	w.ReceiveWindow(10*time.Hour, workflowtest.OpenUntil(2, w.Now().Add(14*time.Hour)))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	require.Nil(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Held)
}

func TestAClosingWindowInEachState(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunFinish, drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		t.Run(string(action), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			open, closed := workflowtest.OpenUntil(1, start.Add(4*time.Hour)), workflowtest.OpensAt(2, start.Add(24*time.Hour))
			open.OnOverrun, closed.OnOverrun = action, action
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: open}
			w.Fail["AwaitPodCompletion"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			again := workflowtest.OpenUntil(3, start.Add(28*time.Hour))
			if action == drydockv1.OverrunPause {
				w.RegisterDelayedCallback(func() {
					require.NotContains(t, w.Called(), "Drain")
					require.Equal(t, emergency.ReasonWaitingForWindow, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
				}, 23*time.Hour)
				w.ReceiveWindow(24*time.Hour, again)
			}
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
			if action == drydockv1.OverrunCancel {
				status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				require.Contains(t, status.Notes[0], "cancelled by window ops/night")
				require.Contains(t, w.Called(), "ReturnNode")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
			require.Contains(t, w.Called(), "Drain")
		})
	}
}

func TestAClosingWindowReturnsTheNodeOfAllRequestors(t *testing.T) {
	for name, test := range map[string]struct{ ready bool }{
		"while pods finish":       {},
		"while the node is ready": {ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			closed := workflowtest.OpensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = drydockv1.OverrunCancel
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
			w.Blocked["AwaitPodCompletion"] = !test.ready
			in := workflowtest.MaintenanceInWindow()
			in.Object.Spec.Action = nil
			in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com", "net.example.com"}
			w.RegisterDelayedCallback(func() {
				require.Equal(t, test.ready, workflowtest.StatusOf[workflowtest.NodeStatus](w).ReadyForRequestors)
			}, 2*time.Hour)
			w.ReceiveWindow(4*time.Hour, closed)
			w.SimulateAfter(5*time.Hour, func() { require.Fail(t, "the maintenance must be cancelled") })
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

			status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
			require.Contains(t, status.Notes[len(status.Notes)-1], "cancelled by window ops/night")
			require.Contains(t, w.Called(), "ReturnNode")
			require.Len(t, status.Notes, 1)
			for _, requestor := range status.Requestors {
				require.Equal(t, maintenancev1.RequestorLeft, requestor.State)
			}
		})
	}
}

// An opening does not end a hold, and a release does not open a window.
func TestAMaintenanceStartsWithoutHoldInAnOpenWindow(t *testing.T) {
	for name, tt := range map[string]struct {
		opens, released time.Duration
		waits           string
	}{
		"the window opens first":     {5 * time.Hour, 10 * time.Hour, emergency.ReasonHeld},
		"the release comes first":    {10 * time.Hour, 5 * time.Hour, emergency.ReasonWaitingForWindow},
		"the window is open already": {0, 10 * time.Hour, emergency.ReasonHeld},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			w.Holds = workflowtest.HeldState(1, drydockv1.HoldAll)
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, start.Add(tt.opens))}
			w.ReceiveWindow(tt.opens, workflowtest.OpenUntil(2, start.Add(14*time.Hour)))
			w.ReleaseAfter(tt.released, 2)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, w.Called(), "AcquireNode")
				require.Equal(t, tt.waits, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
			}, 7*time.Hour)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.WithinDuration(t, start.Add(10*time.Hour), w.Now(), time.Minute)
		})
	}
}

// A closed window lets started work finish; a hold does not.
func TestAHoldAppliesToANodeWhoseWindowHasClosed(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
	w.Fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, drydockv1.HoldAll))
		w.SignalWorkflow(temporal.SignalWindow, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.NotContains(t, w.Called(), "Drain")
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, 5*time.Hour)
	w.ReleaseAfter(6*time.Hour, 3)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.WithinDuration(t, start.Add(6*time.Hour), w.Now(), time.Minute, "it finishes after the release")
}

func TestAnExpiredWindowOverrideDuringTheWork(t *testing.T) {
	for action, ends := range map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Hour, drydockv1.OverrunPause: 24 * time.Hour, drydockv1.OverrunCancel: time.Hour,
	} {
		t.Run(string(action), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			closed := workflowtest.OpensAt(1, start.Add(24*time.Hour))
			closed.OnOverrun = action
			overridden := closed
			overridden.Override = &windows.Override{By: "ann", Reason: "CVE", Since: start, Until: start.Add(time.Hour)}
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: overridden}
			closed.Number = 2
			w.RegisterDelayedCallback(func() {
				require.Equal(t, maintenancev1.NodeWaitForPodCompletion, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
				w.SignalWorkflow(temporal.SignalWindow, closed)
			}, time.Hour)
			w.Fail["AwaitPodCompletion"] = func(int) error { // until the override has expired
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
			require.WithinDuration(t, start.Add(ends), w.Now(), 20*time.Minute)
			if action == drydockv1.OverrunCancel {
				require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
				require.NotContains(t, w.Called(), "Drain")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
		})
	}
}

// twoWindows are two windows with overrun action Cancel. The second opens when the first closes.
func twoWindows(early, late windows.Snapshot) map[string]windows.Snapshot {
	early.Window, early.OnOverrun, late.Window, late.OnOverrun = "ops/early", drydockv1.OverrunCancel, "ops/late", drydockv1.OverrunCancel
	return map[string]windows.Snapshot{early.Window: early, late.Window: late}
}

func TestWorkContinuesFromOneWindowIntoTheNext(t *testing.T) {
	for name, opens := range map[string]bool{"the next window opens": true, "the next opening was cancelled": false} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			seam := start.Add(time.Hour)
			w.Windows = twoWindows(workflowtest.OpenUntil(1, seam), workflowtest.OpensAt(1, seam))
			closed := twoWindows(workflowtest.OpensAt(2, start.Add(24*time.Hour)), workflowtest.OpenUntil(2, seam.Add(4*time.Hour)))
			w.ReceiveWindow(time.Hour, closed["ops/early"])
			late := closed["ops/late"]
			if !opens {
				late.Schedule.Openings = late.Schedule.Openings[1:]
			}
			w.ReceiveWindow(time.Hour+5*time.Second, late)
			w.Fail["AwaitPodCompletion"] = func(int) error {
				if w.Now().Before(seam.Add(time.Minute)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			in := workflowtest.MaintenanceInWindow()
			in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"early", "late"}
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			if opens {
				require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
				return
			}
			require.Contains(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).Notes[0], "cancelled by window ops/early, ops/late")
		})
	}
}

// The cordon succeeds after the window closed.
func TestAWindowThatClosesDuringTheCordon(t *testing.T) {
	readyAfter := map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Minute, drydockv1.OverrunPause: 24*time.Hour + time.Minute, drydockv1.OverrunCancel: 0,
	}
	for action, after := range readyAfter {
		t.Run(string(action), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			closed := workflowtest.OpensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = action
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
			w.Fail["AcquireNode"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			if action == drydockv1.OverrunPause {
				w.RegisterDelayedCallback(func() { require.NotContains(t, w.Called(), "Drain") }, 23*time.Hour)
				w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
			}
			if after > 0 {
				w.RegisterDelayedCallback(func() {
					require.True(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).ReadyForRequestors)
					require.Nil(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Held, "no hold applies")
					w.SignalWorkflow(temporal.SignalDone, nil)
				}, after)
			}
			in := workflowtest.MaintenanceInWindow()
			in.Object.Spec.Action = nil
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			if action != drydockv1.OverrunCancel {
				workflowtest.RequireResult[workflowtest.NodeStatus](w)
				return
			}
			require.Contains(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).Notes[0], "cancelled by window ops/night")
			require.NotContains(t, w.Called(), "Drain")
		})
	}
}

// The wait may include thousands of openings.
func TestAMaintenanceThatWaitsForItsWindowContinuesAsNew(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, start.Add(24*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 150*time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	in := workflowtest.NextRunInput[nodemaintenance.Input](w)
	require.NotNil(t, in)
	require.WithinDuration(t, start.Add(150*time.Minute), w.Now(), time.Minute)
	require.NotContains(t, w.Called(), "ReturnNode", "the next run continues, so nothing is undone")

	second := workflowtest.NewWorld(t) // the window sends no first state
	second.SetStartTime(w.Now())
	second.RegisterDelayedCallback(func() {
		require.Empty(t, second.Scheduler.Sets)
		require.Equal(t, emergency.ReasonWaitingForWindow, workflowtest.StatusOf[workflowtest.NodeStatus](second).Wait.Reason)
	}, 20*time.Hour)
	second.ReceiveWindow(21*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
	second.ExecuteWorkflow(nodemaintenance.NodeMaintenance, *in)
	status := workflowtest.RequireResult[workflowtest.NodeStatus](second)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.WithinDuration(t, start, status.StartedAt.Time, time.Second)
	require.NotContains(t, second.Called(), "CheckNodeMaintenance")
	require.NotContains(t, second.Called(), "SubscribeToHolds", "the subscription is still valid")
}

// It cancels its slot request, and sends one with a higher number in the next opening.
func TestAMaintenanceThatWaitsForASlotContinuesAsNewWhenItsWindowCloses(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Scheduler.Capacity = 0
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { require.False(t, w.IsWorkflowCompleted(), "it may get a slot at any moment") }, 3*time.Hour)
	w.ReceiveWindow(4*time.Hour, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	in := workflowtest.NextRunInput[nodemaintenance.Input](w)
	require.NotNil(t, in)
	require.WithinDuration(t, start.Add(4*time.Hour), w.Now(), time.Minute)
	require.Equal(t, int64(1), in.Carried.Slots.Number)
	require.True(t, w.Scheduler.State.Empty(), "it has no request")

	second := workflowtest.NewWorld(t)
	second.SetStartTime(w.Now())
	second.ReceiveWindow(20*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
	second.ExecuteWorkflow(nodemaintenance.NodeMaintenance, *in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](second).State)
	require.Equal(t, int64(2), second.Scheduler.Sets[0].Slots[0].Number)
}

// The cancel arrives during the cancellation of the slot request.
func TestACancelDuringContinueAsNewInAWindowIsHandled(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Scheduler.Capacity = 0
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalWindow, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	}, 4*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
}
