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

// ChangeClusters changes labels and annotations of ManagedClusters, each in one request, and returns those that refuse it, by name: one must not keep the
// others waiting. Made again, it changes nothing more. A ManagedCluster that has been deleted needs no marks; what becomes of it in its rollout is
// not decided here. It returns an error when the hub could not be asked about some.
func (r *Rollouts) ChangeClusters(ctx context.Context, in ChangeClustersInput) ([]RefusedChange, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return changeClusters(ctx, hub, in)
}

func changeClusters(ctx context.Context, hub *kube.Cluster, in ChangeClustersInput) ([]RefusedChange, error) {
	patch, err := json.Marshal(map[string]any{"metadata": in.Change})
	if err != nil {
		return nil, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(in.Clusters)))
	refused := make([]*RefusedChange, len(names))
	var changes errgroup.Group // one that cannot be changed keeps no other
	changes.SetLimit(changesAtOnce)
	for i, cluster := range names {
		changes.Go(func() (err error) {
			refused[i], err = changeCluster(ctx, hub, cluster, patch)
			return err
		})
	}
	err = changes.Wait()
	found := []RefusedChange{}
	for _, one := range refused {
		if one != nil {
			found = append(found, *one)
		}
	}
	return found, err
}

// changeCluster tells the answer that only this cluster gets, from an admission webhook for instance, from what any other would get as well.
func changeCluster(ctx context.Context, hub *kube.Cluster, cluster string, patch []byte) (*RefusedChange, error) {
	err := client.IgnoreNotFound(hub.Client.Patch(ctx, registeredCluster(cluster), client.RawPatch(types.MergePatchType, patch)))
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
