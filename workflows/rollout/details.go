package rollout

import (
	"fmt"
	"strconv"
	"strings"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit"
)

func groupDetails(name string, s *ranv1.ClusterGroupUpgradeStatus) string {
	var d kit.Details
	run := s.Status
	if s.Counts.Total > 0 {
		d.Head("rollout", fmt.Sprintf("%d %%", s.Percentage))
		d.Row("batch", fmt.Sprintf("%d of %d", run.CurrentBatch, len(s.RemediationPlan)))
		d.Row("clusters", countsText(s.Counts))
	} else {
		d.Head("rollout", "no clusters")
	}
	if run.CurrentBatchDeadline != nil {
		d.Row("batch times out", run.CurrentBatchDeadline.UTC().Format(kit.TimeFormat))
	}
	if run.Deadline != nil {
		d.Row("rollout times out", run.Deadline.UTC().Format(kit.TimeFormat))
	}
	d.Held(s.Held)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	if wait := rollout.DeepestWait(s); wait != nil {
		d.Row("**waiting**", wait.Reason+": "+wait.Message)
		d.Until(wait)
	}
	_, command := rollout.NextStep(s, name)
	d.ToDo(command)
	d.WriteString("\n")
	headed := false
	for _, c := range s.Clusters {
		if summarized(c) {
			continue
		}
		if !headed {
			headed = true
			d.Head("cluster", "batch", "state", "step", "reason")
		}
		d.Line(c.Name, strconv.Itoa(int(c.Batch)), string(c.State), c.Step, strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
	}
	return d.Text()
}

// summarized reports whether the counts say enough about a cluster.
func summarized(c ranv1.ClusterStatus) bool {
	return c.State == ranv1.ClusterPending || c.State == ranv1.ClusterComplete || c.State == ranv1.ClusterSkipped
}

func countsText(c ranv1.ClusterCounts) string {
	parts := []string{fmt.Sprintf("%d of %d complete", c.Complete, c.Total)}
	for _, p := range []struct {
		n    int32
		word string
	}{{c.Running, "running"}, {c.Offline, "offline"}, {c.Pending, "pending"}, {c.Failed, "failed"}, {c.TimedOut, "timed out"}, {c.Cancelled, "cancelled"}, {c.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}
