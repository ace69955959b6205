package portal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	portalworkflow "drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/workflowtest"
)

func meta(name string, uid types.UID, generation int64) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, UID: uid, Generation: generation, CreationTimestamp: metav1.NewTime(workflowtest.Noon)}
}

func componentObject(generation int64, status sreportalv1.ServiceStatus) portal.ObjectRequest {
	return portal.ObjectRequest{Component: &sreportalv1.Component{
		ObjectMeta: meta("shop", "c1", generation), Spec: sreportalv1.ComponentSpec{DisplayName: "Shop", Group: "Customers", PortalRef: "main", Status: status},
	}}
}

// maintenanceObject lasts an hour from then on.
func maintenanceObject(generation int64, start time.Time) portal.ObjectRequest {
	return portal.ObjectRequest{Maintenance: &sreportalv1.Maintenance{
		ObjectMeta: meta("switches", "m1", generation), Spec: sreportalv1.MaintenanceSpec{
			Title: "New switches", PortalRef: "main", Components: []string{"shop"},
			ScheduledStart: metav1.NewTime(start), ScheduledEnd: metav1.NewTime(start.Add(time.Hour)),
		},
	}}
}

func incidentObject(generation int64, severity sreportalv1.IncidentSeverity, updates ...sreportalv1.IncidentUpdate) portal.ObjectRequest {
	return portal.ObjectRequest{Incident: &sreportalv1.Incident{
		ObjectMeta: meta("login", "i1", generation),
		Spec:       sreportalv1.IncidentSpec{Title: "No login", PortalRef: "main", Components: []string{"shop"}, Severity: severity, Updates: updates},
	}}
}

func TestAnIncidentObjectMakesTheStatusOfItsComponentWorseUntilItIsResolved(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	found := sreportalv1.IncidentUpdate{Timestamp: metav1.NewTime(workflowtest.Noon), Phase: sreportalv1.IncidentInvestigating, Message: "many errors"}
	over := sreportalv1.IncidentUpdate{Timestamp: metav1.NewTime(workflowtest.Noon.Add(30 * time.Minute)), Phase: sreportalv1.IncidentResolved, Message: "certificate renewed"}
	w.UpdateAfter(0, temporal.UpdateDeclare, componentObject(1, "operational"))
	w.UpdateAfter(time.Minute, temporal.UpdateDeclare, incidentObject(1, sreportalv1.SeverityMajor, found))
	w.UpdateAfter(30*time.Minute, temporal.UpdateDeclare, incidentObject(2, sreportalv1.SeverityMajor, found, over))
	w.UpdateAfter(40*time.Minute, temporal.UpdateDeclare, incidentObject(3, sreportalv1.SeverityMajor))
	w.RunsFor(time.Hour, portalworkflow.Input{})
	require.Len(t, w.Refusals, 1)
	require.Contains(t, w.Refusals[0], "Incident prod/login: spec.updates: has no entry, so the incident has no phase")
	require.Equal(t, []any{"operational", "partial_outage", "operational"}, published(w, "shop", "computedStatus"))
	require.Equal(t, []any{nil, float64(1), nil}, published(w, "shop", "activeIncidents"))
	require.Equal(t, []any{"investigating", "resolved"}, published(w, "login", "currentPhase"))
	last := w.Published["login"][1].(map[string]any)
	require.EqualValues(t, 30, last["durationMinutes"])
	require.EqualValues(t, 2, last["observedGeneration"])
}

func withdrawn(r portal.ObjectRequest) portal.ObjectRequest {
	r.Withdrawn = true
	return r
}

// published returns a field of the statuses that were written to an object.
func published(w *workflowtest.PortalWorld, name, field string) []any {
	var all []any
	for _, status := range w.Published[name] {
		all = append(all, status.(map[string]any)[field])
	}
	return all
}

func TestObjectsShowTheirPhaseAndTheirComputedStatus(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateDeclare, componentObject(1, "operational"))
	w.UpdateAfter(time.Minute, temporal.UpdateDeclare, maintenanceObject(1, workflowtest.Noon.Add(time.Hour)))
	w.UpdateAfter(2*time.Minute, temporal.UpdateDeclare, maintenanceObject(1, workflowtest.Noon.Add(time.Hour)))
	w.UpdateAfter(90*time.Minute, temporal.UpdateDeclare, maintenanceObject(2, workflowtest.Noon.Add(30*time.Minute)))
	w.RunsFor(3*time.Hour, portalworkflow.Input{})
	require.Empty(t, w.Refusals)
	require.Equal(t, []any{"upcoming", "in_progress", "in_progress", "completed"}, published(w, "switches", "phase"), "a repeated request changes nothing")
	require.Equal(t, []any{"operational", "maintenance", "operational"}, published(w, "shop", "computedStatus"))
	require.Contains(t, w.Answers[3].Warnings, "maintenance switches was in progress when its schedule was changed")
	last := w.Published["switches"][3].(map[string]any)
	require.EqualValues(t, 2, last["observedGeneration"])
	ready := last["conditions"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"True", "Reconciled", "phase: completed"}, []any{ready["status"], ready["reason"], ready["message"]})
}

func TestAMaintenanceThatWasOverWhenItWasAppliedIsWarnedAbout(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateDeclare, maintenanceObject(1, workflowtest.Noon.Add(-3*time.Hour)))
	w.RunsFor(time.Hour, portalworkflow.Input{})
	require.Empty(t, w.Refusals)
	require.Equal(t, []any{"completed"}, published(w, "switches", "phase"))
	require.Len(t, w.Answers[0].Warnings, 1)
	require.Contains(t, w.Answers[0].Warnings[0], "was over when it was applied")
}

func TestANameBelongsToTheFirstThatDeclaresIt(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	byPeople := componentObject(0, "degraded").Component
	byPeople.UID = ""
	apply := portal.ApplyRequest{Components: []sreportalv1.Component{*byPeople}}
	w.UpdateAfter(0, temporal.UpdateApply, apply)
	w.UpdateAfter(time.Minute, temporal.UpdateDeclare, componentObject(1, "operational"))
	w.UpdateAfter(2*time.Minute, temporal.UpdateDelete, portal.DeleteRequest{Components: []string{"shop"}})
	w.UpdateAfter(150*time.Second, temporal.UpdateDeclare, componentObject(2, "operational"))
	w.UpdateAfter(3*time.Minute, temporal.UpdateDeclare, componentObject(1, "degraded"))
	w.UpdateAfter(4*time.Minute, temporal.UpdateApply, apply)
	w.UpdateAfter(5*time.Minute, temporal.UpdateDelete, portal.DeleteRequest{Components: []string{"shop"}})
	w.UpdateAfter(6*time.Minute, temporal.UpdateDelete, portal.DeleteRequest{All: true})
	w.RunsFor(time.Hour, portalworkflow.Input{})
	require.Len(t, w.Refusals, 5)
	require.Contains(t, w.Refusals[0], "was applied with drydock")
	require.Contains(t, w.Refusals[1], "is out of date")
	require.Contains(t, w.Refusals[2], "an object on the hub declares it")
	require.Contains(t, w.Refusals[3], "Component prod/shop on the hub declares shop: delete that object")
	require.Contains(t, w.Refusals[4], "objects on the hub declare 1 components, maintenances and incidents")
	require.Equal(t, []any{"operational"}, published(w, "shop", "computedStatus"))
}

func TestAnObjectThatIsWithdrawnOrGoneLeavesThePortal(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateDeclare, componentObject(1, "operational"))
	w.UpdateAfter(time.Second, temporal.UpdateDeclare, maintenanceObject(1, workflowtest.Noon.Add(-time.Minute)))
	other := maintenanceObject(1, workflowtest.Noon)
	other.Maintenance.UID = "m0"
	w.UpdateAfter(time.Minute, temporal.UpdateDeclare, withdrawn(other)) // an earlier object of that name
	w.RegisterDelayedCallback(func() {
		require.Len(t, workflowtest.StatusOf[portal.View](w.World).InProgress, 1)
	}, 90*time.Second)
	w.UpdateAfter(2*time.Minute, temporal.UpdateDeclare, withdrawn(maintenanceObject(1, workflowtest.Noon)))
	w.RegisterDelayedCallback(func() {
		w.GoneObjects["shop"] = true
		w.SignalWorkflow(temporal.SignalObject, portal.ObjectName{Kind: portal.KindComponent})
	}, 10*time.Minute)
	w.ExecuteWorkflow(portalworkflow.StatusPortal, portalworkflow.Input{})
	require.NoError(t, w.GetWorkflowError(), "an empty portal ends")
	require.WithinDuration(t, workflowtest.Noon.Add(11*time.Minute), w.Now(), 30*time.Second)
	statuses := published(w, "shop", "computedStatus")
	require.Equal(t, "operational", statuses[len(statuses)-1])
	require.Contains(t, statuses, "maintenance")
}
