package workflowtest

import (
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

	"drydock.dev/drydock/activities/objects"
	windowsactivities "drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
)

// WindowWorld simulates the subscribers and receivers of window prod/night.
type WindowWorld struct {
	*World
	// Notified are the states that subscribers received.
	Notified []windows.Snapshot
	// Refusals are the errors of updates that were rejected or failed.
	Refusals []string
	// Gone, unless nil, reports whether the object of a status no longer exists.
	Gone func(objects.PublishStatusInput) bool
}

// Noon is the start time of most tests of windows.
var Noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// NewWindowWorld returns a world that starts at the given time.
func NewWindowWorld(t *testing.T, now time.Time) *WindowWorld {
	w := &WindowWorld{World: NewWorld(t)}
	w.SetStartTime(now)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "window/prod/night", TaskQueue: temporal.TaskQueue})
	w.RegisterActivity(&windowsactivities.Activities{Allowed: allow.List{Webhooks: []allow.Webhook{{Host: "receiver"}}}})
	Simulate(w.World, "PublishStatus", func(in objects.PublishStatusInput) any {
		return objects.PublishStatusResult{Gone: w.Gone != nil && w.Gone(in)}
	})
	Simulate(w.World, "SendNotice", func(windows.Notice) any { return nil })
	w.RegisterAs(temporal.WindowNotification, window.WindowNotification)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalWindow, mock.Anything).Return(
		func(_, _, _, _ string, state any) error {
			w.Notified = append(w.Notified, state.(windows.Snapshot))
			return nil
		}).Maybe()
	return w
}

// nightly opens at 22:00 for four hours, and notifies one receiver an hour before.
func nightly() drydockv1.MaintenanceWindow {
	return drydockv1.MaintenanceWindow{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"},
		Spec: drydockv1.MaintenanceWindowSpec{
			TimeZone: "UTC", WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=22", Duration: "4h"}, Cutoff: "30m",
			Notify: []drydockv1.WindowNotification{{URL: "https://receiver", Leads: []drydockv1.Duration{"1h"}}},
		},
	}
}

// UpdateAfter sends an update that long after the start.
func (w *WindowWorld) UpdateAfter(after time.Duration, update string, request any) {
	w.RegisterDelayedCallback(func() {
		refuse := func(err error) {
			if err != nil {
				w.Refusals = append(w.Refusals, err.Error())
			}
		}
		w.UpdateWorkflow(update, fmt.Sprintf("%s-%s", update, after), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: refuse, OnComplete: func(_ any, err error) { refuse(err) },
		}, request)
	}, after)
}

// Subscribe subscribes a rollout that long after the start.
func (w *WindowWorld) Subscribe(after time.Duration) {
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalSubscribeWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"})
	}, after)
}

// NextRun runs the window until it continues as new, and returns the input of the next run.
func (w *WindowWorld) NextRun(in window.Input) window.Input {
	w.T.Helper()
	w.ExecuteWorkflow(window.MaintenanceWindow, in)
	require.True(w.T, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var out window.Input
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out
}

// Sent returns the kinds of the notifications that were sent, in order.
func (w *WindowWorld) Sent() []windows.EventKind {
	var kinds []windows.EventKind
	for _, in := range w.InputsOf("SendNotice") {
		kinds = append(kinds, in.(windows.Notice).Body.Type)
	}
	return kinds
}

// DefineNight returns a request that defines the window prod/night.
func DefineNight() windows.DefineRequest {
	return windows.DefineRequest{Request: windows.Request{Actor: "ann"}, Object: nightly()}
}
