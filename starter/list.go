package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"k8s.io/apimachinery/pkg/labels"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
)

// workflowRow is a workflow from Temporal's visibility, which may lag by a moment.
type workflowRow struct {
	observe.Row
	// State is the state in plain words, if the kind of work has one.
	State string `json:"state,omitempty"`
}

// list returns the workflows that a visibility query finds, newest first, with only the newest run of each id.
func (s *server) list(ctx context.Context, query string) ([]workflowRow, error) {
	executions, err := s.executions(ctx, query)
	if err != nil {
		return nil, err
	}
	var rows []workflowRow
	seen := map[string]bool{}
	for _, execution := range executions {
		if id := execution.GetExecution().GetWorkflowId(); !seen[id] {
			seen[id] = true
			rows = append(rows, workflowRow{Row: observe.NewRow(execution)})
		}
	}
	return rows, nil
}

// executions returns all runs of workflows that a visibility query finds, newest first.
func (s *server) executions(ctx context.Context, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	executions, err := observe.Executions(ctx, s, query, 0)
	if err != nil {
		return nil, s.explain("list", subject{noun: "workflows in Temporal namespace", name: s.namespace}, err)
	}
	return executions, nil
}

// phase is the state of the work in one word.
func (r workflowRow) phase() string {
	if r.State != "" {
		return r.State
	}
	phase := r.Phase
	if phase == "" || observe.Cut(r.Execution) {
		return r.Execution
	}
	if r.Paused && r.CompletedAt == nil {
		phase += " (paused)"
	}
	if r.Reason == emergency.ReasonHeld && r.CompletedAt == nil {
		phase += " (held)"
	}
	return phase
}

// took is the duration of the work until its end or now.
func (r workflowRow) took(now time.Time) string {
	if r.CompletedAt != nil {
		now = *r.CompletedAt
	}
	return age(now, r.StartedAt)
}

// labels are what a label selector (-l) selects by.
func (r workflowRow) labels() labels.Set {
	return labels.Set{
		"cluster": r.Cluster, "namespace": r.Namespace, "name": r.Name, "node": r.Node, "requestor": r.Requestor,
		"phase": r.Phase, "reason": r.Reason, "execution": r.Execution, "paused": strconv.FormatBool(r.Paused),
	}
}

// selectable are the names of the labels.
func selectable() string { return joined(slices.Sorted(maps.Keys(workflowRow{}.labels()))) }

// listing is a list of workflows with the number in each status.
type listing struct {
	Items  []workflowRow  `json:"items"`
	Counts map[string]int `json:"counts"`
	kind   *listKind
	// within says what the list is limited to, e.g. " in namespace prod"; empty: it is not.
	within string
	// running means that only running workflows are listed.
	running bool
}

func newListing(kind *listKind, rows []workflowRow, running bool) listing {
	l := listing{Items: rows, Counts: map[string]int{}, kind: kind, running: running}
	if rows == nil {
		l.Items = []workflowRow{}
	}
	for _, row := range rows {
		l.Counts[row.Execution]++
	}
	return l
}

// lines has a line for each row.
func (l listing) lines(time.Time) []statusLine {
	lines := []statusLine{}
	for _, row := range l.Items {
		name := strings.TrimPrefix(row.Namespace+"/"+row.Name, "/")
		if row.Cluster != "" {
			name += " in cluster " + row.Cluster
		}
		text := strings.TrimSuffix(fmt.Sprintf("%s %s: %s: %s", l.kind.word, name, row.phase(), row.Reason), ": ")
		lines = append(lines, statusLine{row.WorkflowID, text})
	}
	return lines
}

func (l listing) frame(now time.Time, style frameStyle) string {
	switch {
	case len(l.Items) == 0 && l.within != "":
		return fmt.Sprintf("no %ss%s", l.kind.word, l.within)
	case len(l.Items) == 0 && l.running:
		return l.kind.noneRunning
	case len(l.Items) == 0:
		return l.kind.none
	}
	items := l.Items
	if style.height > 0 { // a live view cannot scroll
		items = items[:min(len(items), clusterLines(style.height))]
	}
	t := style.newTable(append(slices.Clone(l.kind.header), wide("WORKFLOW ID"), wide("STARTED AT"))...)
	for _, row := range items {
		cells := l.kind.row(row, now)
		if i := slices.Index(cells, any(row.phase())); i >= 0 {
			cells[i] = style.paint(row.phase())
		}
		t.AppendRow(append(cells, row.WorkflowID, stamp(row.StartedAt, now)))
	}
	text := t.Render()
	if rest := len(l.Items) - len(items); rest > 0 {
		text += fmt.Sprintf("\nand %d more", rest)
	}
	if !style.bare {
		text += "\n" + l.countsText()
	}
	return text
}

// countsText is e.g. "3 rollouts: 1 Blocked, 2 Completed": the states that the table shows.
func (l listing) countsText() string {
	counts := map[string]int{}
	for _, row := range l.Items {
		counts[row.phase()]++
	}
	parts := []string{}
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return fmt.Sprintf("%s: %s", plural(len(l.Items), l.kind.word), strings.Join(parts, ", "))
}

func (l listing) ids() []string {
	ids := make([]string, 0, len(l.Items))
	for _, row := range l.Items {
		ids = append(ids, row.WorkflowID)
	}
	return ids
}
