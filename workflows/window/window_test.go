package window_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAWindowNotifiesSubscribersAndReceiversAndContinuesAsNewAfterAnOpening(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	w.UpdateAfter(time.Second, temporal.UpdateDefine, workflowtest.DefineNight())
	next := w.NextRun(window.Input{})
	require.Empty(t, w.Refusals)
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
	require.Equal(t, []windows.EventKind{windows.EventUpcoming, windows.EventStarted, windows.EventCutoff, windows.EventEnded}, w.Sent())

	first, last := w.Notified[0], w.Notified[len(w.Notified)-1]
	require.Contains(t, first.Trouble, "the window is not defined")
	require.GreaterOrEqual(t, first.Number, workflowtest.Noon.UnixMicro(), "higher than the numbers of a terminated workflow of this window")
	require.Equal(t, workflowtest.Noon.AddDate(0, 0, 1).Add(10*time.Hour), last.Schedule.Openings[0].Start.UTC())
	opened := false
	for i, snapshot := range w.Notified {
		require.True(t, i == 0 || snapshot.Number > w.Notified[i-1].Number)
		opened = opened || len(snapshot.Schedule.Openings) > 0 && snapshot.Schedule.Openings[0].Begun
	}
	require.True(t, opened)
	require.Len(t, next.Carried.Subscribers, 1)
	require.Equal(t, []string{
		"Window enters a phase window=prod/night phase=Undefined",
		"Window event window=prod/night event=defined",
		"Window enters a phase window=prod/night phase=Closed",
		"Window event window=prod/night event=upcoming",
		"Window event window=prod/night event=started",
		"Window enters a phase window=prod/night phase=Open",
		"Window event window=prod/night event=cutoff",
		"Window enters a phase window=prod/night phase=Cutoff",
		"Window event window=prod/night event=ended",
		"Window enters a phase window=prod/night phase=Closed",
		"Window continues as new window=prod/night",
	}, w.Log.Lines("window", "phase", "event"))

	// No worker ran for two days.
	late := workflowtest.NewWindowWorld(t, workflowtest.Noon.AddDate(0, 0, 3))
	next = late.NextRun(next)
	require.Equal(t, []windows.EventKind{windows.EventMissed, windows.EventMissed}, late.Sent())
	require.Equal(t, workflowtest.Noon.AddDate(0, 0, 3).Add(10*time.Hour), next.Carried.State.Upcoming()[0].Start.UTC())
}

func TestAWindowCatchesUpInSeveralRuns(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, withoutReceivers())
	next := w.NextRun(window.Input{})

	back := workflowtest.Noon.AddDate(0, 2, 0)
	runs := 0
	for next.Carried.State.LastHandled.Before(back.AddDate(0, 0, -1)) {
		late := workflowtest.NewWindowWorld(t, back)
		late.SetContinueAsNewSuggested(true)
		next = late.NextRun(next)
		runs++
	}
	require.Greater(t, runs, 5)
}

// withoutReceivers is a window without receivers, which records its openings later.
func withoutReceivers() windows.DefineRequest {
	d := workflowtest.DefineNight()
	d.Object.Spec.Notify = nil
	return d
}

func TestSubscribersAreNotifiedBeforeAnOpeningStarts(t *testing.T) {
	for name, request := range map[string]windows.DefineRequest{"with receivers": workflowtest.DefineNight(), "without receivers": withoutReceivers()} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
			w.Subscribe(0)
			w.UpdateAfter(time.Second, temporal.UpdateDefine, request)
			notified := map[time.Duration]int{}
			for _, after := range []time.Duration{-2 * time.Minute, -29 * time.Second, 11 * time.Second} {
				w.RegisterDelayedCallback(func() { notified[after] = len(w.Notified) }, 10*time.Hour+after)
			}
			w.RegisterDelayedCallback(func() {
				last := w.Notified[len(w.Notified)-1:]
				require.False(t, windows.Ask(last, w.Now(), 0).Allowed)
				require.True(t, windows.Ask(last, workflowtest.Noon.Add(10*time.Hour), 0).Allowed)
			}, 10*time.Hour-time.Second)
			next := w.NextRun(window.Input{})
			require.Equal(t, notified[-2*time.Minute]+1, notified[-29*time.Second])
			require.Equal(t, notified[-29*time.Second], notified[11*time.Second])
			var opened []time.Time
			for _, event := range next.Carried.State.Events {
				if event.Kind == windows.EventStarted {
					opened = append(opened, event.At.UTC())
				}
			}
			require.Equal(t, []time.Time{workflowtest.Noon.Add(10 * time.Hour)}, opened)
		})
	}
}

// The window has not recorded the start of the opening yet.
func TestAnOpeningIsCurrentFromItsStart(t *testing.T) {
	justOpen := 10*time.Hour + time.Millisecond
	t.Run("it can be ended", func(t *testing.T) {
		w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
		w.Subscribe(0)
		w.UpdateAfter(0, temporal.UpdateDefine, withoutReceivers())
		w.UpdateAfter(justOpen, temporal.UpdateEnd, windows.EndRequest{})
		next := w.NextRun(window.Input{})
		require.Empty(t, w.Refusals)
		require.WithinDuration(t, workflowtest.Noon.Add(justOpen), w.Now(), time.Second)
		require.False(t, windows.Ask(w.Notified[len(w.Notified)-1:], w.Now(), 0).Allowed)
		var kinds []windows.EventKind
		for _, event := range next.Carried.State.Events {
			kinds = append(kinds, event.Kind)
		}
		require.Equal(t, []windows.EventKind{windows.EventDefined, windows.EventStarted, windows.EventCut, windows.EventEnded}, kinds)
	})
	t.Run("it keeps its end when the window is edited", func(t *testing.T) {
		w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
		w.Subscribe(0)
		w.UpdateAfter(0, temporal.UpdateDefine, withoutReceivers())
		edited := withoutReceivers()
		edited.Object.Spec.Recurrence = "FREQ=DAILY;BYHOUR=3"
		w.UpdateAfter(justOpen, temporal.UpdateEdit, edited)
		w.RegisterDelayedCallback(func() { require.True(t, windows.Ask(w.Notified[len(w.Notified)-1:], w.Now(), 0).Allowed) }, 13*time.Hour)
		w.NextRun(window.Input{})
		require.Empty(t, w.Refusals)
		require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
	})
}

func TestADeadReceiverDelaysNothing(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Fail["SendNotice"] = workflowtest.Always(errors.New("the receiver answers 503"))
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	next := w.NextRun(window.Input{})
	last := next.Carried.State.Events[len(next.Carried.State.Events)-1]
	require.Equal(t, windows.EventEnded, last.Kind)
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), last.At, 2*time.Second)
	require.Greater(t, len(w.Sent()), 4, "each notification is retried")
}

func TestANotificationIsRetried(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Fail["SendNotice"] = func(call int) error {
		if call < 8 {
			return errors.New("the receiver answers 503")
		}
		return nil
	}
	w.ExecuteWorkflow(window.WindowNotification, windows.Notice{ID: "1", URL: "https://receiver"})
	require.NoError(t, w.GetWorkflowError())
	require.Len(t, w.Sent(), 8)
}

func TestInvalidUpdatesOfAWindowAreRejected(t *testing.T) {
	other := workflowtest.DefineNight()
	other.Object.Name = "day"
	broken := workflowtest.DefineNight()
	broken.Object.Spec.TimeZone = "Mars/Olympus"
	for name, tt := range map[string]struct {
		update  string
		request any
		says    string
	}{
		"define twice":              {temporal.UpdateDefine, workflowtest.DefineNight(), "exists already"},
		"define another window":     {temporal.UpdateDefine, other, "is window prod/day, but this workflow is window prod/night"},
		"edit to an unknown zone":   {temporal.UpdateEdit, broken, "spec.timeZone"},
		"end a closed window":       {temporal.UpdateEnd, windows.EndRequest{}, "is not open"},
		"extend to an earlier end":  {temporal.UpdateExtend, windows.ExtendRequest{End: workflowtest.Noon.Add(11 * time.Hour)}, "end: "},
		"cancel a past opening":     {temporal.UpdateCancel, windows.CancelRequest{Start: workflowtest.Noon.Add(-time.Hour)}, "is in the past"},
		"override without a reason": {temporal.UpdateOverride, windows.OverrideRequest{Request: windows.Request{Actor: "ann"}, Until: workflowtest.Noon.Add(time.Hour)}, "reason: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
			w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
			w.UpdateAfter(time.Minute, tt.update, tt.request)
			next := w.NextRun(window.Input{})
			require.Len(t, w.Refusals, 1)
			require.Contains(t, w.Refusals[0], tt.says)
			require.Equal(t, "UTC", next.Carried.State.Window.Spec.TimeZone)
			require.Contains(t, w.Sent(), windows.EventStarted, "the window is unchanged")
		})
	}
}

func TestAWindowIsOpenedByAnOverrideAndClosedAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.UpdateAfter(time.Minute, temporal.UpdateOverride, windows.OverrideRequest{Request: windows.Request{Actor: "ann", Reason: "CVE"}, Until: workflowtest.Noon.Add(time.Hour)})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[windows.Status](w.World)
		require.Equal(t, windows.PhaseOverridden, status.Phase)
		require.Equal(t, []string{"cgu/ops/june"}, status.Subscribers)
		require.True(t, windows.Ask(w.Notified[len(w.Notified)-1:], w.Now(), 0).Allowed)
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() { require.False(t, windows.Ask(w.Notified[len(w.Notified)-1:], w.Now(), 0).Allowed) }, 61*time.Minute)
	w.NextRun(window.Input{})
	require.Equal(t, windows.EventOverridden, w.Sent()[0])
}

func TestAWindowWithoutSubscribersAndOpeningsEnds(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalUnsubscribeWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, time.Hour)
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError())
	require.WithinDuration(t, workflowtest.Noon.Add(time.Hour+kit.UnusedTime), w.Now(), 2*time.Second, "a window with a subscriber waits for its definition")
}

// Exclusions matter only to subscribers, and this window has none.
func TestAWindowWithoutOpeningsDoesNotWaitForItsExclusions(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	frozen := workflowtest.DefineNight()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "audit", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=14", Duration: "1h"},
	}}
	w.UpdateAfter(0, temporal.UpdateDefine, frozen)
	w.UpdateAfter(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError())
	require.Empty(t, w.Refusals)
	require.WithinDuration(t, workflowtest.Noon.Add(time.Minute+kit.UnusedTime), w.Now(), 2*time.Second)
}

func TestACancelledWindowNotifiesOfDistantExclusions(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	frozen := workflowtest.DefineNight()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "holidays", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{
			ScheduledStart: new(metav1.NewTime(workflowtest.Noon.AddDate(0, 0, 20))), ScheduledEnd: new(metav1.NewTime(workflowtest.Noon.AddDate(0, 0, 27))),
		},
	}}
	w.UpdateAfter(time.Second, temporal.UpdateDefine, frozen)
	w.UpdateAfter(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.RegisterDelayedCallback(func() {
		schedule := w.Notified[len(w.Notified)-1].Schedule
		require.Empty(t, schedule.Openings)
		require.True(t, schedule.Last)
		require.Equal(t, []windows.Span{{Start: workflowtest.Noon.AddDate(0, 0, 20), End: workflowtest.Noon.AddDate(0, 0, 27)}}, schedule.Excluded)
		w.SignalWorkflow(temporal.SignalUnsubscribeWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, 2*time.Minute)
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError())
	require.Empty(t, w.Refusals)
}

func TestCancellingTheWorkflowCancelsTheWindow(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.RegisterDelayedCallback(w.CancelWorkflow, 11*time.Hour)
	next := w.NextRun(window.Input{})
	require.True(t, next.Carried.State.Cancelled)
	require.WithinDuration(t, workflowtest.Noon.Add(11*time.Hour), w.Now(), 2*time.Second)

	last := workflowtest.NewWindowWorld(t, workflowtest.Noon.Add(11*time.Hour))
	last.ExecuteWorkflow(window.MaintenanceWindow, next)
	require.NoError(t, last.GetWorkflowError(), "the workflow completes")
}

func TestAWindowWhoseWorkflowWasCancelledCanBeDefinedAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour)
	w.UpdateAfter(time.Hour+time.Second, temporal.UpdateDefine, workflowtest.DefineNight())
	next := w.NextRun(window.Input{})
	require.Empty(t, w.Refusals)
	require.False(t, next.Carried.State.Cancelled)
	require.Contains(t, w.Sent(), windows.EventStarted)
}

// An exclusion of one window applies to all windows of a rollout.
func TestSubscribersAreNotifiedWhenAnExclusionStartsAndEnds(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	frozen := workflowtest.DefineNight()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "audit", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=13", Duration: "1h"},
	}}
	w.UpdateAfter(0, temporal.UpdateDefine, frozen)
	notified := map[time.Duration]int{}
	for _, after := range []time.Duration{30 * time.Minute, 90 * time.Minute, 150 * time.Minute} {
		w.RegisterDelayedCallback(func() { notified[after] = len(w.Notified) }, after)
	}
	w.NextRun(window.Input{})
	require.Empty(t, w.Refusals)
	require.Equal(t, notified[30*time.Minute]+1, notified[90*time.Minute])
	require.Equal(t, notified[30*time.Minute]+2, notified[150*time.Minute])
}
