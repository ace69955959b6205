package activitykit

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// ManagedClusterKind is the kind of objects that register clusters on the hub.
var ManagedClusterKind = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}

// ManagedCluster is an empty ManagedCluster to read metadata into.
func ManagedCluster(name string) *metav1.PartialObjectMetadata {
	cluster := &metav1.PartialObjectMetadata{}
	cluster.SetGroupVersionKind(ManagedClusterKind)
	cluster.SetName(name)
	return cluster
}

// ManagedClusterGone reports whether the ManagedCluster of a cluster is gone or is being deleted. The API server decides: the cache may not have it yet.
func ManagedClusterGone(ctx context.Context, hub *kube.Cluster, cluster string) (bool, error) {
	registered := ManagedCluster(cluster)
	key := client.ObjectKeyFromObject(registered)
	err := hub.Cache.Get(ctx, key, registered)
	if apierrors.IsNotFound(err) {
		err = hub.Client.Get(ctx, key, registered)
	}
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return registered.DeletionTimestamp != nil, Explain(hub, "get ManagedCluster "+cluster, err)
}
