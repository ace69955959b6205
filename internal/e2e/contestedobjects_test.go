package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// contested is the name of the objects of the test below.
const contested = "contested"

// contestedWrites are the versions that each of two clients applies in an apply war. The client of the version that counts also applies the last one.
const contestedWrites = 30

// Two workers act on the same objects, the API server refuses all writes of their statuses, and two clients apply different versions of them in turn. The
// work is done once nevertheless, and afterwards the statuses are right.
func TestContestedObjectsAreServedOnceAndShowTheirStatusAfterwards(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-2")
	second, err := theFleet.AddWorker()
	require.NoError(t, err)
	require.NoError(t, second.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, second.Stop()) })
	acceptOnSpoke := refuseStatuses(t, spoke, "maintenance.nvidia.com", "nodemaintenances")
	acceptOnHub := refuseStatuses(t, theFleet.Hub, "ran.openshift.io", "clustergroupupgrades")
	acceptOnPortal := refuseStatuses(t, theFleet.Hub, "sreportal.io", "components", "maintenances")
	before := initiatorActions(t, spoke)

	start := time.Now().Truncate(time.Second)
	component := hubObject(t, sreportal, "Component", contested, map[string]any{
		"displayName": "Shop", "group": "Customers", "portalRef": contested, "status": "operational",
	})
	maintenance := hubObject(t, sreportal, "Maintenance", contested, map[string]any{
		"title": "New switches", "portalRef": contested, "components": []any{contested}, "affectedStatus": "degraded",
		"scheduledStart": rfc3339(start), "scheduledEnd": rfc3339(start.Add(time.Hour)),
	})
	rollout := newRolloutObject(t, contested, map[string]any{"clusters": []any{"spoke-2"}, "nodeMaintenance": map[string]any{"drainSpec": map[string]any{}}})
	for _, r := range []*kubeRequestor{component, maintenance, rollout} {
		r.create()
	}
	component.war(map[string]any{"status": "partial_outage"})
	rollout.war(map[string]any{"remediationStrategy": map[string]any{"maxConcurrency": int64(1), "timeout": int64(90)}})
	awaitStatus(t, contested, func(s ranv1.ClusterGroupUpgradeStatus) bool { return s.Status.CompletedAt != nil })
	awaitComponents(t, contested, 1)
	requested := request(t, spoke, contested, map[string]any{"nodeName": "worker-1"})
	awaitNodeState(t, temporal.NodeMaintenanceID(spoke.Name, "default", contested), maintenancev1.NodeReady)
	requested.war(map[string]any{"additionalRequestors": []any{"network.example.com"}})
	require.True(t, requested.cordoned("worker-1"))
	for _, r := range []*kubeRequestor{component, maintenance, rollout, requested} {
		object, _ := r.read()
		require.Empty(t, object.Object["status"], "%s: its status is refused", object.GetKind())
	}

	acceptOnSpoke()
	acceptOnHub()
	acceptOnPortal()
	object := requested.await("True Ready")
	requested.awaitObserved("conditions", "Ready")
	require.NotContains(t, object.Object["spec"], "additionalRequestors")
	object = rollout.awaitCondition("Succeeded", "True Completed")
	require.Equal(t, map[string]any{"spoke-2": "complete"}, shownClusters(object))
	require.Eventually(t, func() bool { // Events follow the status
		return slices.Equal(eventsOf(t, object), []string{"CguCreated", "CguStarted", "CguStarted", "CguSuccess", "CguSuccess"})
	}, stateLimit, 200*time.Millisecond)
	component.awaitField("degraded", "status", "computedStatus")
	component.awaitObserved("observedGeneration")
	maintenance.awaitField("in_progress", "status", "phase")
	require.Len(t, portalView(t, contested).Components, 1)
	require.Len(t, portalView(t, contested).InProgress, 1)

	for _, r := range []*kubeRequestor{requested, rollout, maintenance, component} {
		r.delete()
		r.awaitGone()
	}
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	cordons := map[string]int{}
	for _, action := range initiatorActions(t, spoke)[len(before):] {
		if action.What == fleet.ActionCordon {
			cordons[action.Node]++
		}
	}
	require.Equal(t, map[string]int{"control-plane-1": 1, "worker-1": 2, "worker-2": 1}, cordons, "the rollout takes each node, and the request one of them")
}

// refuseStatuses lets the API server refuse the statuses of the contested objects of these resources, until the returned function is called.
func refuseStatuses(t *testing.T, cluster *devstack.Cluster, group string, resources ...string) (accept func()) {
	t.Helper()
	c, err := client.New(cluster.Config, client.Options{})
	require.NoError(t, err)
	var matched []string
	for _, resource := range resources {
		matched = append(matched, resource, resource+"/status")
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: contested + "-" + resources[0]},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: matched},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("object.metadata.name != '%[1]s-probe' && !(has(request.subResource) && request.subResource == 'status' && object.metadata.name == '%[1]s')", contested),
				Message:    "no status today", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	for _, object := range []client.Object{policy, binding} {
		require.NoError(t, c.Create(t.Context(), object))
		t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
	}
	probes := map[string]*unstructured.Unstructured{
		"nodemaintenances":     unstructuredObject("maintenance.nvidia.com/v1alpha1", "NodeMaintenance", contested+"-probe", map[string]any{"requestorID": "a.b", "nodeName": "n"}),
		"clustergroupupgrades": unstructuredObject("ran.openshift.io/v1alpha1", "ClusterGroupUpgrade", contested+"-probe", map[string]any{"clusters": []any{"c"}, "remediationStrategy": map[string]any{"maxConcurrency": int64(1)}}),
		"components":           unstructuredObject(sreportal, "Component", contested+"-probe", map[string]any{"displayName": "P", "group": "P", "portalRef": "p", "status": "operational"}),
	}
	probe := probes[resources[0]]
	require.Eventually(t, func() bool {
		return apierrors.IsForbidden(c.Create(t.Context(), probe.DeepCopy(), client.DryRunAll))
	}, stateLimit, 50*time.Millisecond, "the admission policy applies")
	return func() {
		require.NoError(t, c.Delete(t.Context(), binding))
	}
}

// war lets two clients apply the object in turn: with these fields of the spec and without them. The version without them is the last one.
func (r *kubeRequestor) war(fields map[string]any) {
	r.t.Helper()
	other := r.object.DeepCopy()
	for name, value := range fields {
		require.NoError(r.t, unstructured.SetNestedField(other.Object, value, "spec", name))
	}
	for range contestedWrites {
		r.apply(other, "theirs")
		r.apply(r.object, "ours")
		for name := range fields {
			if _, common := r.object.Object["spec"].(map[string]any)[name]; !common {
				r.apply(r.object, "theirs") // which no longer has the field
			}
		}
	}
}

// apply applies a version of the object, as `kubectl apply --server-side --force-conflicts` does.
func (r *kubeRequestor) apply(version *unstructured.Unstructured, manager string) {
	r.t.Helper()
	applied := client.ApplyConfigurationFromUnstructured(version.DeepCopy())
	require.NoError(r.t, r.client.Apply(r.t.Context(), applied, client.FieldOwner(manager), client.ForceOwnership))
}

// awaitObserved waits until the status shows the present generation of the object: in this field, or in a condition of this type.
func (r *kubeRequestor) awaitObserved(field string, condition ...string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		object, _ := r.read()
		if len(condition) == 0 {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", field)
			return observed == object.GetGeneration()
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", field)
		return slices.ContainsFunc(conditions, func(entry any) bool {
			shown := entry.(map[string]any)
			return shown["type"] == condition[0] && shown["observedGeneration"] == object.GetGeneration()
		})
	}, stateLimit, 200*time.Millisecond, "the status is of an earlier generation")
}
