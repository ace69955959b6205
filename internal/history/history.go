// Package history reads the histories of workflows, and stores them in files.
package history

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// Run is the history of one run of a workflow.
type Run struct {
	WorkflowID, RunID string
	Events            []*historypb.HistoryEvent
}

// Read returns the runs of a workflow, from the first, with those of its children and of theirs.
func Read(ctx context.Context, server client.Client, workflowID string) ([]Run, error) {
	first, err := firstRun(ctx, server, workflowID)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for pending := []Run{first}; len(pending) > 0; pending = pending[1:] {
		run := pending[0]
		if len(run.Events) == 0 {
			if run, err = ReadRun(ctx, server, run.WorkflowID, run.RunID); err != nil {
				return nil, err
			}
		}
		runs = append(runs, run)
		pending = append(pending, run.next()...)
	}
	return runs, nil
}

// firstRun reads the first run of the chain of the latest run.
func firstRun(ctx context.Context, server client.Client, workflowID string) (Run, error) {
	latest, err := ReadRun(ctx, server, workflowID, "")
	if err != nil {
		return Run{}, err
	}
	return ReadRun(ctx, server, workflowID, latest.Events[0].GetWorkflowExecutionStartedEventAttributes().GetFirstExecutionRunId())
}

// ReadRun returns one run of a workflow; runID "" is the latest.
func ReadRun(ctx context.Context, server client.Client, workflowID, runID string) (Run, error) {
	run := Run{WorkflowID: workflowID, RunID: runID}
	for events := server.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			return Run{}, fmt.Errorf("read the history of %s: %w", workflowID, err)
		}
		run.Events = append(run.Events, event)
	}
	if len(run.Events) == 0 {
		return Run{}, errors.New("the history of " + workflowID + " is empty")
	}
	return run, nil
}

// next returns the runs that this one started: children, and the run that continues it.
func (r Run) next() []Run {
	var next []Run
	for _, event := range r.Events {
		if child := event.GetChildWorkflowExecutionStartedEventAttributes(); child != nil {
			next = append(next, Run{WorkflowID: child.WorkflowExecution.WorkflowId, RunID: child.WorkflowExecution.RunId})
		}
		if continued := event.GetWorkflowExecutionContinuedAsNewEventAttributes(); continued != nil {
			next = append(next, Run{WorkflowID: r.WorkflowID, RunID: continued.NewExecutionRunId})
		}
	}
	return next
}
