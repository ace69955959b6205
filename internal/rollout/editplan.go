package rollout

import (
	"reflect"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// PlanChange is the difference between the plan of a rollout and a new one.
type PlanChange struct {
	// Problems are why the new plan is not valid.
	Problems []string `json:"problems,omitempty"`
	// Leave, Join and Move are the clusters that are no longer in the plan, that are new in it, and whose batch has another number.
	Leave []string `json:"leave,omitempty"`
	Join  []string `json:"join,omitempty"`
	Move  []string `json:"move,omitempty"`
	// Precaching is what happens to the precaching Jobs of the clusters; empty: nothing.
	Precaching PrecachingChange `json:"precaching,omitempty"`
}

// PrecachingChange is what happens to precaching Jobs.
type PrecachingChange string

// The changes of precaching.
const (
	PrecachingStarts   PrecachingChange = "starts"
	PrecachingStops    PrecachingChange = "stops"
	PrecachingRestarts PrecachingChange = "restarts"
)

// ComparePlans compares the plan of a rollout with one for another spec. before is the status of the rollout.
func ComparePlans(before *ranv1.ClusterGroupUpgradeStatus, old, edited *ranv1.ClusterGroupUpgradeSpec, plan Plan) PlanChange {
	if !plan.Valid() {
		return PlanChange{Problems: plan.Problems()}
	}
	was, is := batchOf(before.RemediationPlan), batchOf(plan.RemediationPlan)
	change := PlanChange{Precaching: precachingChange(before.Precaching, old, edited, plan)}
	for _, cluster := range slices.Concat(before.RemediationPlan...) {
		if is[cluster] == 0 {
			change.Leave = append(change.Leave, cluster)
		}
	}
	for _, cluster := range slices.Concat(plan.RemediationPlan...) {
		switch was[cluster] {
		case is[cluster]:
		case 0:
			change.Join = append(change.Join, cluster)
		default:
			change.Move = append(change.Move, cluster)
		}
	}
	return change
}

// batchOf returns the number of the batch of each cluster, from 1.
func batchOf(plan [][]string) map[string]int {
	batches := map[string]int{}
	for i, clusters := range plan {
		for _, cluster := range clusters {
			batches[cluster] = i + 1
		}
	}
	return batches
}

// precachingChange is what another plan does to precaching Jobs: other content, another image or another time limit stops those of the plan before.
func precachingChange(before *ranv1.PrecachingStatus, old, edited *ranv1.ClusterGroupUpgradeSpec, plan Plan) PrecachingChange {
	switch {
	case !edited.PreCaching && old.PreCaching:
		return PrecachingStops
	case !edited.PreCaching:
		return ""
	case before == nil:
		return PrecachingStarts
	case before.Image != plan.PreCacheImage, !reflect.DeepEqual(before.Spec, plan.Precaching), Timeout(old) != Timeout(edited):
		return PrecachingRestarts
	}
	return ""
}
