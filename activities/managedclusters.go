package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
)

// changesAtOnce is how many ManagedClusters are changed at the same time.
const changesAtOnce = 20

// ChangeClustersInput says what becomes of the labels and annotations of which clusters.
type ChangeClustersInput struct {
	Clusters []string              `json:"clusters"`
	Change   rollout.ClusterChange `json:"change"`
}

// ChangeClusters changes labels and annotations of ManagedClusters, each in one request. Made again, it changes nothing more. A ManagedCluster that
// has been deleted needs no marks; what becomes of it in its rollout is not decided here.
func (r *Rollouts) ChangeClusters(ctx context.Context, in ChangeClustersInput) error {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": in.Change})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(changesAtOnce)
	for _, cluster := range slices.Compact(slices.Sorted(slices.Values(in.Clusters))) {
		group.Go(func() error { return changeCluster(ctx, hub, cluster, patch) })
	}
	return group.Wait()
}

func changeCluster(ctx context.Context, hub *kube.Cluster, cluster string, patch []byte) error {
	err := hub.Client.Patch(ctx, registeredCluster(cluster), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("the labels and annotations of ManagedCluster %s may not be changed: apply deploy/rbac/hub.yaml on the hub: %w", cluster, err)
	}
	return explain(hub, "change labels and annotations of ManagedCluster "+cluster, client.IgnoreNotFound(err))
}
