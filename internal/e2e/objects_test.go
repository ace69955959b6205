package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// kubeRequestor knows only the API of Kubernetes, and imports nothing of Drydock.
type kubeRequestor struct {
	t      *testing.T
	client client.Client
	spoke  *devstack.Cluster
	object *unstructured.Unstructured
}

// request applies a NodeMaintenance with these fields of its spec.
func request(t *testing.T, spoke *devstack.Cluster, name string, spec map[string]any) *kubeRequestor {
	t.Helper()
	r := newKubeRequestor(t, spoke, name, spec)
	r.create()
	return r
}

func newKubeRequestor(t *testing.T, spoke *devstack.Cluster, name string, spec map[string]any) *kubeRequestor {
	t.Helper()
	c, err := client.New(spoke.Config, client.Options{})
	require.NoError(t, err)
	if spec["requestorID"] == nil {
		spec["requestorID"] = "gpu.example.com"
	}
	return &kubeRequestor{t: t, client: c, spoke: spoke, object: unstructuredObject("maintenance.nvidia.com/v1alpha1", "NodeMaintenance", name, spec)}
}

func unstructuredObject(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name}, "spec": spec,
	}}
}

// create creates the object, which is deleted after the test.
func (r *kubeRequestor) create() {
	r.t.Helper()
	object := r.object.DeepCopy()
	require.NoError(r.t, r.client.Create(r.t.Context(), object))
	r.t.Cleanup(func() { _ = r.client.Delete(context.Background(), object) })
}

// read reads the object, and reports whether it exists.
func (r *kubeRequestor) read() (*unstructured.Unstructured, bool) {
	r.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.object.GroupVersionKind())
	err := r.client.Get(r.t.Context(), client.ObjectKeyFromObject(r.object), object)
	return object, !apierrors.IsNotFound(err)
}

// await waits until the condition Ready has this status and reason.
func (r *kubeRequestor) await(statusAndReason string) *unstructured.Unstructured {
	r.t.Helper()
	return r.awaitCondition("Ready", statusAndReason)
}

func (r *kubeRequestor) awaitCondition(kind, statusAndReason string) *unstructured.Unstructured {
	r.t.Helper()
	var object *unstructured.Unstructured
	require.Eventually(r.t, func() bool {
		object, _ = r.read()
		return conditionOf(object, kind) == statusAndReason
	}, stateLimit, 200*time.Millisecond, "condition %s is not %s", kind, statusAndReason)
	return object
}

func (r *kubeRequestor) delete() {
	r.t.Helper()
	require.NoError(r.t, r.client.Delete(r.t.Context(), r.object.DeepCopy()))
}

func (r *kubeRequestor) awaitGone() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { _, found := r.read(); return !found }, stateLimit, 200*time.Millisecond, "the object is not released")
}

func (r *kubeRequestor) patch(patch string) {
	r.t.Helper()
	require.NoError(r.t, r.client.Patch(r.t.Context(), r.object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// fail sets the requestor's own condition, as a client that read the object before.
func (r *kubeRequestor) fail(failed bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		object, _ := r.read()
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		var kept []any
		for _, condition := range conditions {
			if condition.(map[string]any)["type"] != "RequestorFailed" {
				kept = append(kept, condition)
			}
		}
		status := map[bool]string{true: "True", false: "False"}[failed]
		kept = append(kept, map[string]any{
			"type": "RequestorFailed", "status": status, "reason": "FailedMaintenance", "message": "firmware does not fit",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})
		require.NoError(r.t, unstructured.SetNestedSlice(object.Object, kept, "status", "conditions"))
		return r.client.Status().Update(r.t.Context(), object) == nil // again after a conflict
	}, stateLimit, 200*time.Millisecond)
}

func (r *kubeRequestor) cordoned(name string) bool {
	return node(r.t, r.spoke, name).Spec.Unschedulable
}

// conditionOf returns "Status Reason" of a condition of an object; "": it has none of that type.
func conditionOf(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition := entry.(map[string]any); condition["type"] == kind {
			return condition["status"].(string) + " " + condition["reason"].(string)
		}
	}
	return ""
}

func TestAnAppliedNodeMaintenanceTakesTheNodeAndReturnsItWhenDeleted(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	deployTenants(t, spoke, 2*workers)
	r := request(t, spoke, "gpu-worker-1", map[string]any{"nodeName": "worker-1", "drainSpec": map[string]any{}})
	object := r.await("True Ready")
	require.True(t, r.cordoned("worker-1"))
	require.Empty(t, evictable(t, spoke, "worker-1"))
	require.NotEmpty(t, object.GetAnnotations()["maintenance.nvidia.com/ready-time"])
	require.Equal(t, "Node", object.GetOwnerReferences()[0].Kind)
	drained, _, _ := unstructured.NestedMap(object.Object, "status", "drain")
	require.Positive(t, drained["evictionPods"])
	require.EqualValues(t, 100, drained["drainProgress"])

	r.delete()
	r.awaitGone()
	require.False(t, r.cordoned("worker-1"))
	require.Equal(t, []string{"Pending", "Scheduled", "Cordon", "Draining", "Ready", "HealthChecks", "CleaningUp", "Completed"}, statesOf(t, r))
	require.Contains(t, shownStates(t, spoke, object), "Ready")
	onNode, err := spoke.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=worker-1,reason=Ready"})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(onNode.Items, func(e corev1.Event) bool {
		return strings.HasSuffix(e.Message, "("+temporal.NodeMaintenanceID(spoke.Name, "default", "gpu-worker-1")+")")
	}), "%v", onNode.Items)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

func TestSeveralRequestorsShareAnObject(t *testing.T) {
	reserve(t, "spoke-4")
	r := request(t, theFleet.Cluster("spoke-4"), "shared", map[string]any{"nodeName": "worker-1", "requestorID": "GPU.example.com"})
	r.await("True Ready")
	r.patch(`{"spec":{"additionalRequestors":["net.example.com"]}}`)
	r.delete()
	r.fail(true)
	object := r.await("False RequestorFailed")
	require.Equal(t, "True FailedMaintenance", conditionOf(object, "RequestorFailed"), "the condition of the requestor stays")
	r.fail(false)
	r.await("True Ready")
	require.True(t, r.cordoned("worker-1"), "the other requestor needs the node")
	r.patch(`{"spec":{"additionalRequestors":[]}}`)
	r.awaitGone()
	require.False(t, r.cordoned("worker-1"))
}

func TestAnObjectIsDeletedDuringTheDrain(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	r := request(t, spoke, "deleted", map[string]any{"nodeName": "worker-1", "drainSpec": map[string]any{}})
	awaitEviction(t, spoke, slowPod)
	object, _ := r.read()
	r.delete()
	r.awaitGone()
	require.False(t, r.cordoned("worker-1"))
	states := statesOf(t, r)
	require.NotContains(t, states, "Ready")
	require.Equal(t, []string{"HealthChecks", "CleaningUp", "Cancelled"}, states[len(states)-3:])
	require.NotContains(t, shownStates(t, spoke, object), "Ready")
	endSlowTermination(t, spoke, slowPod)
}

// A requestor may follow the conditions of the node, which a drain sets before its maintenance is ready.
func TestARequestorThatFollowsTheConditionsOfTheNodeIsDone(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	for round := range 5 {
		r := newKubeRequestor(t, spoke, fmt.Sprintf("follows-%d", round), map[string]any{"nodeName": "worker-1", "drainSpec": map[string]any{}})
		nodes, err := spoke.Client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=worker-1"})
		require.NoError(t, err)
		r.create()
		for event := range nodes.ResultChan() {
			if drained := kube.FindNodeCondition(event.Object.(*corev1.Node), "Drained"); drained != nil && drained.Status == corev1.ConditionTrue {
				break
			}
		}
		nodes.Stop()
		r.delete()
		r.awaitGone()
		require.Equal(t, []string{"HealthChecks", "CleaningUp", "Completed"}, statesOf(t, r)[5:])
	}
}

// statesOf returns the states of the maintenance of an object, which is over, in their order.
func statesOf(t *testing.T, r *kubeRequestor) []string {
	t.Helper()
	var states []string
	id := temporal.NodeMaintenanceID(r.spoke.Name, r.object.GetNamespace(), r.object.GetName())
	over := ask(t, id, func(s maintenancev1.NodeMaintenanceStatus) bool { return s.CompletedAt != nil })
	for _, entered := range over.States {
		states = append(states, string(entered.State))
	}
	return states
}

// shownStates returns the states in the Events of an object: those that its condition has shown.
func shownStates(t *testing.T, spoke *devstack.Cluster, object *unstructured.Unstructured) []string {
	t.Helper()
	events, err := spoke.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(object.GetUID())})
	require.NoError(t, err)
	var states []string
	for _, event := range events.Items {
		require.Equal(t, "ConditionChanged", event.Reason)
		states = append(states, event.Message)
	}
	return states
}

func TestAnObjectWaitsForItsNodeAndForAPodThatMayNotBeEvicted(t *testing.T) {
	reserve(t, "spoke-4")
	spoke := theFleet.Cluster("spoke-4")
	r := request(t, spoke, "early", map[string]any{"nodeName": "worker-new", "drainSpec": map[string]any{}})
	r.await("False NodeNotFound")
	require.NoError(t, spoke.AddNodes(t.Context(), devstack.Node{Name: "worker-new"}))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(spoke.Client.CoreV1().Nodes().Delete(context.Background(), "worker-new", metav1.DeleteOptions{})))
		awaitNoLocks(t, spoke, "worker-new")
	})
	r.await("True Ready")
	r.delete()
	r.awaitGone()

	bare := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bare"},
		Spec:       corev1.PodSpec{NodeName: "worker-new", Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/bare:1.0"}}},
	}
	_, err := spoke.Client.CoreV1().Pods("default").Create(t.Context(), bare, metav1.CreateOptions{})
	require.NoError(t, err)
	r.create()
	require.Eventually(t, func() bool {
		object, _ := r.read()
		reason, _, _ := unstructured.NestedString(object.Object, "status", "wait", "reason")
		return reason == "PodsNotEvictable"
	}, stateLimit, 200*time.Millisecond)
	require.False(t, r.cordoned("worker-new"))
	r.patch(`{"spec":{"drainSpec":{"force":true}}}`)
	r.await("True Ready")
	require.Empty(t, evictable(t, spoke, "worker-new"))
	r.delete()
	r.awaitGone()
}

// awaitNoLocks waits until the controllers have deleted the locks of a node that was deleted.
func awaitNoLocks(t *testing.T, spoke *devstack.Cluster, node string) {
	t.Helper()
	require.NoError(t, theFleet.Await(context.Background(), spoke, "the locks of "+node+" are deleted", []client.Object{&lcmv1.NodeWorkloadLock{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var locks lcmv1.NodeWorkloadLockList
			err := reader.List(ctx, &locks)
			return !slices.ContainsFunc(locks.Items, func(lock lcmv1.NodeWorkloadLock) bool { return lock.Spec.NodeName == node }), err
		}))
}

func TestAnObjectHasTheNameOfAMaintenanceWithoutObject(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	succeeds(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--name", "twice", "--wait")
	t.Cleanup(func() { // a running maintenance would block the next tests
		_ = theFleet.Run(context.Background(), io.Discard, "node", "cancel", "twice", "--cluster", spoke.Name)
	})
	r := request(t, spoke, "twice", map[string]any{"nodeName": "worker-2"})
	r.await("False NameInUse")
	require.False(t, r.cordoned("worker-2"))
	succeeds(t, "node", "done", "twice", "--cluster", spoke.Name)
	r.await("True Ready")
	require.True(t, r.cordoned("worker-2"))
	require.Contains(t, drydock(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--name", "twice").err, "twice")
	r.delete()
	r.awaitGone()
}

// The finalizer of an object is removed by force while no worker runs, and another object has its name when the worker is back.
func TestAnObjectIsReplacedWhileNoWorkerRuns(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-2")
	first := request(t, spoke, "replaced", map[string]any{"nodeName": "worker-1"})
	first.await("True Ready")
	vanished := request(t, spoke, "vanished", map[string]any{"nodeName": "worker-2"})
	vanished.await("False Pending")

	require.NoError(t, theFleet.Worker.Kill())
	for _, r := range []*kubeRequestor{first, vanished} {
		r.delete()
		r.patch(`{"metadata":{"finalizers":null}}`)
		r.awaitGone()
	}
	second := request(t, spoke, "replaced", map[string]any{"nodeName": "worker-2"})
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	second.await("True Ready")
	require.Eventually(t, func() bool { return !second.cordoned("worker-1") }, stateLimit, 200*time.Millisecond)
	second.delete()
	second.awaitGone()
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}
