package activities

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// RecallRolloutInput names a rollout that is over, and says what of it is done once more.
type RecallRolloutInput struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	Request   rollout.RetryRequest `json:"request"`
}

// RecalledRollout is a rollout that begins once more.
type RecalledRollout struct {
	// Object has the status that it begins with, compact.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// NotBound are the policies for the upgrade, by number, that are not bound to a cluster that is done once more, by its place in the status.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// TaskQueues of clusters that are not served by the common queue.
	TaskQueues map[string]string `json:"taskQueues,omitempty"`
}

// RecallRollout reads what the hub has kept of a rollout, and finds who works on its clusters. Errors: NotFound when nothing is kept;
// InvalidSpec when nothing is to be done once more, or no worker reaches a cluster; ClusterUnknown while only some were asked.
func (r *Rollouts) RecallRollout(ctx context.Context, in RecallRolloutInput) (RecalledRollout, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return RecalledRollout{}, err
	}
	name := types.NamespacedName{Namespace: in.Namespace, Name: in.Name}
	object, err := readKept(ctx, hub, name)
	if err != nil {
		return RecalledRollout{}, err
	}
	if object == nil {
		return RecalledRollout{}, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("the hub keeps nothing of rollout %s: start it", name), nil)
	}
	if object.Status, err = rollout.Retry(object.Status, object.Spec.RemediationStrategy.Canaries, in.Request); err != nil {
		return RecalledRollout{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("rollout %s: %v", name, err), nil)
	}
	unfinished := pendingClusters(object.Status.Clusters)
	object.Status = rollout.Compact(object.Status)
	recalled := RecalledRollout{Object: *object}
	notBound, err := snapshot.NotBound(ctx, hub.Client, &object.Status, unfinished)
	if err != nil {
		return RecalledRollout{}, explain(hub, "read which policies are bound", err)
	}
	recalled.NotBound = rollout.CompactNotBound(notBound, rollout.NamesOf(object.Status.Clusters))
	if !worksOnClusters(object) {
		return recalled, nil
	}
	var unreachable []string
	if recalled.TaskQueues, unreachable, err = r.serve(ctx, unfinished); err != nil {
		return RecalledRollout{}, err
	}
	if len(unreachable) > 0 {
		message := fmt.Sprintf("rollout %s: %s", name, notServed(unreachable))
		if err := askAnother(ctx, message); err != nil {
			return RecalledRollout{}, err
		}
		return RecalledRollout{}, temporal.Error(temporal.ErrInvalidSpec, message, nil)
	}
	return recalled, nil
}

// pendingClusters are those that are done once more.
func pendingClusters(clusters []ranv1.ClusterStatus) []string {
	var names []string
	for i := range clusters {
		if clusters[i].State == ranv1.ClusterPending {
			names = append(names, clusters[i].Name)
		}
	}
	return names
}

// CheckRollout sets the defaults of a rollout and refuses one that cannot be carried out: it need not come through the CLI. Errors: InvalidSpec,
// naming every field that is wrong.
func (r *Rollouts) CheckRollout(_ context.Context, object ranv1.ClusterGroupUpgrade) (ranv1.ClusterGroupUpgrade, error) {
	err := manifest.Complete(&object)
	if invalid, ok := errors.AsType[manifest.Invalid](err); ok {
		return object, temporal.Error(temporal.ErrInvalidSpec, invalid.Error(), nil)
	}
	return object, err
}
