package activitykit

import (
	"context"

	"go.temporal.io/sdk/client"

	"go.temporal.io/sdk/converter"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Starter signals workflows, and starts those that do not run. Temporal's client implements it.
type Starter interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signal string, payload any,
		options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Lister lists workflows. Temporal's client implements it. A workflow that has just started may be missing, and one that has just closed may still be listed.
type Lister interface {
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// EachWorkflow calls take with every workflow that a visibility query finds.
func EachWorkflow(ctx context.Context, server Lister, query string, take func(*workflowpb.WorkflowExecutionInfo)) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query}
	return EachPage(ctx, server, request, func(page *workflowservice.ListWorkflowExecutionsResponse) error {
		for _, execution := range page.GetExecutions() {
			take(execution)
		}
		return nil
	})
}

// EachPage calls take with the pages that a visibility query finds, from the page of the request on, until an error.
func EachPage(ctx context.Context, server Lister, request *workflowservice.ListWorkflowExecutionsRequest,
	take func(*workflowservice.ListWorkflowExecutionsResponse) error,
) error {
	for {
		page, err := server.ListWorkflow(ctx, request)
		if err != nil {
			return err
		}
		if err := take(page); err != nil {
			return err
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

// Signaller sends signals to workflows. Temporal's client implements it.
type Signaller interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signal string, payload any) error
}

// Querier queries workflows. Temporal's client implements it.
type Querier interface {
	QueryWorkflow(ctx context.Context, workflowID, runID, query string, args ...any) (converter.EncodedValue, error)
}
