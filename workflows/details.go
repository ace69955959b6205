package workflows

import (
	"fmt"
	"strconv"
	"strings"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// detailsLimit is how long the current details of the Web UI may be, in bytes.
const detailsLimit = 2000

// details builds the markdown that the Temporal Web UI shows as the current details of a workflow.
type details struct{ strings.Builder }

// head begins a table; line adds a row to it.
func (d *details) head(columns ...string) {
	d.line(columns...)
	d.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

// line adds a row. What comes after the limit would be cut off anyway, and a workflow has no time to waste on it.
func (d *details) line(cells ...string) {
	if d.Len() > detailsLimit {
		return
	}
	for _, text := range cells {
		d.WriteString("| " + cell(text) + " ")
	}
	d.WriteString("|\n")
}

// row adds a row to a table of two columns, unless the value is empty.
func (d *details) row(name, value string) {
	if value != "" {
		d.line(name, value)
	}
}

// wait adds the current reason and who blocks.
func (d *details) wait(w *drydockv1.Wait) {
	if w == nil {
		return
	}
	d.row("**waiting**", w.Reason+": "+w.Message)
	d.row("since", w.Since.UTC().Format(clockFormat))
	if w.Until != nil {
		d.row("until", w.Until.UTC().Format(clockFormat))
	}
	d.blockers(w.Blockers)
}

func (d *details) blockers(blockers []drydockv1.Blocker) {
	for i, b := range blockers {
		if i == 5 {
			d.row("blocked by", fmt.Sprintf("and %d more", len(blockers)-i))
			return
		}
		d.row("blocked by", strings.TrimSuffix(b.String()+": "+b.Message, ": "))
	}
}

func (d *details) failure(f *maintenancev1.Failure) {
	if f != nil {
		d.row("**failure**", f.Reason+": "+f.Message)
		d.blockers(f.Blockers)
	}
}

// text returns the details, cut at a line's end when they are too long.
func (d *details) text() string {
	const more = "…\n"
	if d.Len() <= detailsLimit {
		return d.String()
	}
	text := temporal.Cut(d.String(), detailsLimit-len(more))
	return text[:strings.LastIndexByte(text, '\n')+1] + more
}

// clockFormat shows instants to people.
const clockFormat = "2006-01-02 15:04:05Z"

// cell makes text fit into a table cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}

func nodeDetails(node activities.NodeRef, s *maintenancev1.NodeMaintenanceStatus) string {
	var d details
	d.head("node", node.Cluster+"/"+node.Node)
	d.row("state", string(s.State))
	if s.Drain != nil {
		d.row("drain", fmt.Sprintf("%d of %d pods have left", s.Drain.Evicted, s.Drain.PodsToEvict))
	}
	d.held(s.Held)
	d.wait(s.Wait)
	d.failure(s.Failure)
	for _, note := range s.Notes {
		d.row("note", note)
	}
	return d.text()
}

func clusterDetails(s *ranv1.ClusterUpgradeStatus) string {
	var d details
	d.head("cluster", s.Cluster)
	d.row("state", string(s.State))
	d.row("step", string(s.Step))
	d.row("nodes", nodesText(s.Nodes))
	for _, application := range s.LockProgress {
		d.row("locks", application.String())
	}
	if s.Paused {
		d.row("paused", "nothing new is started")
	}
	d.held(s.Held)
	d.wait(s.Wait)
	d.failure(s.Failure)
	for _, note := range s.Notes {
		d.row("note", note)
	}
	d.WriteString("\n")
	d.head("node", "state", "waiting", "evicted")
	for _, n := range s.Nodes {
		if n.StartedAt == nil || n.State == maintenancev1.NodeCompleted {
			continue // the counts tell
		}
		waiting := ""
		if n.Wait != nil {
			waiting = n.Wait.Reason + ": " + n.Wait.Message
		}
		d.line(n.Name, string(n.State), waiting, strconv.Itoa(int(n.Evicted)))
	}
	return d.text()
}

func nodesText(nodes []ranv1.ClusterNodeStatus) string {
	completed := 0
	for _, n := range nodes {
		if n.State == maintenancev1.NodeCompleted {
			completed++
		}
	}
	return fmt.Sprintf("%d of %d completed", completed, len(nodes))
}

func groupDetails(s *ranv1.ClusterGroupUpgradeStatus) string {
	var d details
	run := s.Status
	if s.Counts.Total > 0 {
		d.head("rollout", fmt.Sprintf("%d %%", s.Percentage))
		d.row("batch", fmt.Sprintf("%d of %d", run.CurrentBatch, len(s.RemediationPlan)))
		d.row("clusters", countsText(s.Counts))
	} else {
		d.head("rollout", "no clusters") // nothing is done, nor left to do
	}
	if run.CurrentBatchDeadline != nil {
		d.row("batch times out", run.CurrentBatchDeadline.UTC().Format(clockFormat))
	}
	if run.Deadline != nil {
		d.row("rollout times out", run.Deadline.UTC().Format(clockFormat))
	}
	if e := run.Estimate; e != nil {
		d.row("ends about", fmt.Sprintf("%s (%s to %s)", e.End.UTC().Format(clockFormat), e.Earliest.UTC().Format(clockFormat), e.Latest.UTC().Format(clockFormat)))
	}
	d.held(s.Held)
	for _, note := range s.Notes {
		d.row("note", note)
	}
	if s.Wait != nil {
		d.row("**waiting**", s.Wait.Reason+": "+s.Wait.Message)
	}
	d.WriteString("\n")
	headed := false
	for _, c := range s.Clusters {
		if atRest(c) {
			continue
		}
		if !headed {
			headed = true
			d.head("cluster", "batch", "state", "step", "reason")
		}
		d.line(c.Name, strconv.Itoa(int(c.Batch)), string(c.State), c.Step, strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
	}
	return d.text()
}

// atRest reports whether there is nothing to say of a cluster that the counts do not.
func atRest(c ranv1.ClusterStatus) bool {
	return c.State == ranv1.ClusterPending || c.State == ranv1.ClusterComplete || c.State == ranv1.ClusterSkipped
}

func countsText(c ranv1.ClusterCounts) string {
	parts := []string{fmt.Sprintf("%d of %d complete", c.Complete, c.Total)}
	for _, p := range []struct {
		n    int32
		word string
	}{{c.Running, "running"}, {c.Pending, "pending"}, {c.Failed, "failed"}, {c.TimedOut, "timed out"}, {c.Cancelled, "cancelled"}, {c.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}
