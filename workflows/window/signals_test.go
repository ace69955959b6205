package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAWindowKeepsItsSubscribersWhenSignalsArriveTogether(t *testing.T) {
	follow := func(run string) workflowtest.Sending {
		return workflowtest.Sending{Name: temporal.SignalSubscribeWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	leave := func(run string) workflowtest.Sending {
		return workflowtest.Sending{Name: temporal.SignalUnsubscribeWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	for _, tt := range []struct {
		name string
		said []workflowtest.Sending
		want []string
	}{
		{"one that leaves", []workflowtest.Sending{follow("1"), leave("1")}, nil},
		{"one that leaves, and the next of its id", []workflowtest.Sending{leave("1"), follow("2")}, []string{"cgu/ops/june"}},
		{"one that comes back", []workflowtest.Sending{follow("1"), leave("1"), follow("1")}, []string{"cgu/ops/june"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
			w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
			w.RegisterDelayedCallback(func() { w.SendTogether(tt.said...) }, time.Minute)
			var followers []string
			w.RegisterDelayedCallback(func() { followers = workflowtest.StatusOf[windows.Status](w.World).Subscribers }, 2*time.Minute)
			w.RunsOn(window.Input{})
			require.Equal(t, tt.want, followers)
		})
	}
}

func TestAWindowThatIsCancelledDuringAnEditStaysCancelled(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
	w.Order(time.Minute, temporal.UpdateEdit, workflowtest.Defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError(), "it opens no more")
	require.Len(t, w.Refusals, 1)
	require.Contains(t, w.Refusals[0], "the window was cancelled during the update; repeat the update to define it again")
}

func TestAWindowThatIsEditedAfterItWasCancelledOpensAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflowSkippingWorkflowTask(temporal.SignalCancel, nil) }, time.Minute)
	w.Order(time.Minute, temporal.UpdateEdit, workflowtest.Defined())
	w.RunsOn(window.Input{})
	require.Empty(t, w.Refusals)
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}
