package activitytest

import (
	"context"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Workflows is a Temporal server with the workflows whose status was set, by owner. It counts the reads.
type Workflows struct {
	mu     sync.Mutex
	status map[string]enumspb.WorkflowExecutionStatus
	asked  map[string]int
	Woken  []temporalclient.StartWorkflowOptions
	// Listed are the listed workflows; Blind is the error of a list.
	Listed []string
	Blind  error
}

func NewWorkflows() *Workflows {
	return &Workflows{status: map[string]enumspb.WorkflowExecutionStatus{}, asked: map[string]int{}}
}

func (w *Workflows) Set(owner string, status enumspb.WorkflowExecutionStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status[owner] = status
}

func (w *Workflows) Reads(owner string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, _ := kube.OwnerWorkflow(owner)
	return w.asked[id]
}

func (w *Workflows) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
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

// Rollouts answers queries for rollouts by the IDs of their runs.
type Rollouts map[string]ranv1.ClusterGroupUpgrade

func (r Rollouts) QueryWorkflow(_ context.Context, workflowID, runID, query string, _ ...any) (converter.EncodedValue, error) {
	object, known := r[runID]
	if !known || query != temporal.QueryRollout || workflowID != temporal.ClusterGroupUpgradeID(object.Namespace, object.Name) {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	payloads, err := temporal.DataConverter().ToPayloads(object)
	return temporalclient.NewValue(payloads), err
}

func (w *Workflows) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) temporalclient.HistoryEventIterator {
	return noEvents{}
}

func (w *Workflows) SignalWithStartWorkflow(_ context.Context, id, signal string, payload any, options temporalclient.StartWorkflowOptions, _ any, _ ...any) (temporalclient.WorkflowRun, error) {
	options.ID = id
	w.Woken = append(w.Woken, options)
	return nil, nil
}

func (w *Workflows) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range w.Listed {
		response.Executions = append(response.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return response, w.Blind
}

type noEvents struct {
	temporalclient.HistoryEventIterator
}

func (noEvents) HasNext() bool { return false }

const (
	StillRunning  = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	WasTerminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// Pages are pages of a list of workflows.
type Pages struct {
	activitykit.Starter
	Pages [][]*workflowpb.WorkflowExecutionInfo
	Query string
}

func (p *Pages) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	p.Query = request.Query
	at := len(request.NextPageToken)
	response := &workflowservice.ListWorkflowExecutionsResponse{Executions: p.Pages[at]}
	if at+1 < len(p.Pages) {
		response.NextPageToken = make([]byte, at+1)
	}
	return response, nil
}
