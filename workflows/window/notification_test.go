package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

// Each opening starts a child workflow for every receiver, which adds events to the history of the run.
func TestManyDueNotificationsAreSentInSeveralRuns(t *testing.T) {
	request := workflowtest.DefineNight()
	request.Object.Spec.Notify[0].Leads = []drydockv1.Duration{"2160h"}
	calendar, err := windows.New(&request.Object)
	require.NoError(t, err)
	schedule, err := calendar.Schedule(workflowtest.Noon)
	require.NoError(t, err)
	in := window.Input{Carried: &window.Carried{}}
	in.Carried.State.Define(request, schedule, workflowtest.Noon)

	var last []time.Time
	for range 5 {
		w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
		w.SetContinueAsNewSuggested(true)
		in = w.NextRun(in)
		last = append(last, in.Carried.State.Announced[0].Start.UTC())
	}
	first := workflowtest.Noon.Add(10 * time.Hour)
	require.Equal(t, []time.Time{first.AddDate(0, 0, 19), first.AddDate(0, 0, 39), first.AddDate(0, 0, 59), first.AddDate(0, 0, 79), first.AddDate(0, 0, 89)}, last)
}

func TestATooLongLeadIsRejectedAndDoesNotBreakARunningWindow(t *testing.T) {
	long := workflowtest.DefineNight()
	long.Object.Spec.Notify[0].Leads = []drydockv1.Duration{"99999h"}
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.UpdateAfter(time.Minute, temporal.UpdateEdit, long)
	next := w.NextRun(window.Input{})
	require.Len(t, w.Refusals, 1)
	require.Contains(t, w.Refusals[0], "spec.notify[0].leads[0]")

	next.Carried.State.Window.Spec.Notify = long.Object.Spec.Notify
	later := workflowtest.NewWindowWorld(t, workflowtest.Noon.Add(14*time.Hour))
	later.Subscribe(0)
	var status windows.Status
	later.UpdateAfter(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	later.RegisterDelayedCallback(func() { status = workflowtest.StatusOf[windows.Status](later.World) }, time.Hour)
	later.RegisterDelayedCallback(func() { later.SetContinueAsNewSuggested(true) }, time.Hour+time.Minute)
	later.NextRun(next)
	require.Empty(t, later.Refusals)
	require.Equal(t, windows.PhaseOver, status.Phase)
	require.Empty(t, status.Trouble, "its calendar is readable")
}
