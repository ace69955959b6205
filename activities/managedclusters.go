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
	"drydock.dev/drydock/internal/temporal"
)

// changesAtOnce is how many ManagedClusters are changed at the same time.
const changesAtOnce = 20

// ChangeClustersInput says what becomes of the labels and annotations of which clusters.
type ChangeClustersInput struct {
	Clusters []string              `json:"clusters"`
	Change   rollout.ClusterChange `json:"change"`
}

// RefusedChange is a ManagedCluster whose labels and annotations the hub does not let be changed, for a reason that has to do with it alone.
type RefusedChange struct {
	Cluster string `json:"cluster"`
	// Message names the cluster and has the hub's answer.
	Message string `json:"message"`
	// Final: no further attempt can change that.
	Final bool `json:"final,omitempty"`
}

// ChangeClusters changes labels and annotations of ManagedClusters, each in one patch of the cluster as it is, and returns those that refuse it, by name:
// one must not keep the others waiting. Made again, it changes nothing more. A ManagedCluster that has been deleted needs no marks; what becomes of it in its rollout is
// not decided here. It returns an error when the hub could not be asked about some.
func (r *Rollouts) ChangeClusters(ctx context.Context, in ChangeClustersInput) ([]RefusedChange, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return changeClusters(ctx, hub, in)
}

func changeClusters(ctx context.Context, hub *kube.Cluster, in ChangeClustersInput) ([]RefusedChange, error) {
	names := slices.Compact(slices.Sorted(slices.Values(in.Clusters)))
	refused := make([]*RefusedChange, len(names))
	var changes errgroup.Group // one that cannot be changed keeps no other
	changes.SetLimit(changesAtOnce)
	for i, cluster := range names {
		changes.Go(func() (err error) {
			refused[i], err = changeCluster(ctx, hub, cluster, in.Change)
			return err
		})
	}
	err := changes.Wait()
	found := []RefusedChange{}
	for _, one := range refused {
		if one != nil {
			found = append(found, *one)
		}
	}
	return found, err
}

// changeCluster tells the answer that only this cluster gets, from an admission webhook for instance, from what any other would get as well.
func changeCluster(ctx context.Context, hub *kube.Cluster, cluster string, change rollout.ClusterChange) (*RefusedChange, error) {
	err := client.IgnoreNotFound(patchCluster(ctx, hub, cluster, change))
	explained := explain(hub, "change labels and annotations of ManagedCluster "+cluster, err)
	switch {
	case apierrors.IsForbidden(err):
		return &RefusedChange{Cluster: cluster, Message: fmt.Sprintf(
			"the labels and annotations of ManagedCluster %s may not be changed (for want of rights: apply deploy/rbac/hub.yaml on the hub): %v", cluster, err)}, nil
	case apierrors.IsBadRequest(err):
		return &RefusedChange{Cluster: cluster, Message: explained.Error()}, nil
	case temporal.Final(explained):
		return &RefusedChange{Cluster: cluster, Message: fmt.Sprintf("ManagedCluster %s: %s", cluster, temporal.ErrorMessage(explained)), Final: true}, nil
	}
	return nil, explained
}

// patchCluster changes a ManagedCluster as it was just read: a patch that comes late must not bring back what was taken away meanwhile.
func patchCluster(ctx context.Context, hub *kube.Cluster, name string, change rollout.ClusterChange) error {
	return kube.RetryOnConflict(func() error {
		cluster := registeredCluster(name)
		if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": struct {
			rollout.ClusterChange
			ResourceVersion string `json:"resourceVersion"`
		}{change, cluster.ResourceVersion}})
		if err != nil {
			return err
		}
		return hub.Client.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))
	})
}
