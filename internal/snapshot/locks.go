package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

// Locks reads the workload locks of a cluster and the requests to release them. A cluster that does not serve these kinds has none.
func Locks(ctx context.Context, reader client.Reader) (locks.Snapshot, error) {
	var clusterRequests lcmv1.ClusterMaintenanceRequestList
	var nodeRequests lcmv1.NodeMaintenanceRequestList
	var deletionRequests lcmv1.NodeDeletionRequestList
	var disabled lcmv1.NodeDisableNotificationList
	var clusterLocks lcmv1.ClusterWorkloadLockList
	var nodeLocks lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&clusterRequests, &nodeRequests, &deletionRequests, &disabled, &clusterLocks, &nodeLocks} {
		if err := listIfServed(ctx, reader, list, client.UnsafeDisableDeepCopy); err != nil {
			return locks.Snapshot{}, err
		}
	}
	return locks.Snapshot{
		ClusterRequests: clusterRequests.Items, NodeRequests: nodeRequests.Items,
		DeletionRequests: deletionRequests.Items, Disabled: disabled.Items,
		ClusterLocks: clusterLocks.Items, NodeLocks: nodeLocks.Items,
	}, nil
}

// WorkloadLocks reads the input of decisions about the locks of an application with pods in that namespace, except its health
// (locks.Snapshot.Examine). Objects from a cache must not be changed.
func WorkloadLocks(ctx context.Context, reader client.Reader, namespace string) (locks.Snapshot, error) {
	found, err := Locks(ctx, reader)
	if err != nil {
		return locks.Snapshot{}, err
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return locks.Snapshot{}, fmt.Errorf("list nodes: %w", err)
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return locks.Snapshot{}, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	found.Nodes, found.Pods = nodes.Items, pods.Items
	return found, nil
}
