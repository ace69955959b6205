package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Count counts clusters by state. A cluster that soaks counts as running.
func Count(clusters []ranv1.ClusterStatus) ranv1.ClusterCounts {
	counts := ranv1.ClusterCounts{Total: int32(len(clusters))}
	for _, cluster := range clusters {
		switch cluster.State {
		case ranv1.ClusterPending:
			counts.Pending++
		case ranv1.ClusterOffline:
			counts.Offline++
		case ranv1.ClusterRunning, ranv1.ClusterSoaking:
			counts.Running++
		case ranv1.ClusterComplete:
			counts.Complete++
		case ranv1.ClusterFailed:
			counts.Failed++
		case ranv1.ClusterTimedOut:
			counts.TimedOut++
		case ranv1.ClusterCancelled:
			counts.Cancelled++
		case ranv1.ClusterSkipped:
			counts.Skipped++
		}
	}
	return counts
}

// Failures is the number of clusters that failed or timed out after they had started, or failed because they were offline. maxFailures limits it.
func Failures(clusters []ranv1.ClusterStatus) int {
	failures := 0
	for i := range clusters {
		c := &clusters[i]
		counts := c.StartedAt != nil || c.Reason == ranv1.ReasonClusterOffline
		if counts && (c.State == ranv1.ClusterFailed || c.State == ranv1.ClusterTimedOut) {
			failures++
		}
	}
	return failures
}

// Percentage is the finished part of the plan from 0 to 100, rounded down. A complete cluster counts in full, any other by the share of its finished
// nodes. It is 100 if the plan has no clusters.
func Percentage(clusters []ranv1.ClusterStatus) int32 {
	const whole = 1000
	var planned, done int64
	for i := range clusters {
		cluster := &clusters[i]
		switch {
		case cluster.State == ranv1.ClusterSkipped:
			continue
		case cluster.State == ranv1.ClusterComplete:
			done += whole
		case cluster.Nodes.Total > 0:
			done += whole * int64(cluster.Nodes.Done) / int64(cluster.Nodes.Total)
		}
		planned++
	}
	if planned == 0 {
		return 100
	}
	return int32(done * 100 / (planned * whole))
}

// urgency ranks clusters by how important they are for the operator.
func urgency(state ranv1.ClusterState) int {
	switch state {
	case ranv1.ClusterFailed:
		return 0
	case ranv1.ClusterTimedOut:
		return 1
	case ranv1.ClusterRunning, ranv1.ClusterSoaking:
		return 2
	case ranv1.ClusterOffline:
		return 3
	}
	return 4
}

// place is the position of a cluster in a paged status: by urgency, then in the order of the plan. It is also the cursor, so that a cluster that
// changes between two pages does not shift others.
type place struct{ urgency, index int }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.urgency, other.urgency), cmp.Compare(p.index, other.index))
}

func (p place) String() string { return fmt.Sprintf("%d-%d", p.urgency, p.index) }

func parsePlace(cursor string) (place, error) {
	var p place
	if _, err := fmt.Sscanf(cursor, "%d-%d", &p.urgency, &p.index); err != nil || p.String() != cursor {
		return place{}, fmt.Errorf("cursor %q: use the nextCursor of the status before", cursor)
	}
	return p, nil
}

// Part selects a part of a status. The zero value selects as much as fits into an answer.
type Part struct {
	// Filter keeps the clusters in that state, or of that name.
	Filter string
	// Limit is the maximum number of clusters; 0: as many as fit. Fewer are returned if they do not fit.
	Limit int
	// Cursor is the nextCursor of the previous part.
	Cursor string
	// InPlanOrder returns clusters in the order of the plan, so that a reader of all parts misses none that changes meanwhile. Otherwise the order
	// is: failed, timed out, running, offline, the rest.
	InPlanOrder bool
}

// answerLimit is the maximum size, in bytes, of the clusters in an answer. Temporal refuses answers of 2 MiB.
const answerLimit = 192 << 10

// Page returns a part of a status. Its nextCursor is the cursor of the next part; its counts are those of the whole status. A part without all
// clusters omits the plan, since each cluster has its batch.
func Page(status ranv1.ClusterGroupUpgradeStatus, part Part) (ranv1.ClusterGroupUpgradeStatus, error) {
	return page(status, part, answerLimit)
}

// page is Page with a limit for the size of clusters in bytes. It returns at least one cluster.
func page(status ranv1.ClusterGroupUpgradeStatus, part Part, limit int) (ranv1.ClusterGroupUpgradeStatus, error) {
	after := place{-1, -1}
	if part.Cursor != "" {
		var err error
		if after, err = parsePlace(part.Cursor); err != nil {
			return ranv1.ClusterGroupUpgradeStatus{}, err
		}
	}
	whole := len(status.Clusters)
	places := part.places(status.Clusters, after)
	count := fitting(status.Clusters, places, limit)
	if part.Limit > 0 {
		count = min(count, part.Limit)
	}
	if part.Filter == "" && part.Cursor == "" && part.Limit <= 0 && count == whole {
		return status, nil
	}
	status.NextCursor = ""
	if len(places) > count {
		places = places[:count]
		status.NextCursor = places[count-1].String()
	}
	clusters := make([]ranv1.ClusterStatus, len(places))
	for i, p := range places {
		clusters[i] = status.Clusters[p.index]
	}
	status.Clusters = clusters
	if len(clusters) < whole {
		status.Status.Batches, status.RemediationPlan = int32(len(status.RemediationPlan)), nil
	}
	if p := status.Precaching; p != nil {
		status.Precaching = &ranv1.PrecachingStatus{Spec: p.Spec, Image: p.Image, Status: preparationOf(clusters, p.Status)}
	}
	if b := status.Backup; b != nil {
		status.Backup = &ranv1.BackupStatus{StartedAt: b.StartedAt, Image: b.Image, Status: preparationOf(clusters, b.Status)}
	}
	return status, nil
}

// fitting is the number of clusters that fit, including their names in the plan and in the states of precaching and backup.
func fitting(clusters []ranv1.ClusterStatus, places []place, limit int) int {
	const nameInPlan, nameAndState = len(`"",`), len(`"":"UnrecoverableError",`)
	for i, p := range places {
		c := &clusters[p.index]
		//workflowcheck:ignore the length does not depend on the order
		text, _ := json.Marshal(c) // cannot fail
		limit -= len(text) + 3*len(c.Name) + nameInPlan + 2*nameAndState
		if limit < 0 {
			return max(i, 1)
		}
	}
	return len(places)
}

// places are the positions of the clusters of a part, sorted.
func (p Part) places(clusters []ranv1.ClusterStatus, after place) []place {
	var places []place
	for i := range clusters {
		c := &clusters[i]
		at := place{urgency(c.State), i}
		if p.InPlanOrder {
			at.urgency = 0
		}
		if (p.Filter == "" || p.Filter == c.Name || p.Filter == string(c.State)) && at.compare(after) > 0 {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, place.compare)
	return places
}

// Join merges the parts of a status that were read in the order of the plan. All other fields are those of the last part.
func Join(parts []ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	if len(parts) == 0 {
		return ranv1.ClusterGroupUpgradeStatus{}
	}
	whole := parts[len(parts)-1]
	if len(parts) == 1 {
		return whole
	}
	whole.Clusters = nil
	whole.Precaching, whole.Backup = whole.Precaching.DeepCopy(), whole.Backup.DeepCopy()
	for _, part := range parts {
		whole.Clusters = append(whole.Clusters, part.Clusters...)
		if whole.Precaching != nil && part.Precaching != nil {
			maps.Copy(whole.Precaching.Status, part.Precaching.Status)
		}
		if whole.Backup != nil && part.Backup != nil {
			maps.Copy(whole.Backup.Status, part.Backup.Status)
		}
	}
	if whole.RemediationPlan == nil {
		whole.RemediationPlan, whole.Status.Batches = planOf(whole.Clusters, int(whole.Status.Batches)), 0
	}
	return whole
}

// planOf restores the plan from clusters in its order.
func planOf(clusters []ranv1.ClusterStatus, batches int) [][]string {
	plan := make([][]string, batches)
	for i := range clusters {
		if batch := int(clusters[i].Batch) - 1; batch >= 0 && batch < batches {
			plan[batch] = append(plan[batch], clusters[i].Name)
		}
	}
	return plan
}

// ByUrgency sorts clusters: failed, timed out, running, offline, the rest.
func ByUrgency(clusters []ranv1.ClusterStatus) []ranv1.ClusterStatus {
	return slices.SortedStableFunc(slices.Values(clusters), func(a, b ranv1.ClusterStatus) int { return cmp.Compare(urgency(a.State), urgency(b.State)) })
}

// preparationOf returns the states of the clusters.
func preparationOf(clusters []ranv1.ClusterStatus, states map[string]ranv1.PreparationState) map[string]ranv1.PreparationState {
	part := map[string]ranv1.PreparationState{}
	for _, cluster := range clusters {
		if state, prepared := states[cluster.Name]; prepared {
			part[cluster.Name] = state
		}
	}
	return part
}
