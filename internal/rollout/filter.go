package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// ReasonNotCompleteInBlockers: the cluster is left out of the rollout, because it is not complete in every blocker.
const ReasonNotCompleteInBlockers = "NotCompleteInBlockers"

// Unblocked is the result of the wait for blockers.
type Unblocked struct {
	// Complete are the clusters that are complete in every blocker, if only those are worked on: see FiltersClusters.
	Complete []string `json:"complete,omitempty"`
}

// FiltersClusters reports whether a rollout works only on the clusters that are complete in all its blockers. As in TALM, only a rollout whose blockers need
// only have ended does.
func FiltersClusters(cgu *ranv1.ClusterGroupUpgrade) bool {
	return len(cgu.Spec.BlockingCRs) > 0 && startsAfterAnyEnd(cgu) && cgu.Annotations[ranv1.AnnotationBlockingFiltering] == "true"
}

// CompleteInBlockers returns the clusters that are complete in every blocker of a rollout. known are the rollouts from GatherBlockers.
func CompleteInBlockers(cgu *ranv1.ClusterGroupUpgrade, known map[types.NamespacedName]*ranv1.ClusterGroupUpgrade) []string {
	var complete []string
	for i, name := range Blockers(cgu) {
		var here []string
		if blocker := known[name]; blocker != nil {
			status := Expand(blocker.Status)
			here = NamesInState(finishedClusters(&status), ranv1.ClusterComplete)
		}
		slices.Sort(here)
		if i == 0 {
			complete = here
			continue
		}
		complete = slices.DeleteFunc(complete, func(cluster string) bool {
			_, found := slices.BinarySearch(here, cluster)
			return !found
		})
	}
	return complete
}

// LeaveOut leaves the clusters out of a rollout that are not among the complete ones, and returns them. The others are divided into batches again. A cluster
// that has failed already stays as it is.
func LeaveOut(status *ranv1.ClusterGroupUpgradeStatus, strategy *ranv1.RemediationStrategy, complete []string) []string {
	stays := map[string]bool{}
	for _, name := range complete {
		stays[name] = true
	}
	var left, planned []string
	working := map[string]bool{}
	for i := range status.Clusters {
		c := &status.Clusters[i]
		switch {
		case !stays[c.Name] && (c.State == ranv1.ClusterPending || c.State == ranv1.ClusterSkipped):
			*c = ranv1.ClusterStatus{
				Name: c.Name, State: ranv1.ClusterSkipped, Reason: ReasonNotCompleteInBlockers, Message: "the cluster is not complete in every rollout of spec.blockingCRs",
			}
			left = append(left, c.Name)
		case c.Batch > 0:
			planned, working[c.Name] = append(planned, c.Name), true
		}
	}
	if len(left) == 0 {
		return nil
	}
	status.RemediationPlan = batches(planned, working, strategy.Canaries, int(max(1, status.ComputedMaxConcurrency)))
	if strategy.MaxFailures != nil {
		status.ComputedMaxFailures = shareOf(*strategy.MaxFailures, max(1, len(status.Clusters)-len(left)))
	}
	batchOf := map[string]int32{}
	for i, names := range status.RemediationPlan {
		for _, name := range names {
			batchOf[name] = int32(i + 1)
		}
	}
	for i := range status.Clusters {
		status.Clusters[i].Batch = batchOf[status.Clusters[i].Name]
	}
	return left
}

// NoneLeft reports whether every selected cluster was left out of the rollout.
func NoneLeft(clusters []ranv1.ClusterStatus) bool {
	return !slices.ContainsFunc(clusters, func(c ranv1.ClusterStatus) bool { return c.Reason != ReasonNotCompleteInBlockers })
}
