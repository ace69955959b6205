// Package activitykit holds the helpers of all activities: waits with reports, typed errors, and access to objects.
package activitykit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// NodeRef names a node of a cluster, and the owner that changes it.
type NodeRef struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Owner is the ownership mark: <workflow id>/<first run id>.
	Owner string `json:"owner"`
	// Requestor and Rollout are those of the maintenance, for the log. The rollout is namespace/name; empty for another requestor.
	Requestor string `json:"requestor,omitempty"`
	Rollout   string `json:"rollout,omitempty"`
}

// NodeToWatch returns the node of that name as an object to watch; none for an empty name.
func NodeToWatch(name string) []client.Object {
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	node.Name = name
	return []client.Object{node}
}

// IsUncordoned reports whether a node that was cordoned is now uncordoned. Unless it is known already, the API server confirms it: the cache may
// not have the cordon yet. A node that is gone is not uncordoned.
func IsUncordoned(ctx context.Context, cluster *kube.Cluster, name string, known bool) (bool, error) {
	readers := []client.Reader{cluster.Cache, cluster.Client}
	if known {
		readers = readers[:1]
	}
	for _, reader := range readers {
		node := &corev1.Node{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil || node.Spec.Unschedulable {
			return false, client.IgnoreNotFound(err)
		}
	}
	return true, nil
}
