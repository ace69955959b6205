package rollout

import (
	"cmp"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// RemoveFromPlan removes clusters from the plan of a status. It drops empty batches.
func RemoveFromPlan(status *ranv1.ClusterGroupUpgradeStatus, left []string) {
	plan := [][]string{}
	for _, batch := range status.RemediationPlan {
		batch = slices.DeleteFunc(slices.Clone(batch), func(cluster string) bool { return slices.Contains(left, cluster) })
		if len(batch) > 0 {
			plan = append(plan, batch)
		}
	}
	setPlan(status, plan)
}

// AddToPlan adds pending clusters that are in no batch: canaries first, with one batch each, the others in batches at the end, before the catch-up batch.
func AddToPlan(status *ranv1.ClusterGroupUpgradeStatus, canaries []string) {
	var back []string
	for i := range status.Clusters {
		if c := &status.Clusters[i]; c.Batch == 0 && c.State == ranv1.ClusterPending {
			back = append(back, c.Name)
		}
	}
	if len(back) == 0 {
		return
	}
	first := canaryBatches(status.RemediationPlan, canaries)
	going := map[string]bool{}
	for _, cluster := range slices.Concat(slices.Concat(status.RemediationPlan[:first]...), back) {
		going[cluster] = true
	}
	plan := batches(nil, going, canaries, 1)
	planned := PlannedBatches(status)
	plan = append(plan, status.RemediationPlan[first:planned]...)
	rest := slices.DeleteFunc(back, func(cluster string) bool { return slices.Contains(canaries, cluster) })
	plan = slices.AppendSeq(plan, slices.Chunk(rest, max(int(status.ComputedMaxConcurrency), 1)))
	if status.Status.CatchUpBatch > 0 {
		plan = append(plan, status.RemediationPlan[planned])
		status.Status.CatchUpBatch = int32(len(plan))
	}
	setPlan(status, plan)
}

// setPlan sets the plan of a status, and the batches of its clusters.
func setPlan(status *ranv1.ClusterGroupUpgradeStatus, plan [][]string) {
	number := map[string]int32{}
	for i, batch := range plan {
		for _, cluster := range batch {
			number[cluster] = int32(i + 1)
		}
	}
	status.RemediationPlan = plan
	for i := range status.Clusters {
		status.Clusters[i].Batch = number[status.Clusters[i].Name]
	}
	sortByBatch(status.Clusters)
}

// sortByBatch sorts clusters by batch. Those in no batch come last.
func sortByBatch(clusters []ranv1.ClusterStatus) {
	slices.SortStableFunc(clusters, func(a, b ranv1.ClusterStatus) int { return cmp.Compare(uint32(a.Batch)-1, uint32(b.Batch)-1) })
}
