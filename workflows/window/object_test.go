package window_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

const (
	firstUID  = types.UID("3f9d1b62-0c1a-4a55-9f5e-2f8f3a9c7d10")
	secondUID = types.UID("5a1c9c0e-6a0e-4f0e-8d3b-0d5b6b1f7e22")
)

// nightObject is a request of MaintenanceWindow prod/night.
func nightObject(uid types.UID, generation int64) window.ObjectRequest {
	return window.ObjectRequest{
		Source: temporal.Object{APIVersion: drydockv1.GroupVersion.String(), Kind: "MaintenanceWindow", Namespace: "prod", Name: "night", UID: uid},
		Object: workflowtest.DefineNight().Object, Generation: generation,
	}
}

// send sends a request of the object that long after the start.
func send(w *workflowtest.WindowWorld, after time.Duration, request window.ObjectRequest) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalObject, request) }, after)
}

// windowStatus is a status that was written to an object.
type windowStatus struct {
	drydockv1.MaintenanceWindowStatus
	uid    types.UID
	events []string
	final  bool
}

func writtenTo(t *testing.T, w *workflowtest.WindowWorld) []windowStatus {
	t.Helper()
	var all []windowStatus
	for _, in := range w.Published() {
		status := windowStatus{uid: in.Object.UID, final: in.Final}
		text, err := json.Marshal(in.Status)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &status.MaintenanceWindowStatus))
		for _, event := range in.Events {
			status.events = append(status.events, event.Reason)
		}
		all = append(all, status)
	}
	return all
}

func TestAnObjectDefinesAWindowThatASubscriberWaitsFor(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	send(w, time.Minute, nightObject(firstUID, 1))
	send(w, 2*time.Minute, nightObject(firstUID, 1))
	w.UpdateAfter(3*time.Minute, temporal.UpdateDefine, workflowtest.DefineNight())
	w.UpdateAfter(4*time.Minute, temporal.UpdateEdit, workflowtest.DefineNight())
	w.NextRun(window.Input{})
	const refusal = "MaintenanceWindow prod/night on the hub defines the window: change that object"
	require.Len(t, w.Refusals, 2)
	for _, refused := range w.Refusals {
		require.Contains(t, refused, refusal)
	}
	require.Contains(t, w.Notified[0].Trouble, "not defined")
	require.Empty(t, w.Notified[1].Trouble)

	written := writtenTo(t, w)
	first := written[0]
	require.EqualValues(t, 1, first.ObservedGeneration)
	require.Equal(t, string(windows.PhaseClosed), first.Phase)
	require.Equal(t, workflowtest.Noon.Add(10*time.Hour), first.NextOpening.Start.UTC())
	require.EqualValues(t, 1, first.SubscriberCount)
	require.Equal(t, []string{"cgu/ops/june"}, first.Subscribers)
	require.Equal(t, "True", string(first.Conditions[0].Status))
	var phases, events []string
	for _, status := range written {
		phases = append(phases, status.Phase)
		events = append(events, status.events...)
	}
	require.Equal(t, []string{"Closed", "Open", "Cutoff"}, phases[:3])
	require.Equal(t, workflowtest.Noon.Add(14*time.Hour), written[1].Opening.End.UTC())
	require.Equal(t, []string{"Defined", "Started", "Cutoff"}, events[:3], "a repeated request changes nothing")
}

func TestAnEditOfTheObjectChangesTheWindowAndAnInvalidOneIsShown(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	send(w, 0, nightObject(firstUID, 1))
	invalid := nightObject(firstUID, 2)
	invalid.Object, invalid.InvalidSpec = drydockv1.MaintenanceWindow{}, "spec.timeZone: Invalid value"
	send(w, time.Minute, invalid)
	edited := nightObject(firstUID, 3)
	edited.Object.Spec.Recurrence = "FREQ=DAILY;BYHOUR=20"
	send(w, 2*time.Minute, edited)
	send(w, 3*time.Minute, nightObject(firstUID, 1)) // it is late
	w.NextRun(window.Input{})
	written := writtenTo(t, w)
	require.Equal(t, "InvalidSpec", written[1].Conditions[0].Reason)
	require.Equal(t, "spec.timeZone: Invalid value; the window keeps its last valid spec", written[1].Conditions[0].Message)
	require.EqualValues(t, 2, written[1].Conditions[0].ObservedGeneration)
	require.Equal(t, workflowtest.Noon.Add(10*time.Hour), written[1].NextOpening.Start.UTC())
	require.Equal(t, "Reconciled", written[2].Conditions[0].Reason)
	require.EqualValues(t, 3, written[2].ObservedGeneration)
	require.Equal(t, workflowtest.Noon.Add(8*time.Hour), written[2].NextOpening.Start.UTC())
	require.Equal(t, "Open", written[3].Phase)
}

func TestADeletedObjectClosesItsWindowAndAnotherOneDefinesItAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	send(w, 0, nightObject(firstUID, 1))
	send(w, 11*time.Hour, nightObject(secondUID, 1)) // not while the first one exists
	deleted := nightObject(firstUID, 2)
	deleted.Deleted = true
	send(w, 11*time.Hour+time.Minute, deleted)
	next := w.NextRun(window.Input{})
	require.WithinDuration(t, workflowtest.Noon.Add(11*time.Hour+time.Minute), w.Now(), time.Minute, "a deleted object closes its window")
	closed := w.Notified[len(w.Notified)-1]
	require.True(t, len(closed.Schedule.Openings) == 0 && closed.Schedule.Last)
	for _, status := range writtenTo(t, w) {
		require.Equal(t, firstUID, status.uid)
	}

	later := workflowtest.NewWindowWorld(t, workflowtest.Noon.Add(11*time.Hour+2*time.Minute))
	send(later, time.Minute, deleted)
	send(later, time.Hour, nightObject(secondUID, 1))
	later.RegisterDelayedCallback(func() { later.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	later.NextRun(next)
	written := writtenTo(t, later)
	released, defined := written[len(written)-2], written[len(written)-1]
	require.Equal(t, firstUID, released.uid)
	require.Equal(t, "Over", released.Phase)
	require.True(t, released.final)
	require.Equal(t, secondUID, defined.uid)
	require.Equal(t, "Closed", defined.Phase)
	require.Equal(t, []string{"Edited"}, defined.events)
}

func TestAnObjectDoesNotTakeTheWindowOfTheCLI(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
	send(w, time.Minute, nightObject(firstUID, 1))
	deleted := nightObject(firstUID, 2)
	deleted.Deleted = true
	send(w, 11*time.Hour, deleted)
	next := w.NextRun(window.Input{})
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), time.Minute, "it closes by its calendar")
	require.Nil(t, next.Carried.Source)
	require.Empty(t, writtenTo(t, w))
}

// The API server refuses writes while the window opens and closes.
func TestAnUnreachableHubDelaysNoOpening(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Subscribe(0)
	w.Fail["PublishStatus"] = func(int) error { return errors.New("the hub is down") }
	send(w, time.Second, nightObject(firstUID, 1))
	next := w.NextRun(window.Input{})
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), time.Minute)
	require.NotNil(t, next.Carried.Source)

	later := workflowtest.NewWindowWorld(t, workflowtest.Noon.Add(14*time.Hour+time.Minute))
	deleted := nightObject(firstUID, 2)
	deleted.Deleted = true
	send(later, time.Minute, deleted)
	later.RegisterDelayedCallback(func() { later.SetContinueAsNewSuggested(true) }, time.Hour)
	after := later.NextRun(next)
	require.Nil(t, after.Carried.Source)
	written := writtenTo(t, later)
	require.Equal(t, []string{"Defined", "Started", "Cutoff", "Ended"}, written[0].events)
	require.True(t, written[len(written)-1].final)
}

func TestAWindowWhoseObjectIsGoneIsCancelled(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Gone = func(status objects.PublishStatusInput) bool { return true }
	send(w, 0, nightObject(firstUID, 1))
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError())
	require.WithinDuration(t, workflowtest.Noon, w.Now(), 5*time.Minute)
	require.Len(t, writtenTo(t, w), 1)
}
