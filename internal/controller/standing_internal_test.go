package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/operators"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/locks"
)

func routers() *drydockv1.WorkloadLockPolicy {
	return &drydockv1.WorkloadLockPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "routers", UID: "1", Generation: 2, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec:       drydockv1.WorkloadLockPolicySpec{ControllerName: "vrouter", Namespace: "network"},
	}
}

// The doctor says on which kinds workers act.
func TestTheSteeredKindsAreThoseWithControllers(t *testing.T) {
	for _, hub := range []bool{true, false} {
		kinds := clusterKinds(Options{})
		if hub {
			kinds = hubKinds()
		}
		var have, listed []string
		for _, kind := range kinds {
			have = append(have, kind.resource.String())
		}
		for _, kind := range operators.Steered(hub) {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			listed = append(listed, plural.GroupResource().String())
		}
		require.ElementsMatch(t, have, listed)
	}
}

func TestTheRequestOfAWorkloadLockPolicyHasItsDefaultsOrItsProblem(t *testing.T) {
	of := &workloadLockPolicy{}
	request := of.request(routers()).(locks.ObjectRequest)
	require.Empty(t, request.InvalidSpec)
	require.EqualValues(t, 1, *request.Spec.MaxInactiveNodes)
	require.EqualValues(t, 2, request.Generation)

	invalid := routers()
	invalid.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Sometimes"}}
	require.Contains(t, of.request(invalid).(locks.ObjectRequest).InvalidSpec, "spec.nodeSelector")
	_, refused, err := of.prepare(t.Context(), temporal.Object{}, invalid)
	require.NoError(t, err)
	require.Equal(t, reasonInvalidSpec, refused.Reason)
	invalid.DeletionTimestamp = &metav1.Time{}
	starts, refused, err := of.prepare(t.Context(), temporal.Object{}, invalid)
	require.NoError(t, err)
	require.Nil(t, refused, "a deleted policy is cleaned up")
	require.Equal(t, "vrouter", starts.input.(locks.Input).Policy.Spec.ControllerName)
}

func TestAnEndedControllerStartsAgainWhenItsPolicyIsEdited(t *testing.T) {
	of, policy := &workloadLockPolicy{}, routers()
	require.False(t, of.over(policy, true), "its workflow was terminated")
	policy.Status = drydockv1.WorkloadLockPolicyStatus{State: drydockv1.LockControllerCancelled, ObservedGeneration: 2}
	require.True(t, of.over(policy, false))
	policy.Generation = 3
	require.False(t, of.over(policy, false))
}

func TestAHarborClusterStartsAgainWhenItMayBeManaged(t *testing.T) {
	of := &harborCluster{}
	object := &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 2, Annotations: map[string]string{harbor.AnnotationUnmanaged: "2"}}}
	require.True(t, of.over(object, false))
	before := of.request(object)
	object.Annotations = nil
	require.False(t, of.over(object, false))
	require.True(t, (&requests[*goharborv1.HarborCluster]{of: of}).changes().Update(updateOf(object, func(was *goharborv1.HarborCluster) {
		was.Annotations = map[string]string{harbor.AnnotationUnmanaged: "2"}
	})))
	require.False(t, (&requests[*goharborv1.HarborCluster]{of: of}).changes().Update(updateOf(object, func(was *goharborv1.HarborCluster) {
		was.Status.ObservedGeneration = 1
	})))
	require.NotEqual(t, before, of.request(object))
}

// Its own status, which the workflow writes, is most of what changes.
func TestANodeMaintenanceIsReadAgainWhenItsRequestorChangesIt(t *testing.T) {
	changes := (&requests[*maintenancev1.NodeMaintenance]{of: &nodeMaintenance{}}).changes()
	failed := metav1.Condition{Type: maintenancev1.ConditionRequestorFailed, Status: metav1.ConditionTrue, Message: "the driver does not load"}
	now := &maintenancev1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 2, Annotations: map[string]string{maintenancev1.AnnotationKeepStale: "true"}}}
	now.Status.Conditions = []metav1.Condition{failed}
	for what, before := range map[string]func(*maintenancev1.NodeMaintenance){
		"an edit":                 func(was *maintenancev1.NodeMaintenance) { was.Generation = 1 },
		"another object":          func(was *maintenancev1.NodeMaintenance) { was.UID = "0" },
		"a failure":               func(was *maintenancev1.NodeMaintenance) { was.Status.Conditions = nil },
		"why it failed":           func(was *maintenancev1.NodeMaintenance) { was.Status.Conditions[0].Message = "" },
		"the garbage collection":  func(was *maintenancev1.NodeMaintenance) { was.Annotations = nil },
		"the end of its deletion": func(was *maintenancev1.NodeMaintenance) { was.DeletionTimestamp = new(metav1.Now()) },
	} {
		require.True(t, changes.Update(updateOf(now, before)), what)
	}
	require.False(t, changes.Update(updateOf(now, func(was *maintenancev1.NodeMaintenance) {
		was.Status.State = maintenancev1.NodeDraining
		was.Annotations[maintenancev1.AnnotationReadyTime] = "2026-11-28T03:00:00Z"
	})))
}

// updateOf returns the event of an object that was different before.
func updateOf[T interface {
	kubeclient.Object
	DeepCopy() T
}](now T, before func(T)) event.TypedUpdateEvent[T] {
	was := now.DeepCopy()
	before(was)
	return event.TypedUpdateEvent[T]{ObjectOld: was, ObjectNew: now}
}
