package activities

import (
	"context"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/kube"
)

// someWorkflows is a Temporal server that knows the workflows whose status was set, by owner. It counts the questions.
type someWorkflows struct {
	mu     sync.Mutex
	status map[string]enumspb.WorkflowExecutionStatus
	asked  map[string]int
	woken  []temporalclient.StartWorkflowOptions
	// listed are the workflows that a list finds; blind is why there is none.
	listed []string
	blind  error
}

func newWorkflows() *someWorkflows {
	return &someWorkflows{status: map[string]enumspb.WorkflowExecutionStatus{}, asked: map[string]int{}}
}

func (w *someWorkflows) set(owner string, status enumspb.WorkflowExecutionStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status[owner] = status
}

func (w *someWorkflows) timesAsked(owner string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, _ := kube.OwnerWorkflow(owner)
	return w.asked[id]
}

func (w *someWorkflows) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[id]++
	for owner, status := range w.status {
		workflowID, firstRun := kube.OwnerWorkflow(owner)
		if workflowID == id && (run == "" || run == firstRun) {
			return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{FirstRunId: firstRun, Status: status}}, nil
		}
	}
	return nil, serviceerror.NewNotFound("workflow not found")
}

func (w *someWorkflows) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) temporalclient.HistoryEventIterator {
	return noEvents{}
}

func (w *someWorkflows) SignalWithStartWorkflow(_ context.Context, id, signal string, payload any, options temporalclient.StartWorkflowOptions, _ any, _ ...any) (temporalclient.WorkflowRun, error) {
	options.ID = id
	w.woken = append(w.woken, options)
	return nil, nil
}

func (w *someWorkflows) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range w.listed {
		response.Executions = append(response.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return response, w.blind
}

type noEvents struct {
	temporalclient.HistoryEventIterator
}

func (noEvents) HasNext() bool { return false }

const (
	stillRunning  = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	wasTerminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// pages are lists of workflows, as Temporal hands them out.
type pages struct {
	Starter
	pages [][]*workflowpb.WorkflowExecutionInfo
	query string
}

func (p *pages) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	p.query = request.Query
	at := len(request.NextPageToken)
	response := &workflowservice.ListWorkflowExecutionsResponse{Executions: p.pages[at]}
	if at+1 < len(p.pages) {
		response.NextPageToken = make([]byte, at+1)
	}
	return response, nil
}
