package invariants

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// span is the time in which a rollout ran on a cluster.
type span struct {
	cluster     string
	batch       int
	first, last time.Time
}

// Order checks that clusters were maintained batch after batch, and at most maxConcurrency at the same time. The actions of a cluster show when it
// was running.
func Order(plan [][]string, maxConcurrency int, clusters []Cluster) []string {
	var spans []span
	for batch, names := range plan {
		for _, name := range names {
			i := slices.IndexFunc(clusters, func(c Cluster) bool { return c.Name == name })
			if i < 0 {
				continue
			}
			if t, worked := spanOf(clusters[i]); worked {
				t.batch = batch + 1
				spans = append(spans, t)
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first.Compare(b.first) })
	var violations []string
	for i, t := range spans {
		running := 1
		for _, before := range spans[:i] {
			if before.batch > t.batch {
				violations = append(violations, fmt.Sprintf("%s of batch %d begins after %s of batch %d", t.cluster, t.batch, before.cluster, before.batch))
			}
			if before.last.Before(t.first) {
				continue
			}
			running++
			if before.batch != t.batch {
				violations = append(violations, fmt.Sprintf("%s of batch %d begins while %s of batch %d is running", t.cluster, t.batch, before.cluster, before.batch))
			}
		}
		if running > maxConcurrency {
			violations = append(violations, fmt.Sprintf("%d clusters are running when %s begins, at most %d may be", running, t.cluster, maxConcurrency))
		}
	}
	return violations
}

// spanOf is the time from the first to the last action of Drydock on a cluster, without actions on locks, which belong to applications.
func spanOf(c Cluster) (s span, worked bool) {
	steps := []string{
		fleet.ActionRequestCluster, fleet.ActionWithdrawCluster, fleet.ActionRequestNode, fleet.ActionWithdrawNode, fleet.ActionCordon, fleet.ActionUncordon,
		fleet.ActionMark, fleet.ActionUnmark, fleet.ActionEviction, fleet.ActionJob,
	}
	s.cluster = c.Name
	for _, action := range c.Actions {
		if !action.ByDrydock() || action.At.Before(c.Since) || !slices.Contains(steps, action.What) {
			continue
		}
		if !worked || action.Received.Before(s.first) {
			s.first = action.Received
		}
		// Compare arrivals: the next cluster may start on the effect, before the answer is logged.
		if action.Received.After(s.last) {
			s.last = action.Received
		}
		worked = true
	}
	return s, worked
}
