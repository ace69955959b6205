package e2e

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/windows"
)

// windowObject applies a MaintenanceWindow on the hub that opens for an hour at that time.
func windowObject(t *testing.T, name string, start time.Time) *kubeRequestor {
	t.Helper()
	r := newWindowObject(t, name, start)
	r.create()
	return r
}

func newWindowObject(t *testing.T, name string, start time.Time) *kubeRequestor {
	t.Helper()
	return hubObject(t, "drydock.dev/v1alpha1", "MaintenanceWindow", name, map[string]any{
		"timeZone": "UTC", "recurrence": "RDATE:" + start.UTC().Format("20060102T150405Z"), "duration": "1h",
	})
}

// hubObject is an object on the hub that is not created yet.
func hubObject(t *testing.T, apiVersion, kind, name string, spec map[string]any) *kubeRequestor {
	t.Helper()
	c, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	return &kubeRequestor{t: t, client: c, spoke: theFleet.Hub, object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name}, "spec": spec,
	}}}
}

// awaitField waits until a field of the object has this value.
func (r *kubeRequestor) awaitField(value any, path ...string) *unstructured.Unstructured {
	r.t.Helper()
	var object *unstructured.Unstructured
	var last any
	require.Eventually(r.t, func() bool {
		object, _ = r.read()
		last, _, _ = unstructured.NestedFieldNoCopy(object.Object, path...)
		return last == value
	}, stateLimit, 200*time.Millisecond, "%v is not %v but %v", path, value, &last)
	return object
}

func TestAnAppliedMaintenanceWindowHoldsAMaintenanceUntilItOpens(t *testing.T) {
	reserve(t, "spoke-3")
	const name = "applied-window"
	spoke := theFleet.Cluster("spoke-3")
	maintenance := request(t, spoke, "in-window", map[string]any{"nodeName": "worker-1", "maintenanceWindows": []any{name}})
	require.Eventually(t, func() bool {
		return drydock(t, "window", "status", name).code == 0
	}, stateLimit, 200*time.Millisecond, "the maintenance waits for its window")
	window := windowObject(t, name, time.Now().Add(time.Hour))
	window.await("True Reconciled")
	window.awaitField("Closed", "status", "phase")
	object := window.awaitField(int64(1), "status", "subscriberCount")
	require.Equal(t, []string{"drydock.dev/cleanup"}, object.GetFinalizers())
	require.False(t, maintenance.cordoned("worker-1"))

	window.patch(`{"spec":{"timeZone":"Mars/Olympus"}}`)
	window.await("False InvalidSpec")
	window.awaitField("Closed", "status", "phase")
	opens := time.Now().Add(-time.Minute).UTC().Format("20060102T150405Z")
	window.patch(`{"spec":{"timeZone":"UTC","recurrence":"RDATE:` + opens + `"}}`)
	window.awaitField("Open", "status", "phase")
	object = window.await("True Reconciled")
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	require.Equal(t, object.GetGeneration(), observed)
	maintenance.await("True Ready")

	refused := drydock(t, "window", "edit", "-f", windowFile(t, name, time.Hour, "", time.Now()))
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "MaintenanceWindow default/"+name+" on the hub defines the window")
	succeeds(t, "window", "end", name, "--reason", "no backup tonight")
	window.awaitField("Over", "status", "phase")
	window.delete()
	window.awaitGone()
	require.Equal(t, windows.PhaseOver, windowStatus(t, name).Phase)
	events, err := theFleet.Hub.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(object.GetUID())})
	require.NoError(t, err)
	var reasons []string
	for _, event := range events.Items {
		reasons = append(reasons, event.Reason)
	}
	require.ElementsMatch(t, []string{"Defined", "Edited", "Started", "Cut", "Ended"}, reasons)
	maintenance.delete()
	maintenance.awaitGone()
}

func TestAMaintenanceWindowHasTheNameOfAWindowOfTheCLI(t *testing.T) {
	shared(t)
	const name = "window-twice"
	createWindow(t, name, time.Minute, time.Now().Add(time.Hour))
	t.Cleanup(func() { // a running window would be defined for the next tests
		_ = theFleet.Run(context.Background(), io.Discard, "window", "cancel", name, "--all")
	})
	window := windowObject(t, name, time.Now().Add(2*time.Hour))
	window.await("False NameInUse")
	require.Empty(t, windowStatus(t, name).Source)
	succeeds(t, "window", "cancel", name, "--all")
	window.await("True Reconciled")
	require.Equal(t, "MaintenanceWindow default/"+name, windowStatus(t, name).Source)
	window.delete()
	window.awaitGone()
}

// The finalizer of one window is removed by force while no worker runs, and another one is applied in its place.
func TestAMaintenanceWindowIsReplacedWhileNoWorkerRuns(t *testing.T) {
	alone(t)
	first := windowObject(t, "replaced-window", time.Now().Add(-time.Minute))
	first.awaitField("Open", "status", "phase")
	vanished := windowObject(t, "vanished-window", time.Now().Add(-time.Minute))
	vanished.awaitField("Open", "status", "phase")
	require.NoError(t, theFleet.Worker.Kill())
	for _, r := range []*kubeRequestor{first, vanished} {
		r.delete()
		r.patch(`{"metadata":{"finalizers":null}}`)
		r.awaitGone()
	}
	second := windowObject(t, "replaced-window", time.Now().Add(time.Hour))
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	second.await("True Reconciled")
	second.awaitField("Closed", "status", "phase")
	require.Eventually(t, func() bool {
		return windowHas(t, "vanished-window", func(now windows.Status) bool { return now.Phase == windows.PhaseOver })
	}, stateLimit, 200*time.Millisecond)
	second.delete()
	second.awaitGone()
}
