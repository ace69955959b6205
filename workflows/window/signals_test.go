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

func TestAWindowKeepsItsSubscribersWhenSignalsArriveTogether(t *testing.T) {
	subscribe := func(run string) workflowtest.SignalWithPayload {
		return workflowtest.SignalWithPayload{Name: temporal.SignalSubscribeWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	unsubscribe := func(run string) workflowtest.SignalWithPayload {
		return workflowtest.SignalWithPayload{Name: temporal.SignalUnsubscribeWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	for _, tt := range []struct {
		name    string
		signals []workflowtest.SignalWithPayload
		want    []string
	}{
		{"unsubscribed", []workflowtest.SignalWithPayload{subscribe("1"), unsubscribe("1")}, nil},
		{"unsubscribed, and another run subscribed", []workflowtest.SignalWithPayload{unsubscribe("1"), subscribe("2")}, []string{"cgu/ops/june"}},
		{"subscribed again", []workflowtest.SignalWithPayload{subscribe("1"), unsubscribe("1"), subscribe("1")}, []string{"cgu/ops/june"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
			w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
			w.RegisterDelayedCallback(func() { w.SendInOneTask(tt.signals...) }, time.Minute)
			var subscribers []string
			w.RegisterDelayedCallback(func() { subscribers = workflowtest.StatusOf[windows.Status](w.World).Subscribers }, 2*time.Minute)
			w.NextRun(window.Input{})
			require.Equal(t, tt.want, subscribers)
		})
	}
}

func TestAWindowThatIsCancelledDuringAnEditStaysCancelled(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.UpdateAfter(time.Minute, temporal.UpdateEdit, workflowtest.DefineNight())
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError(), "it has no further opening")
	require.Len(t, w.Refusals, 1)
	require.Contains(t, w.Refusals[0], "the window was cancelled during the update; repeat the update to define it again")
}

func TestAWindowThatIsEditedAfterItWasCancelledOpensAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	w.RegisterDelayedCallback(func() { w.SignalWorkflowSkippingWorkflowTask(temporal.SignalCancel, nil) }, time.Minute)
	w.UpdateAfter(time.Minute, temporal.UpdateEdit, workflowtest.DefineNight())
	w.NextRun(window.Input{})
	require.Empty(t, w.Refusals)
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}

func TestAPreviewOfAnEditNamesTheSubscribersAndChangesNothing(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	w.UpdateAfter(time.Second, temporal.UpdateDefine, workflowtest.DefineNight())
	preview := func(name, duration string) (found windows.EditPreview, err error) {
		request := windows.PreviewRequest{DefineRequest: workflowtest.DefineNight(), Now: w.Now()}
		request.Object.Name, request.Object.Spec.Duration = name, drydockv1.Duration(duration)
		edited, err := windows.New(&request.Object)
		require.NoError(t, err)
		request.Schedule, err = edited.Schedule(request.Now)
		require.NoError(t, err)
		answer, err := w.QueryWorkflow(temporal.QueryPreviewEdit, request)
		if err == nil {
			require.NoError(t, answer.Get(&found))
		}
		return found, err
	}
	w.RegisterDelayedCallback(func() {
		for range 2 {
			found, err := preview("night", "2h")
			require.NoError(t, err)
			require.Equal(t, []string{"spec.duration"}, found.Changed)
			require.Equal(t, drydockv1.Duration("4h"), found.Spec.Duration)
			require.Equal(t, "the current opening keeps its end, 2026-12-02 02:00:00Z", found.Effects[0])
			require.Equal(t, "used by cgu/ops/june", found.Effects[len(found.Effects)-1])
		}
		same, err := preview("night", "4h")
		require.NoError(t, err)
		require.Empty(t, same.Changed)
		require.Empty(t, same.Effects)
		_, err = preview("day", "4h")
		require.ErrorContains(t, err, "object: is window prod/day, but this workflow is window prod/night")
	}, 11*time.Hour)
	next := w.NextRun(window.Input{})
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
	require.Equal(t, drydockv1.Duration("4h"), next.Carried.State.Window.Spec.Duration)
}
