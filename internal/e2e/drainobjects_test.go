package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/devstack"
)

// A lock that was made for another release of the product holds the node before its cordon.
func TestALockOfAnotherReleaseHoldsTheDrain(t *testing.T) {
	reserve(t, "spoke-5")
	spoke := theFleet.Cluster("spoke-5")
	deployTenants(t, spoke, 2*workers)
	u := newPolicyUser(t, spoke)
	policy := routersPolicy("released")
	policy["release"] = "24.2"
	u.apply("released", policy)
	u.await("released", "True LocksKept", workers, 0)
	r := request(t, spoke, "release", map[string]any{"nodeName": "worker-1", "drainSpec": map[string]any{}, "lockRelease": "25.1"})
	u.eventually(func() bool {
		object, _ := r.read()
		blockers, _, _ := unstructured.NestedSlice(object.Object, "status", "wait", "blockers")
		return len(blockers) == 1 && strings.Contains(blockers[0].(map[string]any)["message"].(string), "its release is 24.2, and 25.1 is requested")
	}, "the maintenance does not wait for the lock of release 24.2")
	require.False(t, r.cordoned("worker-1"))
	require.NotEmpty(t, evictable(t, spoke, "worker-1"))

	u.patch("released", `{"spec":{"release":"25.1"}}`)
	r.await("True Ready")
	require.True(t, r.cordoned("worker-1"))
	require.Empty(t, evictable(t, spoke, "worker-1"))
	r.delete()
	r.awaitGone()
	require.False(t, r.cordoned("worker-1"))
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

// requestByAnnotation sets the requestor of a node, as kubectl annotate does; "": it removes the annotation.
func requestByAnnotation(ctx context.Context, t *testing.T, spoke *devstack.Cluster, node, requestor string) {
	t.Helper()
	value := "null"
	if requestor != "" {
		value = fmt.Sprintf("%q", requestor)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"drydock.dev/maintain":%s}}}`, value)
	_, err := spoke.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestAnAnnotationDrainsItsNode(t *testing.T) {
	reserve(t, "spoke-6")
	spoke := theFleet.Cluster("spoke-6")
	deployTenants(t, spoke, 2*workers)
	state := func() string { return node(t, spoke, "worker-1").Annotations["drydock.dev/maintain-state"] }
	requestByAnnotation(t.Context(), t, spoke, "worker-1", "ann.example.com")
	t.Cleanup(func() { requestByAnnotation(context.Background(), t, spoke, "worker-1", "") })
	require.Eventually(t, func() bool { return state() == "Ready" }, stateLimit, 200*time.Millisecond, "the node is not ready")
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable)
	require.Empty(t, evictable(t, spoke, "worker-1"))

	requestByAnnotation(t.Context(), t, spoke, "worker-1", "")
	require.Eventually(t, func() bool { return state() == "" }, stateLimit, 200*time.Millisecond, "the node still shows a maintenance")
	require.False(t, node(t, spoke, "worker-1").Spec.Unschedulable)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}
