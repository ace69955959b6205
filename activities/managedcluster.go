package activities

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// managedClusterKind is the kind of objects that register clusters on the hub.
var managedClusterKind = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}

// registeredCluster is an empty ManagedCluster to read metadata into.
func registeredCluster(name string) *metav1.PartialObjectMetadata {
	cluster := &metav1.PartialObjectMetadata{}
	cluster.SetGroupVersionKind(managedClusterKind)
	cluster.SetName(name)
	return cluster
}

// vanished reports whether the ManagedCluster of a cluster is gone or is being deleted. The API server decides: the cache may not have it yet.
func vanished(ctx context.Context, hub *kube.Cluster, cluster string) (bool, error) {
	registered := registeredCluster(cluster)
	key := client.ObjectKeyFromObject(registered)
	err := hub.Cache.Get(ctx, key, registered)
	if apierrors.IsNotFound(err) {
		err = hub.Client.Get(ctx, key, registered)
	}
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return registered.DeletionTimestamp != nil, explain(hub, "get ManagedCluster "+cluster, err)
}
