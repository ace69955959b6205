package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// workflowRow is one workflow as Temporal's visibility shows it. It may lag behind by moments.
type workflowRow struct {
	workflowRef
	// Execution is Temporal's word for how the workflow stands: Running, Completed, Failed, Canceled, ...
	Execution   string     `json:"execution"`
	Node        string     `json:"node,omitempty"`
	Requestor   string     `json:"requestor,omitempty"`
	Phase       string     `json:"phase,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Batch       int64      `json:"batch,omitempty"`
	Paused      bool       `json:"paused,omitempty"`
	StartedAt   time.Time  `json:"startedAt"`
	CompletedAt *time.Time `json:"completedAt,omitempty"`
}

// list returns the workflows that a visibility query finds, newest first, and of each id only the newest run.
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
			rows = append(rows, newWorkflowRow(execution))
		}
	}
	return rows, nil
}

// executions returns all runs of workflows that a visibility query finds, newest first.
func (s *server) executions(ctx context.Context, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	var executions []*workflowpb.WorkflowExecutionInfo
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000}
	for {
		page, err := s.ListWorkflow(ctx, request)
		if err != nil {
			return nil, s.explain("list", subject{noun: "workflows in Temporal namespace", name: s.namespace}, err)
		}
		executions = append(executions, page.GetExecutions()...)
		request.NextPageToken = page.GetNextPageToken()
		if len(request.NextPageToken) == 0 {
			return executions, nil
		}
	}
}

func newWorkflowRow(execution *workflowpb.WorkflowExecutionInfo) workflowRow {
	row := workflowRow{
		workflowRef: refOf(execution.GetExecution().GetWorkflowId(), execution.GetExecution().GetRunId()),
		Execution:   execution.GetStatus().String(),
		StartedAt:   execution.GetStartTime().AsTime(),
	}
	if execution.GetCloseTime() != nil {
		closed := execution.GetCloseTime().AsTime()
		row.CompletedAt = &closed
	}
	for name, field := range map[string]any{
		temporal.AttributeNode.GetName():      &row.Node,
		temporal.AttributeRequestor.GetName(): &row.Requestor,
		temporal.AttributePhase.GetName():     &row.Phase,
		temporal.AttributeReason.GetName():    &row.Reason,
		temporal.AttributeBatch.GetName():     &row.Batch,
		temporal.AttributePaused.GetName():    &row.Paused,
	} {
		if payload := execution.GetSearchAttributes().GetIndexedFields()[name]; payload != nil {
			// A value that cannot be read is of another program; the row is of use without it.
			_ = converter.GetDefaultDataConverter().FromPayload(payload, field)
		}
	}
	return row
}

// refOf takes a workflow id of Drydock apart.
func refOf(workflowID, runID string) workflowRef {
	ref := workflowRef{Name: workflowID, WorkflowID: workflowID, RunID: runID}
	switch parts := strings.Split(workflowID, "/"); {
	case len(parts) == 3 && parts[0] == "cgu":
		ref.Namespace, ref.Name = parts[1], parts[2]
	case len(parts) == 3 && parts[0] == "window":
		ref.Namespace, ref.Name = parts[1], parts[2]
	case len(parts) == 2 && parts[0] == "portal":
		ref.Name = parts[1]
	case len(parts) == 4 && parts[0] == "node":
		ref.Cluster, ref.Namespace, ref.Name = parts[1], parts[2], parts[3]
	case len(parts) == 4 && parts[0] == "harbor":
		ref.Cluster, ref.Namespace, ref.Name = parts[1], parts[2], parts[3]
	case len(parts) == 3 && parts[0] == "locks":
		ref.Cluster, ref.Name = parts[1], parts[2]
	}
	return ref
}

// phase is where the work stands, in one word.
func (r workflowRow) phase() string {
	phase := r.Phase
	if phase == "" {
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

// took is how long the work took, or takes.
func (r workflowRow) took(now time.Time) string {
	if r.CompletedAt != nil {
		now = *r.CompletedAt
	}
	return age(now, r.StartedAt)
}

// listing is a list with the number of workflows by how they stand.
type listing struct {
	Items  []workflowRow  `json:"items"`
	Counts map[string]int `json:"counts"`
}

func newListing(rows []workflowRow) listing {
	l := listing{Items: rows, Counts: map[string]int{}}
	if rows == nil {
		l.Items = []workflowRow{}
	}
	for _, row := range rows {
		l.Counts[row.Execution]++
	}
	return l
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

// workflowsOf is the visibility query for the workflows of a type.
func workflowsOf(workflowType string, running bool) string {
	query := fmt.Sprintf("WorkflowType = '%s'", workflowType)
	if running {
		query += " AND ExecutionStatus = 'Running'"
	}
	return query
}
