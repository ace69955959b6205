package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// created creates an object as someone else would, and removes it when the test is over.
func created[T client.Object](t testing.TB, object T) T {
	t.Helper()
	cluster := testCluster(t)
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	settled(t, spokeName, object)
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return object
}

// say writes the state of a lock as its application would.
func say(t *testing.T, lock client.Object, state lcmv1.LockState, message string) {
	t.Helper()
	patch := client.MergeFrom(lock.DeepCopyObject().(client.Object))
	status := lcmv1.WorkloadLockStatus{State: state, ErrorMessage: message}
	switch lock := lock.(type) {
	case *lcmv1.NodeWorkloadLock:
		lock.Status = status
	case *lcmv1.ClusterWorkloadLock:
		lock.Status = status
	}
	require.NoError(t, testCluster(t).Client.Status().Patch(t.Context(), lock, patch))
	settled(t, spokeName, lock)
}

func heldNode(t *testing.T, controller, node string) *lcmv1.NodeWorkloadLock {
	t.Helper()
	lock := created(t, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + controller + "-"},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: controller, NodeName: node},
	})
	say(t, lock, lcmv1.LockActive, "")
	return lock
}

func heldCluster(t *testing.T, controller string) *lcmv1.ClusterWorkloadLock {
	t.Helper()
	lock := created(t, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + controller + "-"},
		Spec:       lcmv1.ClusterWorkloadLockSpec{ControllerName: controller},
	})
	say(t, lock, lcmv1.LockActive, "")
	return lock
}

// requestsFor returns the requests for a node, as the API server has them.
func requestsFor(t *testing.T, node string) []lcmv1.NodeMaintenanceRequest {
	t.Helper()
	var list lcmv1.NodeMaintenanceRequestList
	require.NoError(t, testCluster(t).Client.List(t.Context(), &list))
	var requests []lcmv1.NodeMaintenanceRequest
	for _, r := range list.Items {
		if r.Spec.NodeName == node {
			requests = append(requests, r)
		}
	}
	return requests
}
