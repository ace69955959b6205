package activitytest

import (
	"context"
	"testing"

	"drydock.dev/drydock/activities/activitykit"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/internal/kube"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Created creates an object like another client, and deletes it after the test.
func Created[T client.Object](t testing.TB, object T) T {
	t.Helper()
	cluster := TestCluster(t)
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	Settled(t, SpokeName, object)
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return object
}

// WriteLockState writes the state of a lock, like its application.
func WriteLockState(t *testing.T, lock client.Object, state lcmv1.LockState, message string) {
	t.Helper()
	WriteLock(t, lock, lcmv1.WorkloadLockStatus{State: state, ErrorMessage: message})
}

// WriteLock writes the status of a lock, like its application.
func WriteLock(t *testing.T, lock client.Object, status lcmv1.WorkloadLockStatus) {
	t.Helper()
	patch := client.MergeFrom(lock.DeepCopyObject().(client.Object))
	switch lock := lock.(type) {
	case *lcmv1.NodeWorkloadLock:
		lock.Status = status
	case *lcmv1.ClusterWorkloadLock:
		lock.Status = status
	}
	require.NoError(t, TestCluster(t).Client.Status().Patch(t.Context(), lock, patch))
	Settled(t, SpokeName, lock)
}

func HeldNode(t *testing.T, controller, node string) *lcmv1.NodeWorkloadLock {
	t.Helper()
	lock := Created(t, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + controller + "-"},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: controller, NodeName: node},
	})
	WriteLockState(t, lock, lcmv1.LockActive, "")
	return lock
}

func HeldCluster(t *testing.T, controller string) *lcmv1.ClusterWorkloadLock {
	t.Helper()
	lock := Created(t, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + controller + "-"},
		Spec:       lcmv1.ClusterWorkloadLockSpec{ControllerName: controller},
	})
	WriteLockState(t, lock, lcmv1.LockActive, "")
	return lock
}

// RequestsFor returns the requests for a node, as the API server has them.
func RequestsFor(t *testing.T, node string) []lcmv1.NodeMaintenanceRequest {
	t.Helper()
	var list lcmv1.NodeMaintenanceRequestList
	require.NoError(t, TestCluster(t).Client.List(t.Context(), &list))
	var requests []lcmv1.NodeMaintenanceRequest
	for _, r := range list.Items {
		if r.Spec.NodeName == node {
			requests = append(requests, r)
		}
	}
	return requests
}

func Initiator() *locksactivities.Activities { return &locksactivities.Activities{Clusters: Clusters} }

// StaleLocks returns a cluster with a node. Its cache has the current locks and does not see their changes.
func StaleLocks(t *testing.T, name, resource string, list client.ObjectList) (faultyClusters, *kube.Cluster, activitykit.NodeRef) {
	t.Helper()
	BareNodes(t, name)
	f := NewFaultyClusters(t)
	seen, err := f.Clusters.Cluster(t.Context(), HubName)
	require.NoError(t, err)
	require.NoError(t, seen.Cache.List(t.Context(), list))
	f.LoseWatch(t, seen, "default", resource)
	return f, seen, activitykit.NodeRef{Cluster: HubName, Node: name, Owner: "node/" + HubName + "/default/" + name + "/first-run"}
}
