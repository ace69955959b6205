package rollout

import (
	"cmp"
	"fmt"
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

// Failures is how many clusters have failed or timed out on which work was begun: what maxFailures limits.
func Failures(clusters []ranv1.ClusterStatus) int {
	failures := 0
	for i := range clusters {
		state := clusters[i].State
		if clusters[i].StartedAt != nil && (state == ranv1.ClusterFailed || state == ranv1.ClusterTimedOut) {
			failures++
		}
	}
	return failures
}

// Percentage is how much of the plan is done, from 0 to 100, rounded down: a complete cluster counts in full, any other with the share of
// its nodes that are done, whether it goes on or has failed. It is 100 when the plan has no clusters.
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

// urgency ranks clusters by how soon a person should see them.
func urgency(state ranv1.ClusterState) int {
	switch state {
	case ranv1.ClusterFailed:
		return 0
	case ranv1.ClusterTimedOut:
		return 1
	case ranv1.ClusterRunning, ranv1.ClusterSoaking:
		return 2
	}
	return 3
}

// place is where a cluster stands in a status that is read in parts: by urgency, then in the order of the plan. It is also the cursor, so
// that clusters which move between two reads shift no others.
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

// Page narrows a status. Filter keeps the clusters in that state, or of that name; with a limit above 0, at most so many are returned, what
// matters first (failed, timed out, at work, then the rest), and nextCursor says where to go on. Counts stay those of the whole.
func Page(status ranv1.ClusterGroupUpgradeStatus, filter string, limit int, cursor string) (ranv1.ClusterGroupUpgradeStatus, error) {
	after := place{-1, -1}
	if cursor != "" {
		var err error
		if after, err = parsePlace(cursor); err != nil {
			return ranv1.ClusterGroupUpgradeStatus{}, err
		}
	}
	if filter == "" && limit <= 0 && cursor == "" {
		return status, nil
	}
	var places []place
	for i, cluster := range status.Clusters {
		p := place{urgency(cluster.State), i}
		if (filter == "" || filter == cluster.Name || filter == string(cluster.State)) && p.compare(after) > 0 {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, place.compare)
	status.NextCursor = ""
	if limit > 0 && len(places) > limit {
		places = places[:limit]
		status.NextCursor = places[limit-1].String()
	}
	clusters := make([]ranv1.ClusterStatus, len(places))
	for i, p := range places {
		clusters[i] = status.Clusters[p.index]
	}
	status.Clusters = clusters
	if p := status.Precaching; p != nil {
		status.Precaching = &ranv1.PrecachingStatus{Spec: p.Spec, Image: p.Image, Status: preparationOf(clusters, p.Status)}
	}
	if b := status.Backup; b != nil {
		status.Backup = &ranv1.BackupStatus{StartedAt: b.StartedAt, Image: b.Image, Status: preparationOf(clusters, b.Status)}
	}
	return status, nil
}

// ByUrgency returns clusters with those first that matter: failed, timed out, at work, then the rest.
func ByUrgency(clusters []ranv1.ClusterStatus) []ranv1.ClusterStatus {
	return slices.SortedStableFunc(slices.Values(clusters), func(a, b ranv1.ClusterStatus) int { return cmp.Compare(urgency(a.State), urgency(b.State)) })
}

// preparationOf is the part of the states that is about the clusters.
func preparationOf(clusters []ranv1.ClusterStatus, states map[string]ranv1.PreparationState) map[string]ranv1.PreparationState {
	part := map[string]ranv1.PreparationState{}
	for _, cluster := range clusters {
		if state, prepared := states[cluster.Name]; prepared {
			part[cluster.Name] = state
		}
	}
	return part
}
