package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/internal/portal"
)

const sreportal = "sreportal.io/v1alpha1"

func componentObject(t *testing.T, name, portalName string) *kubeRequestor {
	t.Helper()
	r := hubObject(t, sreportal, "Component", name, map[string]any{"displayName": "Shop", "group": "Customers", "portalRef": portalName, "status": "operational"})
	r.create()
	return r
}

func portalView(t *testing.T, name string) portal.View {
	t.Helper()
	var view portal.View
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, "portal", "status", name, "-o", "json")), &view))
	return view
}

// awaitComponents waits until a portal shows that many components. A worker that has just started may not answer yet.
func awaitComponents(t *testing.T, name string, count int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var view portal.View
		return json.Unmarshal([]byte(drydock(t, "portal", "status", name, "-o", "json").out), &view) == nil && len(view.Components) == count
	}, stateLimit, 200*time.Millisecond)
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func TestAppliedComponentsAndMaintenancesAreShown(t *testing.T) {
	shared(t)
	shop := componentObject(t, "applied-shop", "applied")
	shop.await("True Reconciled")
	object := shop.awaitField("operational", "status", "computedStatus")
	require.Equal(t, "applied", object.GetLabels()["sreportal.io/portal"])
	require.Equal(t, []string{"drydock.dev/cleanup"}, object.GetFinalizers())

	start := inSeconds(3)
	maintenance := hubObject(t, sreportal, "Maintenance", "applied-switches", map[string]any{
		"title": "New switches", "portalRef": "applied", "components": []any{"applied-shop"},
		"scheduledStart": rfc3339(start), "scheduledEnd": rfc3339(start.Add(time.Hour)),
	})
	maintenance.create()
	maintenance.awaitField("in_progress", "status", "phase")
	shop.awaitField("maintenance", "status", "computedStatus")
	require.Equal(t, "applied-switches", portalView(t, "applied").InProgress[0].Name)

	maintenance.patch(`{"spec":{"scheduledEnd":"9990-01-01T00:00:00Z"}}`) // the years end with 9000
	object = maintenance.await("False InvalidSchedule")
	_, found, _ := unstructured.NestedString(object.Object, "status", "phase")
	require.False(t, found)
	shop.awaitField("operational", "status", "computedStatus")
	maintenance.patch(`{"spec":{"scheduledEnd":"` + rfc3339(start.Add(2*time.Hour)) + `","affectedStatus":"degraded"}}`)
	maintenance.await("True Reconciled")
	shop.awaitField("degraded", "status", "computedStatus")
	maintenance.patch(`{"spec":{"scheduledEnd":"` + rfc3339(start.Add(3*time.Hour)) + `"}}`)
	awaitWarning(t, object, "maintenance applied-switches was in progress when its schedule was changed")
	past := hubObject(t, sreportal, "Maintenance", "applied-yesterday", map[string]any{
		"title": "Old switches", "portalRef": "applied", "components": []any{"applied-shop"},
		"scheduledStart": rfc3339(start.Add(-24 * time.Hour)), "scheduledEnd": rfc3339(start.Add(-23 * time.Hour)),
	})
	past.create()
	awaitWarning(t, past.awaitField("completed", "status", "phase"), "maintenance applied-yesterday was over when it was applied")

	refused := drydock(t, "portal", "delete", "applied", "--component", "applied-shop")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "delete that object")
	succeeds(t, "portal", "cancel", "applied", "applied-switches", "--reason", "all is done")
	maintenance.awaitField("completed", "status", "phase")
	shop.awaitField("operational", "status", "computedStatus")

	shop.patch(`{"spec":{"portalRef":"applied-elsewhere"}}`)
	shop.awaitField("applied-elsewhere", "metadata", "labels", "sreportal.io/portal")
	awaitComponents(t, "applied-elsewhere", 1)
	awaitComponents(t, "applied", 0)
	for _, r := range []*kubeRequestor{shop, maintenance, past} {
		r.delete()
		r.awaitGone()
	}
	awaitComponents(t, "applied-elsewhere", 0)
	require.Empty(t, portalView(t, "applied").Completed)
}

// awaitWarning waits until an object on the hub has an Event that warns of something.
func awaitWarning(t *testing.T, object *unstructured.Unstructured, message string) {
	t.Helper()
	options := metav1.ListOptions{FieldSelector: "reason=MaintenanceWarning,involvedObject.uid=" + string(object.GetUID())}
	require.Eventually(t, func() bool {
		events, err := theFleet.Hub.Client.CoreV1().Events(object.GetNamespace()).List(t.Context(), options)
		return err == nil && slices.ContainsFunc(events.Items, func(event corev1.Event) bool { return strings.Contains(event.Message, message) })
	}, stateLimit, 200*time.Millisecond, message)
}

func TestAComponentHasTheNameOfOneOfTheCLI(t *testing.T) {
	shared(t)
	path := filepath.Join(t.TempDir(), "component.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: twice, namespace: default}
spec: {displayName: Twice, group: Customers, portalRef: twice, status: degraded}
`), 0o600))
	succeeds(t, "portal", "apply", "-f", path)
	twice := componentObject(t, "twice", "twice")
	twice.await("False NotShown")
	succeeds(t, "portal", "delete", "twice", "--component", "twice")
	twice.patch(`{"spec":{"description":"at once, not in 30 s"}}`)
	twice.await("True Reconciled")
	refused := drydock(t, "portal", "apply", "-f", path)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "an object on the hub declares it: change that object")
	twice.delete()
	twice.awaitGone()
}

func TestAnAppliedIncidentAffectsItsComponentUntilItIsResolved(t *testing.T) {
	shared(t)
	const portalName = "disturbed"
	shop := componentObject(t, "disturbed-shop", portalName)
	shop.await("True Reconciled")
	begun := time.Now().Add(-90 * time.Minute)
	found := map[string]any{"timestamp": rfc3339(begun), "phase": "investigating", "message": "many errors"}
	incident := hubObject(t, sreportal, "Incident", "no-login", map[string]any{
		"title": "No login", "portalRef": portalName, "severity": "major", "components": []any{"disturbed-shop"},
	})
	incident.create()
	incident.await("False InvalidSpec")
	shop.awaitField("operational", "status", "computedStatus")

	incident.object.Object["spec"].(map[string]any)["updates"] = []any{found}
	incident.apply(incident.object, "test")
	incident.await("True Reconciled")
	object := shop.awaitField("partial_outage", "status", "computedStatus")
	active, _, _ := unstructured.NestedInt64(object.Object, "status", "activeIncidents")
	require.EqualValues(t, 1, active)
	days, _, _ := unstructured.NestedSlice(object.Object, "status", "dailyWorstStatus")
	require.Len(t, days, 30)
	require.Equal(t, "partial_outage", days[29].(map[string]any)["worstStatus"])
	require.Equal(t, []string{"incident no-login"}, portalView(t, portalName).Components[0].Because)

	incident.object.Object["spec"].(map[string]any)["updates"] = []any{
		map[string]any{"timestamp": rfc3339(begun.Add(time.Hour)), "phase": "resolved", "message": "certificate renewed"}, found,
	}
	incident.apply(incident.object, "test")
	object = incident.awaitField("resolved", "status", "currentPhase")
	minutes, _, _ := unstructured.NestedInt64(object.Object, "status", "durationMinutes")
	require.EqualValues(t, 60, minutes)
	require.Equal(t, portalName, object.GetLabels()["sreportal.io/portal"])
	shop.awaitField("operational", "status", "computedStatus")
	for _, r := range []*kubeRequestor{incident, shop} {
		r.delete()
		r.awaitGone()
	}
	awaitComponents(t, portalName, 0)
}

// Objects lose their finalizers by force while no worker runs, one of them is applied again, and the workflow of a portal is terminated.
func TestAPortalIsRestoredFromItsObjects(t *testing.T) {
	alone(t)
	kept, vanished, replaced := componentObject(t, "kept", "restored"), componentObject(t, "vanished", "restored"), componentObject(t, "replaced", "restored")
	for _, r := range []*kubeRequestor{kept, vanished, replaced} {
		r.await("True Reconciled")
	}
	require.NoError(t, theFleet.Worker.Kill())
	for _, r := range []*kubeRequestor{vanished, replaced} {
		r.delete()
		r.patch(`{"metadata":{"finalizers":null}}`)
		r.awaitGone()
	}
	replaced.object.Object["spec"].(map[string]any)["status"] = "degraded"
	replaced.create()
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	awaitComponents(t, "restored", 2)
	replaced.awaitField("degraded", "status", "computedStatus")
	replaced.delete()
	replaced.awaitGone()

	terminate(t, "portal/restored")
	kept.patch(`{"spec":{"status":"degraded"}}`)
	kept.awaitField("degraded", "status", "computedStatus")
	require.Len(t, portalView(t, "restored").Components, 1)
	kept.delete()
	kept.awaitGone()
}
