package rollout

import (
	"maps"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Compact removes redundant data from a status, so that each cluster name is in it only once: the status of 10,000 clusters must fit into the input
// of the next run. Expand reverses it.
func Compact(status ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	if plan := status.RemediationPlan; len(plan) > 0 && slices.EqualFunc(plan, planOf(status.Clusters, len(plan)), slices.Equal) {
		status.RemediationPlan, status.Status.Batches = nil, int32(len(plan))
	}
	if p := status.Precaching; p != nil {
		compact := *p
		compact.Status, compact.Outcomes = compactStates(status.Clusters, p.Status)
		status.Precaching = &compact
	}
	if b := status.Backup; b != nil {
		compact := *b
		compact.Status, compact.Outcomes = compactStates(status.Clusters, b.Status)
		status.Backup = &compact
	}
	return status
}

// Expand reverses Compact.
func Expand(status ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	if status.RemediationPlan == nil && status.Status.Batches > 0 {
		status.RemediationPlan, status.Status.Batches = planOf(status.Clusters, int(status.Status.Batches)), 0
	}
	names := NamesOf(status.Clusters)
	if p := status.Precaching; p != nil && p.Outcomes != nil {
		whole := *p
		whole.Status, whole.Outcomes = preparationStates(names, p.Outcomes, p.Status), nil
		status.Precaching = &whole
	}
	if b := status.Backup; b != nil && b.Outcomes != nil {
		whole := *b
		whole.Status, whole.Outcomes = preparationStates(names, b.Outcomes, b.Status), nil
		status.Backup = &whole
	}
	return status
}

// compactStates are the states of the clusters in their order. rest are the states of other clusters, by name.
func compactStates(clusters []ranv1.ClusterStatus, states map[string]ranv1.PreparationState) (rest map[string]ranv1.PreparationState, outcomes []ranv1.PreparationOutcome) {
	if len(states) == 0 {
		return nil, nil
	}
	rest = maps.Clone(states)
	names := NamesOf(clusters)
	for _, name := range names {
		delete(rest, name)
	}
	return rest, preparationOutcomes(names, states)
}

// CompactNotBound replaces the cluster names in notBound by their indexes in clusters. ExpandNotBound reverses it.
func CompactNotBound(notBound map[string][]int, clusters []string) map[int][]int {
	places := map[int][]int{}
	for place, name := range clusters {
		if policies, some := notBound[name]; some {
			places[place] = policies
		}
	}
	return places
}

// ExpandNotBound reverses CompactNotBound.
func ExpandNotBound(places map[int][]int, clusters []string) map[string][]int {
	notBound := map[string][]int{}
	for place, name := range clusters {
		if policies, some := places[place]; some {
			notBound[name] = policies
		}
	}
	return notBound
}

// NamesInState returns the names of the clusters in that state, in their order.
func NamesInState(clusters []ranv1.ClusterStatus, state ranv1.ClusterState) []string {
	return namesWhere(clusters, func(cluster *ranv1.ClusterStatus) bool { return cluster.State == state })
}

// DoneBefore returns the names of the clusters that were done before the rollout began, in their order.
func DoneBefore(clusters []ranv1.ClusterStatus) []string { return namesWhere(clusters, doneBefore) }

func doneBefore(cluster *ranv1.ClusterStatus) bool {
	return cluster.State == ranv1.ClusterSkipped && cluster.Reason == ReasonAlreadyCompliant
}

// Done returns the names of the clusters that are complete, or were done before the rollout began. They should still comply when it ends.
func Done(clusters []ranv1.ClusterStatus) []string { return namesWhere(clusters, IsDone) }

// IsDone reports whether a cluster is complete, or was done before the rollout began. It may have relapsed since.
func IsDone(cluster *ranv1.ClusterStatus) bool {
	return cluster.State == ranv1.ClusterComplete || doneBefore(cluster) || cluster.State == ranv1.ClusterSkipped && cluster.Reason == ReasonRelapsed
}

func namesWhere(clusters []ranv1.ClusterStatus, is func(*ranv1.ClusterStatus) bool) []string {
	var names []string
	for i := range clusters {
		if is(&clusters[i]) {
			names = append(names, clusters[i].Name)
		}
	}
	return names
}

// NamesOf returns the names of clusters, in their order.
func NamesOf(clusters []ranv1.ClusterStatus) []string {
	names := make([]string, len(clusters))
	for i := range clusters {
		names[i] = clusters[i].Name
	}
	return names
}
