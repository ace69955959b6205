package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/singleflight"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// run is the last run of a workflow.
type run struct {
	workflowID      string
	exists, running bool
	// object started the workflow, or was adopted by it; nil: it has none.
	object *temporal.Object
	// firstRunID stays the same while the workflow continues as new.
	firstRunID string
	// phase is the search attribute of that name.
	phase string
}

// runOf returns the last run of a workflow. Temporal forgets closed runs after the retention of its namespace.
func runOf(ctx context.Context, c client.Client, workflowID string) (run, error) {
	described, err := c.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return run{}, nil
	}
	if err != nil {
		return run{}, fmt.Errorf("describe workflow %s: %w", workflowID, err)
	}
	return runFrom(described.GetWorkflowExecutionInfo())
}

// startedByObjects finds the clusters in which workflows run that objects started: with one query of a kind for all clusters that ask at the same time, as when a
// worker starts.
type startedByObjects struct {
	// ctx is that of the queries: the cluster that asks first may go away.
	ctx      context.Context
	temporal client.Client
	queries  singleflight.Group

	mu sync.Mutex
	// answers are the last ones, by kind.
	answers map[string]startedAnswer
}

// startedAnswer are the clusters of a kind, read at that time.
type startedAnswer struct {
	clusters map[string]bool
	at       time.Time
}

// startedHolds is how long an answer is used again. A workflow that has just started still has its object.
const startedHolds = 5 * time.Second

func newStartedByObjects(ctx context.Context, server client.Client) *startedByObjects {
	return &startedByObjects{ctx: ctx, temporal: server, answers: map[string]startedAnswer{}}
}

// clusters returns the clusters of a kind. All that wait for the same query get its answer, or its error, at the same time.
func (s *startedByObjects) clusters(ctx context.Context, workflowType, kind string) (map[string]bool, error) {
	s.mu.Lock()
	last := s.answers[kind]
	s.mu.Unlock()
	if time.Since(last.at) < startedHolds {
		return last.clusters, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case queried := <-s.queries.DoChan(kind, func() (any, error) { return s.query(workflowType, kind) }):
		if queried.Err != nil {
			return nil, queried.Err
		}
		return queried.Val.(map[string]bool), nil
	}
}

func (s *startedByObjects) query(workflowType, kind string) (map[string]bool, error) {
	running, err := objectRuns(s.ctx, s.temporal, observe.WorkflowsOf(workflowType, true), kind)
	if err != nil {
		return nil, err
	}
	clusters := map[string]bool{}
	for _, run := range running {
		clusters[run.object.Cluster] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[kind] = startedAnswer{clusters, time.Now()}
	return clusters, nil
}

// runningRuns returns the running workflows that a query finds and that objects of a kind in a cluster started.
func runningRuns(ctx context.Context, c client.Client, query, cluster, kind string) ([]run, error) {
	all, err := objectRuns(ctx, c, query, kind)
	return slices.DeleteFunc(all, func(r run) bool { return r.object.Cluster != cluster }), err
}

// objectRuns returns the running workflows that a query finds and that objects of a kind started.
func objectRuns(ctx context.Context, c client.Client, query, kind string) ([]run, error) {
	executions, err := observe.Executions(ctx, c, query, 0)
	if err != nil {
		return nil, fmt.Errorf("list the running workflows of kind %s: %w", kind, err)
	}
	var found []run
	for _, execution := range executions {
		running, err := runFrom(execution)
		if err != nil {
			return nil, err
		}
		if running.object != nil && running.object.Kind == kind {
			found = append(found, running)
		}
	}
	return found, nil
}

// runFrom reads a run.
func runFrom(info *workflowpb.WorkflowExecutionInfo) (run, error) {
	found := run{
		workflowID: info.GetExecution().GetWorkflowId(), exists: true, firstRunID: info.GetFirstRunId(),
		running: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	var err error
	if found.object, err = temporal.ObjectOf(info); err != nil {
		return run{}, err
	}
	if payload, ok := info.GetSearchAttributes().GetIndexedFields()[temporal.AttributePhase.GetName()]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &found.phase); err != nil {
			return run{}, fmt.Errorf("read the phase of workflow %s: %w", info.GetExecution().GetWorkflowId(), err)
		}
	}
	return found, nil
}

// isFor reports whether the object started the run.
func (r run) isFor(o temporal.Object) bool { return r.object != nil && r.object.UID == o.UID }
