package locks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.temporal.io/sdk/log"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
)

// ServingCluster returns the cluster, and whether it serves workload locks: all of their kinds, or none. With only some of the kinds, requests
// or locks would have no effect.
func ServingCluster(ctx context.Context, clusters *kube.Clusters, name string) (*kube.Cluster, bool, error) {
	cluster, err := clusters.Cluster(ctx, name)
	if err != nil {
		return nil, false, err
	}
	var missing []string
	kinds := []string{"ClusterMaintenanceRequest", "NodeMaintenanceRequest", locks.ClusterLockKind, locks.NodeLockKind}
	for _, kind := range kinds {
		served, err := cluster.Serves(ctx, lcmv1.GroupVersion.WithKind(kind))
		if err != nil {
			return nil, false, err
		}
		if !served {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 && len(missing) < len(kinds) {
		return nil, false, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s serves some of the workload lock kinds of %s but not %s: install the missing CustomResourceDefinitions",
			name, lcmv1.GroupVersion, strings.Join(missing, ", ")), nil)
	}
	return cluster, len(missing) == 0, nil
}

// requestMeta names a request after its owner, so that a second attempt finds it, and sets the ownership mark.
func requestMeta(owner string, parts ...string) metav1.ObjectMeta {
	sum := sha256.Sum256([]byte(owner))
	return metav1.ObjectMeta{
		Name:        safename.Join("-", append(parts, hex.EncodeToString(sum[:4]))...),
		Annotations: map[string]string{kube.AnnotationOwner: owner},
	}
}

// request creates a request, if it does not exist.
func request(ctx context.Context, cluster *kube.Cluster, logger log.Logger, wanted client.Object) error {
	owner := kube.Owner(wanted)
	err := cluster.Client.Create(ctx, wanted)
	if err == nil {
		logger.Info("Requested maintenance from workload locks", "request", wanted.GetName())
	}
	if !apierrors.IsAlreadyExists(err) {
		return activitykit.Explain(cluster, "create maintenance request "+wanted.GetName(), err)
	}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(wanted), wanted); err != nil {
		return activitykit.Explain(cluster, "read maintenance request "+wanted.GetName(), err)
	}
	switch {
	case !kube.OwnedBy(wanted, owner):
		return fmt.Errorf("cluster %s: maintenance request %s exists and is not ours: delete it or wait until it is gone", cluster.Name, wanted.GetName())
	case wanted.GetDeletionTimestamp() != nil:
		return fmt.Errorf("cluster %s: maintenance request %s is still being deleted: one of its finalizers %v holds it", cluster.Name, wanted.GetName(), wanted.GetFinalizers())
	}
	return nil
}

// stillRequested checks that our request exists while locks are active: without it they stay active. The API server confirms that it is gone.
// Errors: LockRefused.
func stillRequested(ctx context.Context, cluster *kube.Cluster, ours client.Object) error {
	if cluster.Cache.Get(ctx, client.ObjectKeyFromObject(ours), ours) == nil && ours.GetDeletionTimestamp() == nil {
		return nil
	}
	err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(ours), ours)
	if client.IgnoreNotFound(err) != nil {
		return activitykit.Explain(cluster, "read maintenance request "+ours.GetName(), err)
	}
	if err == nil && ours.GetDeletionTimestamp() == nil {
		return nil
	}
	return temporal.Error(temporal.ErrLockRefused, "maintenance request "+ours.GetName()+" was deleted by another client", nil)
}

// withdraw deletes a request if it exists and is ours, as DeleteOwned does.
func withdraw(ctx context.Context, cluster *kube.Cluster, ours client.Object) error {
	return activitykit.DeleteOwned(ctx, cluster, "maintenance request "+ours.GetName(), ours)
}
