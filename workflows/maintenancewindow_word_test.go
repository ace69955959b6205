package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// Each opening takes a workflow for every receiver, which leave their events in the history of the run.
func TestMuchWordThatIsDueAtOnceIsSentByAsManyRunsAsThatTakes(t *testing.T) {
	request := defined()
	request.Object.Spec.Notify[0].Leads = []drydockv1.Duration{"2160h"}
	window, err := windows.New(&request.Object)
	require.NoError(t, err)
	outlook, err := window.Outlook(noon)
	require.NoError(t, err)
	in := MaintenanceWindowInput{Carried: &MaintenanceWindowCarried{}}
	in.Carried.Course.Define(request, outlook, noon)

	var last []time.Time
	for range 5 {
		w := newWindowWorld(t, noon)
		w.SetContinueAsNewSuggested(true)
		in = w.runsOn(in)
		last = append(last, in.Carried.Course.Announced[0].Start.UTC())
	}
	first := noon.Add(10 * time.Hour)
	require.Equal(t, []time.Time{first.AddDate(0, 0, 19), first.AddDate(0, 0, 39), first.AddDate(0, 0, 59), first.AddDate(0, 0, 79), first.AddDate(0, 0, 89)}, last)
}

func TestALeadThatIsTooLongIsRefusedAndBreaksNoWindowThatRuns(t *testing.T) {
	long := defined()
	long.Object.Spec.Notify[0].Leads = []drydockv1.Duration{"99999h"}
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, defined())
	w.order(time.Minute, temporal.UpdateEdit, long)
	next := w.runsOn(MaintenanceWindowInput{})
	require.Len(t, w.refusals, 1)
	require.Contains(t, w.refusals[0], "spec.notify[0].leads[0]")

	next.Carried.Course.Window.Spec.Notify = long.Object.Spec.Notify
	later := newWindowWorld(t, noon.Add(14*time.Hour))
	later.follows(0)
	var stands windows.Status
	later.order(time.Minute, temporal.UpdateCancel, windows.CancelRequest{All: true})
	later.RegisterDelayedCallback(func() { stands = statusOf[windows.Status](later.world) }, time.Hour)
	later.RegisterDelayedCallback(func() { later.SetContinueAsNewSuggested(true) }, time.Hour+time.Minute)
	later.runsOn(next)
	require.Empty(t, later.refusals)
	require.Equal(t, windows.PhaseOver, stands.Phase)
	require.Empty(t, stands.Trouble, "its calendar is read")
}
