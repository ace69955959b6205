package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
)

// workflowRow is a workflow from Temporal's visibility, which may lag by a moment.
type workflowRow struct {
	observe.Row
	// State is the state in plain words, if the workflow was asked for it.
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

// listing is a list of workflows with the number in each status.
type listing struct {
	Items  []workflowRow  `json:"items"`
	Counts map[string]int `json:"counts"`
	// running means that only running workflows are listed.
	running bool
}

func newListing(rows []workflowRow, running bool) listing {
	l := listing{Items: rows, Counts: map[string]int{}, running: running}
	if rows == nil {
		l.Items = []workflowRow{}
	}
	for _, row := range rows {
		l.Counts[row.Execution]++
	}
	return l
}

// newList returns the command that lists the workflows of a query.
func (c *cli) newList(short, running string, query func(running bool) string, render func(io.Writer, listing)) *cobra.Command {
	return c.newDetailedList(short, running, query, func(context.Context, *server, []workflowRow) {}, render)
}

// newDetailedList is newList with a function that adds to the rows.
func (c *cli) newDetailedList(
	short, running string, query func(running bool) string, add func(context.Context, *server, []workflowRow), render func(io.Writer, listing),
) *cobra.Command {
	var onlyRunning bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Args:  operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			rows, err := s.list(ctx, query(onlyRunning))
			if err != nil {
				return err
			}
			add(ctx, s, rows)
			list := newListing(rows, onlyRunning)
			return c.print(list, func(w io.Writer) { render(w, list) }, list.ids()...)
		}),
	}
	cmd.Flags().BoolVar(&onlyRunning, "running", false, running)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// workflowsOf is the query for all workflows of a type.
func workflowsOf(workflowType string) func(running bool) string {
	return func(running bool) string { return observe.WorkflowsOf(workflowType, running) }
}

// printTable writes a table of the list, unless it is empty, and the counts.
func (l listing) printTable(w io.Writer, t table.Writer, word string) {
	if len(l.Items) > 0 {
		fmt.Fprintln(w, t.Render())
	}
	l.printCounts(w, word)
}

// printCounts writes e.g. "3 rollouts: 1 Running, 2 Completed", in the words of the table.
func (l listing) printCounts(w io.Writer, word string) {
	canceled := enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED.String()
	parts := []string{}
	for _, execution := range slices.Sorted(maps.Keys(l.Counts)) {
		shown := execution
		if execution == canceled {
			shown = string(maintenancev1.NodeCancelled)
		}
		parts = append(parts, fmt.Sprintf("%d %s", l.Counts[execution], shown))
	}
	fmt.Fprintf(w, "%s: %s\n", plural(len(l.Items), word), strings.Join(parts, ", "))
}

func (l listing) ids() []string {
	ids := make([]string, 0, len(l.Items))
	for _, row := range l.Items {
		ids = append(ids, row.WorkflowID)
	}
	return ids
}
