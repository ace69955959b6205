package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

// rolloutRuns returns at most limit runs of a rollout that Temporal retains, the newest last; 0 returns all.
func (s *server) rolloutRuns(ctx context.Context, target subject, limit int) ([]rolloutRun, error) {
	executions, err := s.executions(ctx, fmt.Sprintf("WorkflowId = '%s'", quoted(target.workflowID)))
	if err != nil {
		return nil, err
	}
	if executions, err = s.withNewest(ctx, target, executions); err != nil {
		return nil, err
	}
	chains := chained(executions)
	if limit > 0 && len(chains) > limit {
		chains = chains[len(chains)-limit:]
	}
	var runs []rolloutRun
	unanswered := false
	for _, chain := range chains {
		run, err := s.rolloutRun(ctx, target, chain, &unanswered)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// withNewest replaces the newest run by its current state, since Temporal's visibility may lag.
func (s *server) withNewest(ctx context.Context, target subject, executions []*workflowpb.WorkflowExecutionInfo) ([]*workflowpb.WorkflowExecutionInfo, error) {
	described, err := s.DescribeWorkflowExecution(ctx, target.workflowID, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return executions, nil
	}
	if err != nil {
		return nil, s.explain("describe", target, err)
	}
	newest := described.GetWorkflowExecutionInfo()
	executions = slices.DeleteFunc(executions, func(e *workflowpb.WorkflowExecutionInfo) bool {
		return e.GetExecution().GetRunId() == newest.GetExecution().GetRunId()
	})
	return append(executions, newest), nil
}

// chained groups runs that were continued as new, the newest last. An id has one open run at a time, so the next run started is the
// continuation.
func chained(executions []*workflowpb.WorkflowExecutionInfo) [][]*workflowpb.WorkflowExecutionInfo {
	slices.SortStableFunc(executions, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	var chains [][]*workflowpb.WorkflowExecutionInfo
	continued := false
	for _, execution := range executions {
		if continued {
			last := len(chains) - 1
			chains[last] = append(chains[last], execution)
		} else {
			chains = append(chains, []*workflowpb.WorkflowExecutionInfo{execution})
		}
		continued = execution.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
	}
	return chains
}

// rolloutRun reads the start and the outcome of a run. After a query without an answer it queries no further workers.
func (s *server) rolloutRun(ctx context.Context, target subject, chain []*workflowpb.WorkflowExecutionInfo, unanswered *bool) (rolloutRun, error) {
	first, last := chain[0], chain[len(chain)-1]
	run := rolloutRun{RunID: first.GetExecution().GetRunId(), StartedAt: new(first.GetStartTime().AsTime()), Outcome: last.GetStatus().String()}
	if err := s.readStart(ctx, target, first, &run); err != nil {
		return run, err
	}
	if id := last.GetExecution().GetRunId(); id != run.RunID {
		run.LastRunID = id
	}
	if last.GetCloseTime() != nil {
		run.EndedAt = new(last.GetCloseTime().AsTime())
	}
	var status ranv1.ClusterGroupUpgradeStatus
	var err error
	runID := last.GetExecution().GetRunId()
	switch last.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		err = s.lastStatus(ctx, target, runID, &status)
	default:
		if *unanswered {
			err = observe.ErrNoWorker
			break
		}
		err = s.query(ctx, target, runID, &status, temporal.StatusRequest{Limit: 1})
		*unanswered = errors.Is(err, observe.ErrNoWorker)
	}
	switch {
	case ctx.Err() != nil:
		return run, err
	case err != nil:
		run.Message = err.Error()
	default:
		run.read(status)
	}
	if last.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		run.Outcome, run.Message = last.GetStatus().String(), s.terminatedBy(ctx, target, runID)
	}
	return run, nil
}

// read copies the outcome from the status of the rollout.
func (r *rolloutRun) read(status ranv1.ClusterGroupUpgradeStatus) {
	r.Outcome, r.Message = verdict(status)
	r.Clusters = &status.Counts
}

// readStart reads from the first event of the history who started the run.
func (s *server) readStart(ctx context.Context, target subject, first *workflowpb.WorkflowExecutionInfo, run *rolloutRun) error {
	started, err := s.startOf(ctx, target, first.GetExecution())
	if err != nil || started == nil {
		return err
	}
	run.RunID = cmp.Or(started.GetFirstExecutionRunId(), run.RunID) // Temporal may no longer retain the first run
	var in rolloutworkflow.Input
	// The input of another version may be undecodable; the run is listed without it.
	_ = decode(started.GetInput(), &in)
	run.StartedBy, run.Retry = in.StartedBy, in.Retry
	return nil
}

// startOf reads the first event of a run; nil: its history is empty.
func (s *server) startOf(ctx context.Context, target subject, run *commonpb.WorkflowExecution) (*historypb.WorkflowExecutionStartedEventAttributes, error) {
	answer, err := s.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: s.namespace, Execution: run, MaximumPageSize: 1,
	})
	if err != nil {
		return nil, s.explain("read the history of", target, err)
	}
	events := answer.GetHistory().GetEvents()
	if len(events) == 0 {
		return nil, nil
	}
	return events[0].GetWorkflowExecutionStartedEventAttributes(), nil
}

// decode reads the first of the payloads of a history, if there is one. The connection has decrypted them.
func decode(payloads *commonpb.Payloads, into any) error {
	if len(payloads.GetPayloads()) == 0 {
		return nil
	}
	return temporal.DataConverter().FromPayload(payloads.GetPayloads()[0], into)
}

// terminatedBy describes who terminated a run, and why.
func (s *server) terminatedBy(ctx context.Context, target subject, runID string) string {
	end := s.GetWorkflowHistory(ctx, target.workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	var terminated *historypb.WorkflowExecutionTerminatedEventAttributes
	if end.HasNext() {
		if event, err := end.Next(); err == nil {
			terminated = event.GetWorkflowExecutionTerminatedEventAttributes()
		}
	}
	message := "terminated"
	if by := terminated.GetIdentity(); by != "" {
		message += " by " + by
	}
	if why := terminated.GetReason(); why != "" {
		message += ": " + why
	}
	return message
}

// keptRun returns the run of a rollout that the hub has saved; nil without one.
func (c *cli) keptRun(ctx context.Context, target subject) (*rolloutRun, error) {
	reader, err := c.reader(decisionFlags{})
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(target.name, "/")
	var kept corev1.ConfigMap
	err = reader.Get(ctx, snapshot.SavedKey(types.NamespacedName{Namespace: namespace, Name: name}), &kept)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the run of %s saved on the hub: %w", target, err)
	}
	object, err := snapshot.SavedRollout(&kept, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || object == nil {
		return nil, err
	}
	run := &rolloutRun{KeptBy: "hub", StartedAt: instantOf(object.Status.Status.StartedAt), EndedAt: instantOf(object.Status.Status.CompletedAt)}
	_, run.RunID = kube.OwnerWorkflow(kube.Owner(&kept))
	run.read(object.Status)
	return run, nil
}

func instantOf(at *metav1.Time) *time.Time {
	if at == nil {
		return nil
	}
	return &at.Time
}

// withKept adds the run saved on the hub unless Temporal retains it. It is then older than all others.
func withKept(runs []rolloutRun, kept *rolloutRun, limit int) []rolloutRun {
	known := kept == nil || slices.ContainsFunc(runs, func(run rolloutRun) bool { return run.RunID == kept.RunID })
	if known || limit > 0 && len(runs) >= limit {
		return runs
	}
	return slices.Insert(runs, 0, *kept)
}
