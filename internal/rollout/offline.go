package rollout

import (
	"fmt"
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// MessageOffline is the message of a cluster whose ManagedCluster is not Available.
const MessageOffline = "its ManagedCluster is not Available"

// offlineAmong returns the clusters that are offline and planned.
func offlineAmong(clusters []Cluster, planned map[string]bool) []string {
	var offline []string
	for i := range clusters {
		if c := &clusters[i]; c.Offline && planned[c.Name] {
			offline = append(offline, c.Name)
		}
	}
	return offline
}

// NotStarted reports whether a cluster is still to be started: it is pending or offline.
func NotStarted(cluster *ranv1.ClusterStatus) bool {
	return cluster.State == ranv1.ClusterPending || cluster.State == ranv1.ClusterOffline
}

// PlannedBatches is the number of batches without the catch-up batch.
func PlannedBatches(status *ranv1.ClusterGroupUpgradeStatus) int {
	if status.Status.CatchUpBatch > 0 {
		return int(status.Status.CatchUpBatch) - 1
	}
	return len(status.RemediationPlan)
}

// Defer moves clusters that are offline from the batches first to last, counted from 1, to the catch-up batch, which is the last of the plan. Each place that
// becomes free goes to the next pending cluster of these batches, so that they stay full. Batches without clusters are dropped: it returns what is the last
// of these batches then.
func Defer(status *ranv1.ClusterGroupUpgradeStatus, first, last int32, offline []string) int32 {
	if len(offline) == 0 {
		return last
	}
	deferred := map[string]bool{}
	for _, name := range offline {
		deferred[name] = true
	}
	planned := int32(PlannedBatches(status))
	var places []int32
	var next []*ranv1.ClusterStatus
	for i := range status.Clusters {
		c := &status.Clusters[i]
		if c.Batch < first || c.Batch > last || c.State != ranv1.ClusterPending && !deferred[c.Name] {
			continue
		}
		if places = append(places, c.Batch); !deferred[c.Name] {
			next = append(next, c)
		}
	}
	for i, c := range next {
		c.Batch = places[i]
	}
	for i := range status.Clusters {
		if c := &status.Clusters[i]; deferred[c.Name] {
			c.Batch, c.State = planned+2, ranv1.ClusterOffline // after those that were deferred before
		}
	}
	sortByBatch(status.Clusters)
	for i := range status.Clusters {
		c := &status.Clusters[i]
		c.Batch = min(c.Batch, planned+1)
	}
	renumber(status)
	return last - (planned - int32(PlannedBatches(status)))
}

// divideCatchUp divides the catch-up batch of the last run, if it had one, into batches of the usual size for a retry.
func divideCatchUp(status *ranv1.ClusterGroupUpgradeStatus, number int32) {
	at := int(number) - 1
	if at < 0 || at >= len(status.RemediationPlan) {
		return
	}
	plan := slices.Clone(status.RemediationPlan[:at])
	plan = slices.AppendSeq(plan, slices.Chunk(status.RemediationPlan[at], max(int(status.ComputedMaxConcurrency), 1)))
	setPlan(status, append(plan, status.RemediationPlan[number:]...))
}

// renumber drops batches without clusters from a plan whose last batch is the catch-up batch.
func renumber(status *ranv1.ClusterGroupUpgradeStatus) {
	before, number := int32(0), int32(0)
	for i := range status.Clusters {
		c := &status.Clusters[i]
		if c.Batch == 0 {
			continue
		}
		if c.Batch != before {
			before, number = c.Batch, number+1
		}
		c.Batch = number
	}
	status.RemediationPlan, status.Status.CatchUpBatch = planOf(status.Clusters, int(number)), number
}

// CatchUp is the time after the timeout of a rollout in which deferred clusters may still be remediated.
func CatchUp(spec *ranv1.ClusterGroupUpgradeSpec) time.Duration {
	return time.Duration(spec.RemediationStrategy.CatchUp) * time.Minute
}

// onlyOffline reports whether clusters are unfinished only because they are offline.
func onlyOffline(unfinished []ranv1.ClusterStatus) bool {
	return len(NamesInState(unfinished, ranv1.ClusterOffline)) == len(unfinished)
}

// offlineText says which clusters are offline, e.g. "spoke-3 is offline".
func offlineText(status *ranv1.ClusterGroupUpgradeStatus) string {
	count := int(status.Counts.Offline)
	names := NamesInState(status.Clusters, ranv1.ClusterOffline) // a part of a status has not all
	if count == 1 && len(names) == 1 {
		return names[0] + " is offline"
	}
	return fmt.Sprintf("%d clusters are offline", count)
}
