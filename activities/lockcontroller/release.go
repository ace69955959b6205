package lockcontroller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// ReleaseInput names an application whose WorkloadLockPolicy was deleted.
type ReleaseInput struct {
	Cluster        string          `json:"cluster"`
	ControllerName string          `json:"controllerName"`
	Policy         temporal.Object `json:"policy"`
}

// ReleaseResult is the result of ReleaseWorkloadLocks.
type ReleaseResult struct {
	// Removed locks.
	Removed int `json:"removed"`
	// KeptFor is another policy of the application, which takes over its locks; empty: there is none.
	KeptFor string `json:"keptFor,omitempty"`
}

// ReleaseWorkloadLocks removes the locks of an application, unless another policy takes them over. Errors: ClusterUnreachable.
func (w *Activities) ReleaseWorkloadLocks(ctx context.Context, in ReleaseInput) (ReleaseResult, error) {
	cluster, err := w.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return ReleaseResult{}, err
	}
	result, err := release(ctx, cluster, in)
	return result, activitykit.Explain(cluster, "remove the locks of "+in.ControllerName, err)
}

// release reads from the API server: a lock that the cache does not have yet would stay, and hold its node with no controller.
func release(ctx context.Context, cluster *kube.Cluster, in ReleaseInput) (result ReleaseResult, err error) {
	var policies drydockv1.WorkloadLockPolicyList
	if err := cluster.Client.List(ctx, &policies); err != nil && !meta.IsNoMatchError(err) {
		return result, err
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if policy.Spec.ControllerName == in.ControllerName && policy.UID != in.Policy.UID && policy.DeletionTimestamp == nil {
			result.KeptFor = policy.Name
			return result, nil
		}
	}
	var ofNodes lcmv1.NodeWorkloadLockList
	var ofCluster lcmv1.ClusterWorkloadLockList
	for _, list := range []client.ObjectList{&ofNodes, &ofCluster} {
		if err := cluster.Client.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return result, err
		}
	}
	remove := func(lock client.Object, kind, controllerName, node string) error {
		if controllerName != in.ControllerName {
			return nil
		}
		uid := lock.GetUID()
		err := client.IgnoreNotFound(cluster.LockController.Delete(ctx, lock, client.Preconditions{UID: &uid}))
		if err == nil {
			result.Removed++
			activitykit.Logger(ctx, "cluster", cluster.Name, "node", node, "controller", controllerName).Info("Workload lock removed", "kind", kind, "lock", lock.GetName())
		}
		return err
	}
	for i := range ofNodes.Items {
		lock := &ofNodes.Items[i]
		if err := remove(lock, locks.NodeLockKind, lock.Spec.ControllerName, lock.Spec.NodeName); err != nil {
			return result, err
		}
	}
	for i := range ofCluster.Items {
		lock := &ofCluster.Items[i]
		if err := remove(lock, locks.ClusterLockKind, lock.Spec.ControllerName, ""); err != nil {
			return result, err
		}
	}
	return result, nil
}
