package objects_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/objects"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// request creates a NodeMaintenance.
func request(t *testing.T, name string, finalizers ...string) (*maintenancev1.NodeMaintenance, temporal.Object) {
	t.Helper()
	object := activitytest.Create(t, activitytest.BareCluster(t), &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: "n1"},
	})
	return object, temporal.Object{
		Cluster: activitytest.HubName, APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance",
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// publish writes a status with this state.
func publish(t *testing.T, a *objects.Activities, of temporal.Object, state maintenancev1.NodeState, change func(*objects.PublishStatusInput)) objects.PublishStatusResult {
	t.Helper()
	in := statusInput(of, state)
	if change != nil {
		change(&in)
	}
	result, err := a.PublishStatus(t.Context(), in)
	require.NoError(t, err)
	return result
}

func statusInput(of temporal.Object, state maintenancev1.NodeState) objects.PublishStatusInput {
	ready := metav1.Condition{Type: maintenancev1.ConditionReady, Status: metav1.ConditionFalse, Reason: string(state), LastTransitionTime: metav1.Now()}
	return objects.PublishStatusInput{Object: of, Status: maintenancev1.NodeMaintenanceStatus{State: state, Conditions: []metav1.Condition{ready}}}
}

func read(t *testing.T, object *maintenancev1.NodeMaintenance) *maintenancev1.NodeMaintenance {
	t.Helper()
	found := &maintenancev1.NodeMaintenance{}
	require.NoError(t, activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(object), found))
	return found
}

func TestAStatusKeepsWhatOthersWrite(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	object, of := request(t, "others")
	publish(t, a, of, maintenancev1.NodePending, nil)
	failed := metav1.Condition{Type: maintenancev1.ConditionRequestorFailed, Status: metav1.ConditionTrue, Reason: "FailedMaintenance", LastTransitionTime: metav1.Now()}
	theirs := read(t, object)
	theirs.Status.Conditions = append(theirs.Status.Conditions, failed)
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Update(t.Context(), theirs))

	publish(t, a, of, maintenancev1.NodeReady, func(in *objects.PublishStatusInput) {
		in.Annotations = map[string]string{maintenancev1.AnnotationReadyTime: "2026-11-23T10:00:00Z"}
		in.Events = []events.ObjectEvent{{Number: 1, Reason: maintenancev1.EventConditionChanged, Message: "Ready", At: time.Now()}}
	})
	found := read(t, object)
	require.Equal(t, maintenancev1.NodeReady, found.Status.State)
	require.True(t, meta.IsStatusConditionTrue(found.Status.Conditions, maintenancev1.ConditionRequestorFailed))
	require.Equal(t, "2026-11-23T10:00:00Z", found.Annotations[maintenancev1.AnnotationReadyTime])

	publish(t, a, of, maintenancev1.NodeReady, func(in *objects.PublishStatusInput) { // its first result was lost
		in.Events = []events.ObjectEvent{{Number: 1, Reason: maintenancev1.EventConditionChanged, Message: "Ready", At: time.Now()}}
	})
	var recorded corev1.EventList
	require.NoError(t, activitytest.BareCluster(t).Client.List(t.Context(), &recorded, client.InNamespace("default")))
	count := 0
	for _, event := range recorded.Items {
		if event.InvolvedObject.UID == of.UID {
			count++
			require.Equal(t, "Ready", event.Message)
		}
	}
	require.Equal(t, 1, count, "recorded once")
}

// Requestors may follow the Events of a node: those do not depend on the object.
func TestAnEventOnANodeIsRecordedOnceWithOrWithoutTheObject(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	_, of := request(t, "on-node")
	gone := of
	gone.UID = "3f9d1b62-0c1a-4a55-9f5e-2f8f3a9c7d10"
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	for occurrence, object := range []temporal.Object{of, gone} {
		for range 2 { // the first result was lost
			publish(t, a, object, maintenancev1.NodeReady, func(in *objects.PublishStatusInput) {
				in.OnNodes = []events.NodeEvent{{
					NodeRef: activitykit.NodeRef{Cluster: activitytest.HubName, Node: "n1", Owner: "node/hub/default/on-node/run"},
					Event:   events.Event{Reason: "Ready", Occurrence: int32(occurrence + 1), Message: "the node is ready", At: at},
				}}
			})
		}
	}
	var recorded corev1.EventList
	require.NoError(t, activitytest.BareCluster(t).Client.List(t.Context(), &recorded, client.InNamespace("default")))
	count := 0
	for _, event := range recorded.Items {
		if event.InvolvedObject.Kind == "Node" && event.InvolvedObject.Name == "n1" {
			count++
			require.Equal(t, "the node is ready (node/hub/default/on-node)", event.Message)
			require.True(t, event.FirstTimestamp.Time.Equal(at))
		}
	}
	require.Equal(t, 2, count)
}

func TestTheStatusOfAnotherObjectIsNotTouched(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	object, of := request(t, "another")
	of.UID = "3f9d1b62-0c1a-4a55-9f5e-2f8f3a9c7d10"
	for _, change := range []func(*objects.PublishStatusInput){
		nil,
		func(in *objects.PublishStatusInput) {
			in.Annotations = map[string]string{maintenancev1.AnnotationReadyTime: "now"}
		},
	} {
		require.True(t, publish(t, a, of, maintenancev1.NodeReady, change).Gone)
	}
	found := read(t, object)
	require.Empty(t, found.Status)
	require.Empty(t, found.Annotations)
	gone, err := a.ReadRequest(t.Context(), of)
	require.NoError(t, err)
	require.True(t, gone.Gone)
}

func TestTheLastStatusReleasesADeletedObject(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	const theirs = "maintenance.nvidia.com/finalizer"
	object, of := request(t, "released", objects.Finalizer, theirs)
	final := func(in *objects.PublishStatusInput) { in.Final = true }
	publish(t, a, of, maintenancev1.NodeCompleted, final)
	require.Equal(t, []string{objects.Finalizer, theirs}, read(t, object).Finalizers, "it is not deleted")

	require.NoError(t, activitytest.BareCluster(t).Client.Delete(t.Context(), object))
	publish(t, a, of, maintenancev1.NodeCompleted, final)
	err := activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(object), &maintenancev1.NodeMaintenance{})
	require.True(t, apierrors.IsNotFound(err))
	require.True(t, publish(t, a, of, maintenancev1.NodeCompleted, final).Gone)
}

func TestOnlyADeletedObjectThatNothingElseKeepsIsReleasedWithoutAStatus(t *testing.T) {
	cluster := activitytest.BareCluster(t)
	tests := []struct {
		name       string
		finalizers []string
		deleted    bool
		released   bool
	}{
		{"ours", []string{objects.Finalizer}, true, true},
		{"of-the-original-too", []string{objects.Finalizer, "maintenance.nvidia.com/finalizer"}, true, true},
		{"of-its-requestor", []string{objects.Finalizer, "gpu.example.com/finalizer"}, true, false},
		{"not-deleted", []string{objects.Finalizer}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object, of := request(t, "last-"+tt.name, tt.finalizers...)
			if tt.deleted {
				require.NoError(t, cluster.Client.Delete(t.Context(), object))
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) { // the cache follows
				cached := &maintenancev1.NodeMaintenance{}
				assert.NoError(c, cluster.Cache.Get(t.Context(), client.ObjectKeyFromObject(object), cached))
				assert.Equal(c, tt.deleted, cached.DeletionTimestamp != nil)
			}, time.Minute, 10*time.Millisecond)
			released, err := objects.ReleaseLast(t.Context(), cluster, of)
			require.NoError(t, err)
			require.Equal(t, tt.released, released)
			err = cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			require.Equal(t, tt.released, apierrors.IsNotFound(err), "%v", err)
			if !tt.released {
				require.Equal(t, tt.finalizers, object.Finalizers)
			}
		})
	}
}

func TestAnObjectIsDeletedWithItsLastStatus(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	object, of := request(t, "collected", objects.Finalizer)
	publish(t, a, of, maintenancev1.NodeCancelled, func(in *objects.PublishStatusInput) { in.Final, in.Delete = true, true })
	err := activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(object), &maintenancev1.NodeMaintenance{})
	require.True(t, apierrors.IsNotFound(err))
}

// The CRD of the original operator has no fields of Drydock's.
func TestAStatusHasTheFieldsOfTheOperatorsCRD(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	c := activitytest.BareCluster(t).Client
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	key := client.ObjectKey{Name: "nodemaintenances.maintenance.nvidia.com"}
	change := func(status func(map[string]any) map[string]any) {
		t.Helper()
		require.NoError(t, kube.RetryOnConflict(func() error { // the API server writes its status
			if err := c.Get(t.Context(), key, definition); err != nil {
				return err
			}
			versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
			fields := []string{"schema", "openAPIV3Schema", "properties", "status", "properties"}
			properties, _, _ := unstructured.NestedMap(versions[0].(map[string]any), fields...)
			return errors.Join(
				unstructured.SetNestedMap(versions[0].(map[string]any), status(properties), fields...),
				unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"),
				c.Update(t.Context(), definition),
			)
		}))
	}
	var ours map[string]any
	change(func(properties map[string]any) map[string]any {
		ours = properties
		return map[string]any{"conditions": properties["conditions"], "waitForCompletion": properties["waitForCompletion"]}
	})
	defer change(func(map[string]any) map[string]any { return ours })
	object, of := request(t, "fewer")
	require.Eventually(t, func() bool { // the API server serves a changed CRD a moment later
		found := &maintenancev1.NodeMaintenance{}
		_, written := a.PublishStatus(t.Context(), statusInput(of, maintenancev1.NodeDraining))
		return written == nil && c.Get(t.Context(), client.ObjectKeyFromObject(object), found) == nil && found.Status.State == "" && len(found.Status.Conditions) == 1
	}, activitytest.EventTimeout, 50*time.Millisecond)
	publish(t, a, of, maintenancev1.NodeReady, nil)
	require.Equal(t, string(maintenancev1.NodeReady), read(t, object).Status.Conditions[0].Reason)
	found, err := a.ReadRequest(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, objects.Request{Reasons: map[string]string{"Ready": string(maintenancev1.NodeReady)}}, found)
}
