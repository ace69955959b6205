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

// startedByObjects finds the clusters in which workflows run that objects started: with one query for all clusters that ask at the same time, as when a worker starts.
type startedByObjects struct {
	temporal client.Client

	mu sync.Mutex
	// found are the clusters by kind, and at is when each was read.
	found map[string]map[string]bool
	at    map[string]time.Time
}

// startedHolds is how long an answer is used again. A workflow that has just started still has its object.
const startedHolds = 5 * time.Second

func newStartedByObjects(server client.Client) *startedByObjects {
	return &startedByObjects{temporal: server, found: map[string]map[string]bool{}, at: map[string]time.Time{}}
}

func (s *startedByObjects) clusters(ctx context.Context, workflowType, kind string) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at[kind]) < startedHolds {
		return s.found[kind], nil
	}
	running, err := objectRuns(ctx, s.temporal, observe.WorkflowsOf(workflowType, true), kind)
	if err != nil {
		return nil, err
	}
	clusters := map[string]bool{}
	for _, run := range running {
		clusters[run.object.Cluster] = true
	}
	s.found[kind], s.at[kind] = clusters, time.Now()
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
