package rollouts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// parallelChanges is the maximum number of ManagedClusters that are changed at the same time.
const parallelChanges = 20

// ChangeClustersInput is a change of the labels and annotations of clusters.
type ChangeClustersInput struct {
	Clusters []string              `json:"clusters"`
	Change   rollout.ClusterChange `json:"change"`
}

// RefusedChange is a ManagedCluster that the hub refuses to change. Other clusters may accept the change.
type RefusedChange struct {
	Cluster string `json:"cluster"`
	// Message has the answer of the hub.
	Message string `json:"message"`
	// Final: no retry can succeed.
	Final bool `json:"final,omitempty"`
}

// ChangeClusters changes labels and annotations of ManagedClusters, each in one patch. It is idempotent, and skips deleted ManagedClusters. It
// returns the clusters that refuse the change. It returns an error if the hub did not answer.
func (r *Activities) ChangeClusters(ctx context.Context, in ChangeClustersInput) ([]RefusedChange, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return changeClusters(ctx, hub, in)
}

func changeClusters(ctx context.Context, hub *kube.Cluster, in ChangeClustersInput) ([]RefusedChange, error) {
	names := slices.Compact(slices.Sorted(slices.Values(in.Clusters)))
	refused := make([]*RefusedChange, len(names))
	var changes errgroup.Group // a failure does not stop the others
	changes.SetLimit(parallelChanges)
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

// changeCluster returns a refusal of this cluster, for example by an admission webhook, or an error that every cluster would get.
func changeCluster(ctx context.Context, hub *kube.Cluster, cluster string, change rollout.ClusterChange) (*RefusedChange, error) {
	err := client.IgnoreNotFound(patchCluster(ctx, hub, cluster, change))
	explained := activitykit.Explain(hub, "change labels and annotations of ManagedCluster "+cluster, err)
	switch {
	case apierrors.IsForbidden(err):
		return &RefusedChange{Cluster: cluster, Message: fmt.Sprintf(
			"the labels and annotations of ManagedCluster %s may not be changed (missing permissions: apply deploy/rbac/hub.yaml on the hub): %v", cluster, err)}, nil
	case apierrors.IsBadRequest(err):
		return &RefusedChange{Cluster: cluster, Message: explained.Error()}, nil
	case temporal.Final(explained):
		return &RefusedChange{Cluster: cluster, Message: fmt.Sprintf("ManagedCluster %s: %s", cluster, temporal.ErrorMessage(explained)), Final: true}, nil
	}
	return nil, explained
}

// patchCluster patches a ManagedCluster with the resourceVersion that it read: a late patch must not restore a label that was removed meanwhile.
func patchCluster(ctx context.Context, hub *kube.Cluster, name string, change rollout.ClusterChange) error {
	return kube.RetryOnConflict(func() error {
		cluster := activitykit.ManagedCluster(name)
		if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": struct {
			rollout.ClusterChange
			ResourceVersion string `json:"resourceVersion"`
		}{change, cluster.GetResourceVersion()}})
		if err != nil {
			return err
		}
		return hub.Client.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))
	})
}
