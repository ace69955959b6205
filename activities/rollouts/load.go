package rollouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// LoadRolloutInput is the retry of a saved rollout.
type LoadRolloutInput struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	Request   rollout.RetryRequest `json:"request"`
}

// LoadedRollout is a saved rollout, ready for a retry.
type LoadedRollout struct {
	// Object has the compact status with which the retry starts.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// NotBound lists the indexes of the policies that are not bound to a retried cluster, by the index of the cluster in the status.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// TaskQueues are the task queues of clusters that do not use the common one.
	TaskQueues map[string]string `json:"taskQueues,omitempty"`
}

// LoadRollout loads a saved rollout for a retry, and finds the task queues of its clusters. Errors: NotFound if nothing is saved, or Temporal no
// longer retains the run; InvalidSpec if nothing can be retried, or no worker serves a cluster; ClusterUnknown to retry on another worker.
func (r *Activities) LoadRollout(ctx context.Context, in LoadRolloutInput) (LoadedRollout, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return LoadedRollout{}, err
	}
	name := types.NamespacedName{Namespace: in.Namespace, Name: in.Name}
	saved, runID, err := readSaved(ctx, hub, name)
	if err != nil {
		return LoadedRollout{}, err
	}
	if saved == nil {
		return LoadedRollout{}, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("rollout %s is not saved on the hub: start it", name), nil)
	}
	object, err := r.queryRollout(ctx, name, runID)
	if err != nil {
		return LoadedRollout{}, err
	}
	if object.Status, err = rollout.Retry(object.Status, object.Spec.RemediationStrategy.Canaries, in.Request); err != nil {
		return LoadedRollout{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("rollout %s: %v", name, err), nil)
	}
	unfinished := pendingClusters(object.Status.Clusters)
	object.Status = rollout.Compact(object.Status)
	loaded := LoadedRollout{Object: object}
	notBound, err := snapshot.NotBound(ctx, hub.Client, &object.Status, unfinished)
	if err != nil {
		return LoadedRollout{}, activitykit.Explain(hub, "read which policies are bound", err)
	}
	loaded.NotBound = rollout.CompactNotBound(notBound, rollout.NamesOf(object.Status.Clusters))
	if !worksOnClusters(&object) {
		return loaded, nil
	}
	var unreachable []string
	if loaded.TaskQueues, unreachable, err = r.findWorkers(ctx, &object, unfinished); err != nil {
		return LoadedRollout{}, err
	}
	if len(unreachable) > 0 {
		message := fmt.Sprintf("rollout %s: %s", name, notServed(unreachable))
		if err := retryOnAnotherWorker(ctx, message); err != nil {
			return LoadedRollout{}, err
		}
		return LoadedRollout{}, temporal.Error(temporal.ErrInvalidSpec, message, nil)
	}
	return loaded, nil
}

// queryRollout asks the run that saved a rollout for its spec and status, which only Temporal can vouch for: people may have changed the copy on the
// hub.
func (r *Activities) queryRollout(ctx context.Context, name types.NamespacedName, runID string) (ranv1.ClusterGroupUpgrade, error) {
	var object ranv1.ClusterGroupUpgrade
	lost := func(why string) error {
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("rollout %s: %s: start it again with its manifest", name, why), nil)
	}
	if runID == "" {
		return object, lost("the copy on the hub does not name the run that saved it")
	}
	answer, err := r.Workflows.QueryWorkflow(ctx, temporal.ClusterGroupUpgradeID(name.Namespace, name.Name), runID, temporal.QueryRollout)
	if _, forgotten := errors.AsType[*serviceerror.NotFound](err); forgotten {
		return object, lost("Temporal no longer retains its run " + runID)
	}
	if err == nil {
		err = answer.Get(&object)
	}
	if err != nil {
		return object, fmt.Errorf("query run %s of rollout %s: %w", runID, name, err)
	}
	status := object.Status
	object.Status = ranv1.ClusterGroupUpgradeStatus{}
	object, err = r.CheckRollout(ctx, object)
	object.Status = status
	return object, err
}

// pendingClusters are the clusters that are retried.
func pendingClusters(clusters []ranv1.ClusterStatus) []string {
	var names []string
	for i := range clusters {
		if clusters[i].State == ranv1.ClusterPending {
			names = append(names, clusters[i].Name)
		}
	}
	return names
}

// CheckRollout sets the defaults of a rollout and validates it, since not every rollout comes from the CLI. Errors: InvalidSpec, with every field that is
// invalid, or of a Job that the clusters file does not allow.
func (r *Activities) CheckRollout(_ context.Context, object ranv1.ClusterGroupUpgrade) (ranv1.ClusterGroupUpgrade, error) {
	err := manifest.Complete(&object)
	if invalid, ok := errors.AsType[manifest.Invalid](err); ok {
		return object, temporal.Error(temporal.ErrInvalidSpec, invalid.Error(), nil)
	}
	if err != nil {
		return object, err
	}
	spec := field.NewPath("spec")
	if nodes := object.Spec.NodeMaintenance; nodes != nil {
		spec := spec.Child("nodeMaintenance")
		err = cmp.Or(activitykit.CheckAction(r.Clusters, spec.Child("action"), nodes.Action),
			activitykit.CheckHealthChecks(r.Clusters, spec.Child("healthChecks"), nodes.HealthChecks))
	}
	return object, cmp.Or(err, activitykit.CheckHealthChecks(r.Clusters, spec.Child("healthChecks"), object.Spec.HealthChecks),
		activitykit.CheckReceivers(r.Clusters, spec.Child("notify"), object.Spec.Notify))
}
