package invariants

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// turn is the time in which a rollout was running on a cluster.
type turn struct {
	cluster     string
	batch       int
	first, last time.Time
}

// Order checks that clusters were maintained batch after batch, and at most maxConcurrency at once. The actions show when each was running.
func Order(plan [][]string, maxConcurrency int, clusters []Cluster) []string {
	var turns []turn
	for batch, names := range plan {
		for _, name := range names {
			i := slices.IndexFunc(clusters, func(c Cluster) bool { return c.Name == name })
			if i < 0 {
				continue
			}
			if t, worked := turnOf(clusters[i]); worked {
				t.batch = batch + 1
				turns = append(turns, t)
			}
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.first.Compare(b.first) })
	var violations []string
	for i, t := range turns {
		atWork := 1
		for _, before := range turns[:i] {
			if before.batch > t.batch {
				violations = append(violations, fmt.Sprintf("%s of batch %d begins after %s of batch %d", t.cluster, t.batch, before.cluster, before.batch))
			}
			if before.last.Before(t.first) {
				continue
			}
			atWork++
			if before.batch != t.batch {
				violations = append(violations, fmt.Sprintf("%s of batch %d begins while %s of batch %d is running", t.cluster, t.batch, before.cluster, before.batch))
			}
		}
		if atWork > maxConcurrency {
			violations = append(violations, fmt.Sprintf("%d clusters are running when %s begins, at most %d may be", atWork, t.cluster, maxConcurrency))
		}
	}
	return violations
}

// turnOf is from the first to the last action of Drydock on a cluster, except on locks, which belong to applications.
func turnOf(c Cluster) (t turn, worked bool) {
	steps := []string{
		fleet.ActionRequestCluster, fleet.ActionWithdrawCluster, fleet.ActionRequestNode, fleet.ActionWithdrawNode, fleet.ActionCordon, fleet.ActionUncordon,
		fleet.ActionMark, fleet.ActionUnmark, fleet.ActionEviction, fleet.ActionJob,
	}
	t.cluster = c.Name
	for _, action := range c.Actions {
		if !action.ByDrydock() || action.At.Before(c.Since) || !slices.Contains(steps, action.What) {
			continue
		}
		if !worked || action.Received.Before(t.first) {
			t.first = action.Received
		}
		// Compare arrivals: the next cluster may start on the effect, before the answer is logged.
		if action.Received.After(t.last) {
			t.last = action.Received
		}
		worked = true
	}
	return t, worked
}
