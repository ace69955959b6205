package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Retention is how long Temporal should keep closed workflows: longer than any rollout, so that one can be read and retried after its end, and chains are known.
const Retention = 30 * 24 * time.Hour

// ChainState is the state of a chain of runs.
type ChainState string

// The states of a chain of runs.
const (
	// ChainOpen: one of its runs is open.
	ChainOpen ChainState = "Open"
	// ChainClosed: its last run is closed. Only a reset by a person can open it again.
	ChainClosed ChainState = "Closed"
	// ChainUnknown: Temporal has no such workflow, or its retention period has passed.
	ChainUnknown ChainState = "Unknown"
)

// Chain is a workflow from its first run on: continue-as-new, retries and resets add runs to it. A workflow that is started with the same id after
// the chain is closed is another chain.
type Chain struct {
	State ChainState
	// Ended says how and when a closed chain ended, e.g. "Terminated at 2026-11-20T12:00:00Z by 4711@ops-host: wrong node".
	Ended string
	// Completed: it ended without an error.
	Completed bool
}

// Executions are the requests about workflow executions; Temporal's client implements them.
type Executions interface {
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// DescribeChain returns the state of a chain. Unlike visibility, it is consistent.
func DescribeChain(ctx context.Context, server Executions, workflowID, firstRunID string) (Chain, error) {
	if workflowID == "" || firstRunID == "" {
		return Chain{State: ChainUnknown}, nil
	}
	current, err := server.DescribeWorkflowExecution(ctx, workflowID, "")
	if err == nil && current.GetWorkflowExecutionInfo().GetFirstRunId() != firstRunID {
		// The id belongs to a later chain now. Did this Temporal namespace ever have the chain?
		current, err = server.DescribeWorkflowExecution(ctx, workflowID, firstRunID)
	}
	if isUnknown(err) {
		return Chain{State: ChainUnknown}, nil
	}
	if err != nil {
		return Chain{}, fmt.Errorf("describe workflow %s: %w", workflowID, err)
	}
	info := current.GetWorkflowExecutionInfo()
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		completed := info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		return Chain{State: ChainClosed, Ended: info.GetStatus().String() + at(info.GetCloseTime().AsTime()), Completed: completed}, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return Chain{State: ChainClosed, Ended: "Terminated" + at(info.GetCloseTime().AsTime()) + terminatedBy(ctx, server, workflowID, info.GetExecution().GetRunId())}, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		if info.GetExecution().GetRunId() == firstRunID {
			// A chain with the same id was started after it, so its own last run is closed.
			return Chain{State: ChainClosed, Ended: "Closed, and started again since"}, nil
		}
	}
	return Chain{State: ChainOpen}, nil
}

// Open reports whether a workflow with this id is open, in any chain of runs.
func Open(ctx context.Context, server Executions, workflowID string) (bool, error) {
	current, err := server.DescribeWorkflowExecution(ctx, workflowID, "")
	if isUnknown(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("describe workflow %s: %w", workflowID, err)
	}
	return current.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

func at(instant time.Time) string { return " at " + instant.UTC().Format(time.RFC3339) }

// terminatedBy returns who terminated a run, and why, from its history; it is only for people.
func terminatedBy(ctx context.Context, server Executions, workflowID, runID string) string {
	events := server.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if !events.HasNext() {
		return ""
	}
	last, err := events.Next()
	if err != nil {
		return ""
	}
	text, terminated := "", last.GetWorkflowExecutionTerminatedEventAttributes()
	if identity := terminated.GetIdentity(); identity != "" {
		text = " by " + identity
	}
	if reason := terminated.GetReason(); reason != "" {
		text += ": " + reason
	}
	return text
}

// isUnknown reports whether the server does not know the workflow. An invalid run id was not written by Temporal.
func isUnknown(err error) bool {
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return true
	}
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	return invalid
}
