package locks

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

// ReasonForeignMaintenance: another program maintains the cluster or the node.
const ReasonForeignMaintenance = "ForeignMaintenance"

// RequestKinds are the kinds of requests that other programs create, too.
func RequestKinds() []client.Object {
	return []client.Object{kube.IfServed(&lcmv1.ClusterMaintenanceRequest{}), kube.IfServed(&lcmv1.NodeMaintenanceRequest{})}
}

// ForeignRequest returns the request of another program for the maintenance of the cluster or of the node, from the cache; nil: there is none. Use it for
// clusters that serve workload locks.
func ForeignRequest(ctx context.Context, cluster *kube.Cluster, node string) (*drydockv1.Blocker, error) {
	var ofCluster lcmv1.ClusterMaintenanceRequestList
	var ofNodes lcmv1.NodeMaintenanceRequestList
	for _, list := range []client.ObjectList{&ofCluster, &ofNodes} {
		if err := activitykit.ListIfServed(ctx, cluster.Cache, list); err != nil {
			return nil, activitykit.Explain(cluster, "list maintenance requests", err)
		}
	}
	for i := range ofCluster.Items {
		if r := &ofCluster.Items[i]; kube.Owner(r) == "" {
			return foreign("ClusterMaintenanceRequest", r.ObjectMeta, "the cluster"), nil
		}
	}
	for i := range ofNodes.Items {
		if r := &ofNodes.Items[i]; r.Spec.NodeName == node && kube.Owner(r) == "" {
			return foreign("NodeMaintenanceRequest", r.ObjectMeta, "node "+node), nil
		}
	}
	return nil, nil
}

func foreign(kind string, request metav1.ObjectMeta, what string) *drydockv1.Blocker {
	return &drydockv1.Blocker{
		Kind: kind, Name: request.Name, Reason: ReasonForeignMaintenance, Since: &request.CreationTimestamp,
		Message: fmt.Sprintf("another program maintains %s until it deletes %s %s", what, kind, request.Name),
	}
}
