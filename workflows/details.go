package workflows

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// detailsLimit is how long the current details of the Web UI may be, in bytes.
const detailsLimit = 2000

// details builds the markdown that the Temporal Web UI shows as the current details of a workflow.
type details struct{ strings.Builder }

// table begins a table of two columns; row adds to it, unless the value is empty.
func (d *details) table(left, right string) { fmt.Fprintf(d, "| %s | %s |\n|---|---|\n", left, right) }

func (d *details) row(name, value string) {
	if value != "" {
		fmt.Fprintf(d, "| %s | %s |\n", name, cell(value))
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
	for i, b := range w.Blockers {
		if i == 5 {
			d.row("blocked by", fmt.Sprintf("and %d more", len(w.Blockers)-i))
			return
		}
		d.row("blocked by", b.String()+" "+b.Message)
	}
}

func (d *details) failure(f *maintenancev1.Failure) {
	if f != nil {
		d.row("**failure**", f.Reason+": "+f.Message)
	}
}

// text returns the details, cut at a line's end when they are too long.
func (d *details) text() string {
	const more = "…\n"
	text := d.String()
	if len(text) <= detailsLimit {
		return text
	}
	text = text[:detailsLimit-len(more)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text[:strings.LastIndexByte(text, '\n')+1] + more
}

// clockFormat shows instants to people.
const clockFormat = "2006-01-02 15:04:05Z"

// cell makes text fit into a table cell.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}

func nodeDetails(node activities.NodeRef, s *maintenancev1.NodeMaintenanceStatus) string {
	var d details
	d.table("node", node.Cluster+"/"+node.Node)
	d.row("state", string(s.State))
	if s.Drain != nil {
		d.row("drain", fmt.Sprintf("%d of %d pods have left", s.Drain.Evicted, s.Drain.PodsToEvict))
	}
	d.wait(s.Wait)
	d.failure(s.Failure)
	for _, note := range s.Notes {
		d.row("note", note)
	}
	return d.text()
}

func clusterDetails(s *ranv1.ClusterUpgradeStatus) string {
	var d details
	d.table("cluster", s.Cluster)
	d.row("state", string(s.State))
	d.row("step", string(s.Step))
	if s.Paused {
		d.row("paused", "nothing new is started")
	}
	d.wait(s.Wait)
	d.failure(s.Failure)
	for _, note := range s.Notes {
		d.row("note", note)
	}
	d.WriteString("\n| node | state | waiting | evicted |\n|---|---|---|---|\n")
	for _, n := range s.Nodes {
		waiting := ""
		if n.Wait != nil {
			waiting = n.Wait.Reason + ": " + n.Wait.Message
		}
		fmt.Fprintf(&d, "| %s | %s | %s | %d |\n", n.Name, n.State, cell(waiting), n.Evicted)
	}
	return d.text()
}

func groupDetails(s *ranv1.ClusterGroupUpgradeStatus) string {
	var d details
	run := s.Status
	d.table("rollout", fmt.Sprintf("%d %%", s.Percentage))
	d.row("batch", fmt.Sprintf("%d of %d", run.CurrentBatch, len(s.RemediationPlan)))
	if run.CurrentBatchDeadline != nil {
		d.row("batch times out", run.CurrentBatchDeadline.UTC().Format(clockFormat))
	}
	if run.Deadline != nil {
		d.row("rollout times out", run.Deadline.UTC().Format(clockFormat))
	}
	d.row("clusters", countsText(s.Counts))
	d.wait(s.Wait)
	d.WriteString("\n| cluster | batch | state | step | reason |\n|---|---|---|---|---|\n")
	for _, c := range s.Clusters {
		if c.State != ranv1.ClusterPending && c.State != ranv1.ClusterComplete && c.State != ranv1.ClusterSkipped {
			fmt.Fprintf(&d, "| %s | %d | %s | %s | %s |\n", c.Name, c.Batch, c.State, cell(c.Step), cell(strings.TrimSpace(c.Reason+" "+c.Message)))
		}
	}
	return d.text()
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
