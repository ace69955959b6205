package controller_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/controller"
	"drydock.dev/drydock/internal/devstack"
)

// annotated is a node that is maintained by its annotations. The test plays the workflows.
type annotated struct {
	*testing.T
	admin kubeclient.Client
	name  string
}

// annotate sets the requestor of the node; nil removes it.
func (n annotated) annotate(requestor *string) {
	n.Helper()
	node := n.node()
	patch := kubeclient.MergeFrom(node.DeepCopy())
	delete(node.Annotations, controller.AnnotationMaintain)
	if requestor != nil {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, controller.AnnotationMaintain, *requestor)
	}
	require.NoError(n, n.admin.Patch(n.Context(), node, patch))
}

func (n annotated) node() *corev1.Node {
	n.Helper()
	node := &corev1.Node{}
	require.NoError(n, n.admin.Get(n.Context(), kubeclient.ObjectKey{Name: n.name}, node))
	return node
}

// awaitState waits until the node shows a state, and returns its annotations.
func (n annotated) awaitState(state string) map[string]string {
	n.Helper()
	require.Eventually(n, func() bool { return n.node().Annotations[controller.AnnotationMaintainState] == state }, patience, 20*time.Millisecond, "state %q", state)
	return n.node().Annotations
}

// await waits until the NodeMaintenance of a requestor satisfies a condition.
func (n annotated) await(requestor string, holds func(*maintenancev1.NodeMaintenance) bool) *maintenancev1.NodeMaintenance {
	n.Helper()
	object := &maintenancev1.NodeMaintenance{}
	key := kubeclient.ObjectKey{Namespace: "default", Name: n.name + "-" + requestor}
	require.Eventually(n, func() bool { return n.admin.Get(n.Context(), key, object) == nil && holds(object) }, patience, 20*time.Millisecond)
	return object
}

// finish releases a deleted object, as its workflow does at the end.
func (n annotated) finish(object *maintenancev1.NodeMaintenance) {
	n.Helper()
	require.Eventually(n, func() bool {
		current := &maintenancev1.NodeMaintenance{}
		err := n.admin.Get(n.Context(), kubeclient.ObjectKeyFromObject(object), current)
		if apierrors.IsNotFound(err) || current.UID != object.UID {
			return true
		}
		patch := kubeclient.MergeFrom(current.DeepCopy())
		current.Finalizers = nil
		_ = n.admin.Patch(n.Context(), current, patch)
		return false
	}, patience, 20*time.Millisecond)
}

func exists(*maintenancev1.NodeMaintenance) bool { return true }

func deleted(object *maintenancev1.NodeMaintenance) bool { return object.DeletionTimestamp != nil }

// maintainAnnotatedNodes runs the controllers with the rights of deploy/rbac.
func maintainAnnotatedNodes(t *testing.T, cluster *devstack.Cluster, server client.Client) {
	n := annotated{t, adminOf(t, cluster), "n1"}
	require.NoError(t, cluster.Apply(t.Context(),
		"deploy/crds/maintenance.nvidia.com_nodemaintenances.yaml", "deploy/rbac/initiator.yaml", "deploy/rbac/node-annotations.yaml"))
	require.NoError(t, n.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, Annotations: map[string]string{controller.AnnotationMaintain: "gpu.example.com"},
	}}))
	access := rest.CopyConfig(cluster.Config)
	access.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:drydock-system:drydock-initiator", Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	run(t, "annotated", access, controller.Options{Temporal: server, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), NodeAnnotations: true})

	object := n.await("gpu.example.com", exists)
	require.NotNil(t, object.Spec.DrainSpec)
	require.Equal(t, "true", object.Annotations[maintenancev1.AnnotationKeepStale])
	n.awaitState("Pending")
	object = n.await("gpu.example.com", func(o *maintenancev1.NodeMaintenance) bool { return len(o.Finalizers) > 0 })
	since := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	patch := kubeclient.MergeFrom(object.DeepCopy())
	object.Status.Conditions = []metav1.Condition{{
		Type: maintenancev1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "the node is ready for gpu.example.com", LastTransitionTime: since,
	}}
	require.NoError(t, n.admin.Status().Patch(t.Context(), object, patch))
	shown := n.awaitState("Ready")
	require.Equal(t, "the node is ready for gpu.example.com", shown[controller.AnnotationMaintainReason])
	require.Equal(t, "2026-11-20T10:00:00Z", shown[controller.AnnotationMaintainSince])

	n.annotate(new("no name"))
	object = n.await("gpu.example.com", deleted)
	require.Equal(t, "Ready", n.node().Annotations[controller.AnnotationMaintainState], "the former maintenance ends first")
	n.finish(object)
	shown = n.awaitState("InvalidSpec")
	require.Contains(t, shown[controller.AnnotationMaintainReason], "annotation drydock.dev/maintain: ")
	require.Contains(t, shown[controller.AnnotationMaintainReason], "spec.requestorID")

	theirs := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n1-net.example.com"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "net.example.com", NodeName: "n1"},
	}
	require.NoError(t, n.admin.Create(t.Context(), theirs))
	n.annotate(new("net.example.com"))
	shown = n.awaitState("NameInUse")
	require.Equal(t, "NodeMaintenance default/n1-net.example.com exists: delete it, or use another requestor", shown[controller.AnnotationMaintainReason])
	require.NoError(t, n.admin.Delete(t.Context(), theirs))
	n.finish(theirs)
	object = n.await("net.example.com", func(o *maintenancev1.NodeMaintenance) bool { return o.UID != theirs.UID })

	n.annotate(nil)
	require.Eventually(t, func() bool { // it has no finalizer if its workflow did not start yet
		err := n.admin.Get(t.Context(), kubeclient.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err) || err == nil && deleted(object)
	}, patience, 20*time.Millisecond)
	n.finish(object)
	n.awaitState("")
	for _, key := range []string{controller.AnnotationMaintainState, controller.AnnotationMaintainReason, controller.AnnotationMaintainSince} {
		require.NotContains(t, n.node().Annotations, key)
	}
}
