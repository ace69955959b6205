package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// windowWorld plays those that follow the window prod/night, and its receivers.
type windowWorld struct {
	*world
	told []windows.Standing
	// refusals of updates that were rejected or failed.
	refusals []string
}

// noon is when the play begins.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func newWindowWorld(t *testing.T, now time.Time) *windowWorld {
	w := &windowWorld{world: newWorld(t)}
	w.SetStartTime(now)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "window/prod/night", TaskQueue: temporal.TaskQueue})
	w.RegisterActivity(&activities.Windows{})
	play(w.world, "SendNotice", func(windows.Notice) any { return nil })
	w.registerAs(temporal.WindowNotification, WindowNotification)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalWindow, mock.Anything).Return(
		func(_, _, _, _ string, standing any) error {
			w.told = append(w.told, standing.(windows.Standing))
			return nil
		}).Maybe()
	return w
}

// nightly opens at 22:00 for four hours, and tells one receiver an hour before.
func nightly() drydockv1.MaintenanceWindow {
	return drydockv1.MaintenanceWindow{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"},
		Spec: drydockv1.MaintenanceWindowSpec{
			TimeZone: "UTC", WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=22", Duration: "4h"}, Cutoff: "30m",
			Notify: []drydockv1.WindowNotification{{URL: "https://receiver", Leads: []drydockv1.Duration{"1h"}}},
		},
	}
}

// order sends an update a while after the beginning.
func (w *windowWorld) order(after time.Duration, update string, request any) {
	w.RegisterDelayedCallback(func() {
		refuse := func(err error) {
			if err != nil {
				w.refusals = append(w.refusals, err.Error())
			}
		}
		w.UpdateWorkflow(update, fmt.Sprintf("%s-%s", update, after), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: refuse, OnComplete: func(_ any, err error) { refuse(err) },
		}, request)
	}, after)
}

func (w *windowWorld) follows(after time.Duration) {
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalFollowWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, after)
}

// runsOn runs the window until it continues as new, and returns what it hands over.
func (w *windowWorld) runsOn(in MaintenanceWindowInput) MaintenanceWindowInput {
	w.t.Helper()
	w.ExecuteWorkflow(MaintenanceWindow, in)
	require.True(w.t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.GetWorkflowError(), &next)
	var out MaintenanceWindowInput
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out
}

func (w *windowWorld) sent() []windows.EventKind {
	var kinds []windows.EventKind
	for _, in := range w.inputsOf("SendNotice") {
		kinds = append(kinds, in.(windows.Notice).Body.Type)
	}
	return kinds
}

func defined() windows.DefineRequest {
	return windows.DefineRequest{Request: windows.Request{Actor: "ann"}, Object: nightly()}
}

func TestAWindowTellsItsFollowersAndReceiversAndRunsOnWithTheNextOpening(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.follows(0)
	w.order(time.Second, temporal.UpdateDefine, defined())
	next := w.runsOn(MaintenanceWindowInput{})
	require.Empty(t, w.refusals)
	require.WithinDuration(t, noon.Add(14*time.Hour), w.Now(), 2*time.Second)
	require.Equal(t, []windows.EventKind{windows.EventUpcoming, windows.EventStarted, windows.EventCutoff, windows.EventEnded}, w.sent())

	first, last := w.told[0], w.told[len(w.told)-1]
	require.Contains(t, first.Trouble, "nobody has defined it")
	require.GreaterOrEqual(t, first.Number, noon.UnixMicro(), "more than what a window of that name has told that was terminated")
	require.Equal(t, noon.AddDate(0, 0, 1).Add(10*time.Hour), last.Outlook.Openings[0].Start.UTC())
	opened := false
	for i, standing := range w.told {
		require.True(t, i == 0 || standing.Number > w.told[i-1].Number)
		opened = opened || len(standing.Outlook.Openings) > 0 && standing.Outlook.Openings[0].Begun
	}
	require.True(t, opened)
	require.Len(t, next.Carried.Followers, 1)

	// Nobody was there for two days.
	late := newWindowWorld(t, noon.AddDate(0, 0, 3))
	next = late.runsOn(next)
	require.Equal(t, []windows.EventKind{windows.EventMissed, windows.EventMissed}, late.sent())
	require.Equal(t, noon.AddDate(0, 0, 3).Add(10*time.Hour), next.Carried.Course.Coming()[0].Start.UTC())
}

func TestAWindowThatHasMuchToCatchUpWithDoesSoInSeveralRuns(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, unnoticed())
	next := w.runsOn(MaintenanceWindowInput{})

	back := noon.AddDate(0, 2, 0)
	runs := 0
	for next.Carried.Course.Dealt.Before(back.AddDate(0, 0, -1)) {
		late := newWindowWorld(t, back)
		late.SetContinueAsNewSuggested(true)
		next = late.runsOn(next)
		runs++
	}
	require.Greater(t, runs, 5)
}

// unnoticed is a window that sends word to nobody: then it takes down that it has opened a little later.
func unnoticed() windows.DefineRequest {
	d := defined()
	d.Object.Spec.Notify = nil
	return d
}

func TestFollowersAreToldBeforeTheStartAndNotAtIt(t *testing.T) {
	for name, request := range map[string]windows.DefineRequest{"also when receivers are told": defined(), "when nobody else is": unnoticed()} {
		t.Run(name, func(t *testing.T) {
			w := newWindowWorld(t, noon)
			w.follows(0)
			w.order(time.Second, temporal.UpdateDefine, request)
			told := map[time.Duration]int{}
			for _, after := range []time.Duration{-2 * time.Minute, -29 * time.Second, 11 * time.Second} {
				w.RegisterDelayedCallback(func() { told[after] = len(w.told) }, 10*time.Hour+after)
			}
			w.RegisterDelayedCallback(func() {
				last := w.told[len(w.told)-1:]
				require.False(t, windows.Ask(last, w.Now(), 0).Allowed)
				require.True(t, windows.Ask(last, noon.Add(10*time.Hour), 0).Allowed)
			}, 10*time.Hour-time.Second)
			next := w.runsOn(MaintenanceWindowInput{})
			require.Equal(t, told[-2*time.Minute]+1, told[-29*time.Second])
			require.Equal(t, told[-29*time.Second], told[11*time.Second])
			var opened []time.Time
			for _, event := range next.Carried.Course.Events {
				if event.Kind == windows.EventStarted {
					opened = append(opened, event.At.UTC())
				}
			}
			require.Equal(t, []time.Time{noon.Add(10 * time.Hour)}, opened)
		})
	}
}

// The window has not taken down yet that it has opened.
func TestAnOpeningIsAtHandFromItsStart(t *testing.T) {
	justOpen := 10*time.Hour + time.Millisecond
	t.Run("and can be ended", func(t *testing.T) {
		w := newWindowWorld(t, noon)
		w.follows(0)
		w.order(0, temporal.UpdateDefine, unnoticed())
		w.order(justOpen, temporal.UpdateEnd, windows.EndRequest{})
		next := w.runsOn(MaintenanceWindowInput{})
		require.Empty(t, w.refusals)
		require.WithinDuration(t, noon.Add(justOpen), w.Now(), time.Second)
		require.False(t, windows.Ask(w.told[len(w.told)-1:], w.Now(), 0).Allowed)
		var kinds []windows.EventKind
		for _, event := range next.Carried.Course.Events {
			kinds = append(kinds, event.Kind)
		}
		require.Equal(t, []windows.EventKind{windows.EventDefined, windows.EventStarted, windows.EventCut, windows.EventEnded}, kinds)
	})
	t.Run("and keeps its end when the window is edited", func(t *testing.T) {
		w := newWindowWorld(t, noon)
		w.follows(0)
		w.order(0, temporal.UpdateDefine, unnoticed())
		edited := unnoticed()
		edited.Object.Spec.Recurrence = "FREQ=DAILY;BYHOUR=3"
		w.order(justOpen, temporal.UpdateEdit, edited)
		w.RegisterDelayedCallback(func() { require.True(t, windows.Ask(w.told[len(w.told)-1:], w.Now(), 0).Allowed) }, 13*time.Hour)
		w.runsOn(MaintenanceWindowInput{})
		require.Empty(t, w.refusals)
		require.WithinDuration(t, noon.Add(14*time.Hour), w.Now(), 2*time.Second)
	})
}

func TestADeadReceiverHoldsUpNothing(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.fail["SendNotice"] = always(errors.New("the receiver answers 503"))
	w.order(0, temporal.UpdateDefine, defined())
	next := w.runsOn(MaintenanceWindowInput{})
	last := next.Carried.Course.Events[len(next.Carried.Course.Events)-1]
	require.Equal(t, windows.EventEnded, last.Kind)
	require.WithinDuration(t, noon.Add(14*time.Hour), last.At, 2*time.Second)
	require.Greater(t, len(w.sent()), 4, "each is tried again and again")
}

func TestAReceiverIsTriedAgain(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.fail["SendNotice"] = func(call int) error {
		if call < 8 {
			return errors.New("the receiver answers 503")
		}
		return nil
	}
	w.ExecuteWorkflow(WindowNotification, windows.Notice{ID: "1", URL: "https://receiver"})
	require.NoError(t, w.GetWorkflowError())
	require.Len(t, w.sent(), 8)
}

func TestOrdersThatCannotBeCarriedOutAreRefused(t *testing.T) {
	other := defined()
	other.Object.Name = "day"
	broken := defined()
	broken.Object.Spec.TimeZone = "Mars/Olympus"
	for name, tt := range map[string]struct {
		update  string
		request any
		says    string
	}{
		"to define it twice":              {temporal.UpdateDefine, defined(), "exists already"},
		"to define another":               {temporal.UpdateDefine, other, "is window prod/day, and this is window prod/night"},
		"to give it an unreadable zone":   {temporal.UpdateEdit, broken, "spec.timeZone"},
		"to end what is closed":           {temporal.UpdateEnd, windows.EndRequest{}, "is not open"},
		"to extend to before the end":     {temporal.UpdateExtend, windows.ExtendRequest{End: noon.Add(11 * time.Hour)}, "end: "},
		"to cancel what is past":          {temporal.UpdateCancel, windows.CancelRequest{Start: noon.Add(-time.Hour)}, "is past"},
		"an override that says no reason": {temporal.UpdateOverride, windows.OverrideRequest{Request: windows.Request{Actor: "ann"}, Until: noon.Add(time.Hour)}, "reason: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindowWorld(t, noon)
			w.order(0, temporal.UpdateDefine, defined())
			w.order(time.Minute, tt.update, tt.request)
			next := w.runsOn(MaintenanceWindowInput{})
			require.Len(t, w.refusals, 1)
			require.Contains(t, w.refusals[0], tt.says)
			require.Equal(t, "UTC", next.Carried.Course.Window.Spec.TimeZone)
			require.Contains(t, w.sent(), windows.EventStarted, "it goes on as it was")
		})
	}
}

func TestAWindowIsOpenedByAnOverrideAndClosedAgain(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.follows(0)
	w.order(0, temporal.UpdateDefine, defined())
	w.order(time.Minute, temporal.UpdateOverride, windows.OverrideRequest{Request: windows.Request{Actor: "ann", Reason: "CVE"}, Until: noon.Add(time.Hour)})
	w.RegisterDelayedCallback(func() {
		status := statusOf[windows.Status](w.world)
		require.Equal(t, windows.PhaseOverridden, status.Phase)
		require.Equal(t, []string{"cgu/ops/june"}, status.Followers)
		require.True(t, windows.Ask(w.told[len(w.told)-1:], w.Now(), 0).Allowed)
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() { require.False(t, windows.Ask(w.told[len(w.told)-1:], w.Now(), 0).Allowed) }, 61*time.Minute)
	w.runsOn(MaintenanceWindowInput{})
	require.Equal(t, windows.EventOverridden, w.sent()[0])
}

func TestAWindowThatNobodyNeedsEnds(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.follows(0)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalLeaveWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, time.Hour)
	w.ExecuteWorkflow(MaintenanceWindow, MaintenanceWindowInput{})
	require.NoError(t, w.GetWorkflowError())
	require.WithinDuration(t, noon.Add(time.Hour+forgotten), w.Now(), 2*time.Second, "while somebody follows it, it waits to be defined")
}

// Its exclusions count for other windows of those that follow it: of nobody.
func TestAWindowThatOpensNoMoreDoesNotWaitForItsExclusions(t *testing.T) {
	w := newWindowWorld(t, noon)
	frozen := defined()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "audit", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=14", Duration: "1h"},
	}}
	w.order(0, temporal.UpdateDefine, frozen)
	w.order(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.ExecuteWorkflow(MaintenanceWindow, MaintenanceWindowInput{})
	require.NoError(t, w.GetWorkflowError())
	require.Empty(t, w.refusals)
	require.WithinDuration(t, noon.Add(time.Minute+forgotten), w.Now(), 2*time.Second)
}

func TestAWindowThatWasCancelledTellsOfExclusionsThatAreFarAhead(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.follows(0)
	frozen := defined()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "holidays", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{
			ScheduledStart: new(metav1.NewTime(noon.AddDate(0, 0, 20))), ScheduledEnd: new(metav1.NewTime(noon.AddDate(0, 0, 27))),
		},
	}}
	w.order(time.Second, temporal.UpdateDefine, frozen)
	w.order(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.RegisterDelayedCallback(func() {
		outlook := w.told[len(w.told)-1].Outlook
		require.Empty(t, outlook.Openings)
		require.True(t, outlook.Last)
		require.Equal(t, []windows.Span{{Start: noon.AddDate(0, 0, 20), End: noon.AddDate(0, 0, 27)}}, outlook.Excluded)
		w.SignalWorkflow(temporal.SignalLeaveWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, 2*time.Minute)
	w.ExecuteWorkflow(MaintenanceWindow, MaintenanceWindowInput{})
	require.NoError(t, w.GetWorkflowError())
	require.Empty(t, w.refusals)
}

func TestToCancelTheWorkflowCancelsTheWindow(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, defined())
	w.RegisterDelayedCallback(w.CancelWorkflow, 11*time.Hour)
	next := w.runsOn(MaintenanceWindowInput{})
	require.True(t, next.Carried.Course.Cancelled)
	require.WithinDuration(t, noon.Add(11*time.Hour), w.Now(), 2*time.Second)

	last := newWindowWorld(t, noon.Add(11*time.Hour))
	last.ExecuteWorkflow(MaintenanceWindow, next)
	require.NoError(t, last.GetWorkflowError(), "it ends")
}

func TestAWindowWhoseWorkflowWasCancelledIsDefinedAnew(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, defined())
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour)
	w.order(time.Hour+time.Second, temporal.UpdateDefine, defined())
	next := w.runsOn(MaintenanceWindowInput{})
	require.Empty(t, w.refusals)
	require.False(t, next.Carried.Course.Cancelled)
	require.Contains(t, w.sent(), windows.EventStarted)
}

// A freeze of one window counts for all that a rollout names, whether that one is open or not.
func TestFollowersAreToldWhenAnExclusionBeginsAndEnds(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.follows(0)
	frozen := defined()
	frozen.Object.Spec.Exclusions = []drydockv1.WindowExclusion{{
		Name: "audit", Effect: drydockv1.ExclusionDrop, WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=13", Duration: "1h"},
	}}
	w.order(0, temporal.UpdateDefine, frozen)
	told := map[time.Duration]int{}
	for _, after := range []time.Duration{30 * time.Minute, 90 * time.Minute, 150 * time.Minute} {
		w.RegisterDelayedCallback(func() { told[after] = len(w.told) }, after)
	}
	w.runsOn(MaintenanceWindowInput{})
	require.Empty(t, w.refusals)
	require.Equal(t, told[30*time.Minute]+1, told[90*time.Minute])
	require.Equal(t, told[30*time.Minute]+2, told[150*time.Minute])
}
