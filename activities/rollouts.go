package activities

import (
	"context"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// Rollouts decides about rollouts next to the hub's objects.
type Rollouts struct{}

// RolloutPlan is a plan and where the activities of its clusters run.
type RolloutPlan struct {
	rollout.Plan
	// TaskQueues of clusters that are not served by the common queue.
	TaskQueues map[string]string `json:"taskQueues,omitempty"`
}

// PlanRollout selects the clusters of a rollout and divides them into batches.
func (r *Rollouts) PlanRollout(ctx context.Context, cgu ranv1.ClusterGroupUpgrade) (RolloutPlan, error) {
	return RolloutPlan{}, errNotBuilt
}

// LocateCluster returns the task queue on which the activities of a cluster run. Errors: NotFound.
func (r *Rollouts) LocateCluster(ctx context.Context, cluster string) (string, error) {
	return "", errNotBuilt
}
