package observe

import (
	"context"
	"fmt"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/temporal"
)

// Ref names a workflow in output that programs read.
type Ref struct {
	Cluster    string `json:"cluster,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	WorkflowID string `json:"workflowID"`
	RunID      string `json:"runID"`
	// StartedBy is the person who started it, and StartReason why, if that is recorded.
	StartedBy   string `json:"startedBy,omitempty"`
	StartReason string `json:"startReason,omitempty"`
}

// RefOfExecution is RefOf for a workflow as Temporal describes it.
func RefOfExecution(workflowID string, execution *client.WorkflowExecutionDescription) Ref {
	ref := RefOf(workflowID, execution.WorkflowExecution.RunID)
	by := temporal.StartedBy(execution.Memo)
	ref.StartedBy, ref.StartReason = by.Actor, by.Reason
	return ref
}

// RefOf parses a workflow id of Drydock.
func RefOf(workflowID, runID string) Ref {
	ref := Ref{Name: workflowID, WorkflowID: workflowID, RunID: runID}
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

// Row is a workflow from Temporal's visibility, which may lag by a moment.
type Row struct {
	Ref
	// Execution is Temporal's execution status: Running, Completed, Failed, Canceled, ...
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

// NewRow converts a workflow from visibility.
func NewRow(execution *workflowpb.WorkflowExecutionInfo) Row {
	row := Row{
		Ref:       RefOf(execution.GetExecution().GetWorkflowId(), execution.GetExecution().GetRunId()),
		Execution: execution.GetStatus().String(),
		StartedAt: execution.GetStartTime().AsTime(),
	}
	if execution.GetCloseTime() != nil {
		closed := execution.GetCloseTime().AsTime()
		row.CompletedAt = &closed
	}
	for name, field := range map[string]any{
		temporal.AttributeCluster.GetName():   &row.Cluster,
		temporal.AttributeNode.GetName():      &row.Node,
		temporal.AttributeRequestor.GetName(): &row.Requestor,
		temporal.AttributePhase.GetName():     &row.Phase,
		temporal.AttributeReason.GetName():    &row.Reason,
		temporal.AttributeBatch.GetName():     &row.Batch,
		temporal.AttributePaused.GetName():    &row.Paused,
	} {
		if payload := execution.GetSearchAttributes().GetIndexedFields()[name]; payload != nil {
			// An undecodable value is from another program; the row is useful without it.
			_ = converter.GetDefaultDataConverter().FromPayload(payload, field)
		}
	}
	return row
}

// pageSize is how many executions one answer of Temporal has.
const pageSize = 1000

// Lists is the part of Temporal's client that Executions needs.
type Lists interface {
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Executions returns the runs of workflows that a visibility query finds, newest first, at most limit; 0 returns all.
func Executions(ctx context.Context, server Lists, query string, limit int) ([]*workflowpb.WorkflowExecutionInfo, error) {
	var executions []*workflowpb.WorkflowExecutionInfo
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: pageSize}
	if limit > 0 {
		request.PageSize = int32(min(limit, pageSize))
	}
	for {
		page, err := server.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		executions = append(executions, page.GetExecutions()...)
		request.NextPageToken = page.GetNextPageToken()
		if len(request.NextPageToken) == 0 || limit > 0 && len(executions) >= limit {
			return executions, nil
		}
	}
}

// WorkflowsOf is the visibility query for the workflows of a type.
func WorkflowsOf(workflowType string, running bool) string {
	query := fmt.Sprintf("WorkflowType = '%s'", workflowType)
	if running {
		query += " AND ExecutionStatus = 'Running'"
	}
	return query
}
