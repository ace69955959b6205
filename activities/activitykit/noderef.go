// Package activitykit holds what all activities share: waits that report what they wait for, typed errors, and access to objects.
package activitykit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// NodeRef names a node of a cluster and on whose behalf it is touched.
type NodeRef struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Owner is the ownership mark: <workflow id>/<first run id>.
	Owner string `json:"owner"`
}

// NodeToWatch is the node to watch beside a Job, if it is for one.
func NodeToWatch(name string) []client.Object {
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	node.Name = name
	return []client.Object{node}
}

// IsUncordoned reports whether a node that was cordoned is not any more, as it may be known to be already. The first time that is believed only from the API
// server: the cache may not have seen the cordon yet. A node that is gone is not uncordoned.
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
