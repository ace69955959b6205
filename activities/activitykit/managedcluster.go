package activitykit

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// ManagedClusterKind is the kind of objects that register clusters on the hub.
var ManagedClusterKind = policies.ManagedClusters

// ManagedCluster is an empty ManagedCluster to read into. The cache has only what policies.TrimManagedCluster keeps.
func ManagedCluster(name string) *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(ManagedClusterKind)
	cluster.SetName(name)
	return cluster
}

// maxNamedClusters is the maximum number of ManagedClusters that a wait watches by name.
const maxNamedClusters = 1000

// ManagedClusters are ManagedClusters to watch: a wait for a few must not look at each change of all others.
func ManagedClusters(names []string) []client.Object {
	if len(names) > maxNamedClusters {
		return []client.Object{ManagedCluster("")}
	}
	watched := make([]client.Object, len(names))
	for i, name := range names {
		watched[i] = ManagedCluster(name)
	}
	return watched
}

// ReadManagedCluster reads the ManagedCluster of a cluster from the cache; nil: it is gone or is being deleted. The API server decides whether it is gone:
// the cache may not have it yet.
func ReadManagedCluster(ctx context.Context, hub *kube.Cluster, cluster string) (*unstructured.Unstructured, error) {
	registered := ManagedCluster(cluster)
	key := client.ObjectKeyFromObject(registered)
	err := hub.Cache.Get(ctx, key, registered)
	if apierrors.IsNotFound(err) {
		err = hub.Client.Get(ctx, key, registered)
	}
	if apierrors.IsNotFound(err) || err == nil && registered.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return registered, Explain(hub, "get ManagedCluster "+cluster, err)
}

// ManagedClusterGone reports whether the ManagedCluster of a cluster is gone or is being deleted.
func ManagedClusterGone(ctx context.Context, hub *kube.Cluster, cluster string) (bool, error) {
	registered, err := ReadManagedCluster(ctx, hub, cluster)
	return registered == nil, err
}
