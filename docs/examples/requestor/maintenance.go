package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// States of a maintenance in which its requestor must act.
const (
	ready           = "Ready"
	requestorFailed = "RequestorFailed"
)

// Search attributes of a maintenance.
var (
	drydockCluster   = temporal.NewSearchAttributeKeyKeyword("DrydockCluster")
	drydockNode      = temporal.NewSearchAttributeKeyKeyword("DrydockNode")
	drydockRequestor = temporal.NewSearchAttributeKeyKeyword("DrydockRequestor")
	// drydockPhase is the state of a maintenance, drydockReason the reason of its wait.
	drydockPhase  = temporal.NewSearchAttributeKeyKeyword("DrydockPhase")
	drydockReason = temporal.NewSearchAttributeKeyKeyword("DrydockReason")
)

// maintenance is a maintenance of this requestor.
type maintenance struct {
	requestor
	client.WorkflowRun
	node, name string
	// printed is the state that was printed last.
	printed string
}

// request requests a node, idempotently. It continues a maintenance that is in progress, and leaves one that has completed; after any other result it
// starts another one.
func (r requestor) request(ctx context.Context, node string) (*maintenance, error) {
	m := &maintenance{requestor: r, node: node, name: r.campaign + "-" + node}
	var err error
	m.WorkflowRun, err = r.server.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       fmt.Sprintf("node/%s/default/%s", r.cluster, m.name),
		TaskQueue:                "drydock",
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		StaticSummary:            fmt.Sprintf("node %s in %s for %s", node, r.cluster, r.id),
		TypedSearchAttributes: temporal.NewSearchAttributes(
			drydockCluster.ValueSet(r.cluster), drydockNode.ValueSet(node), drydockRequestor.ValueSet(r.id),
		),
	}, "NodeMaintenance", map[string]any{
		"cluster": r.cluster,
		"object": map[string]any{
			"apiVersion": "maintenance.nvidia.com/v1alpha1",
			"kind":       "NodeMaintenance",
			"metadata":   map[string]any{"namespace": "default", "name": m.name},
			"spec": map[string]any{
				"requestorID": r.id,
				"nodeName":    node,
				"drainSpec":   map[string]any{"timeoutSeconds": 1800},
			},
		},
	})
	return m, err
}

// send sends a signal: done, fail, recover or cancel.
func (m *maintenance) send(ctx context.Context, signal, why string) error {
	m.print(signal)
	return m.server.SignalWorkflow(ctx, m.GetID(), "", signal, map[string]string{"actor": m.id, "reason": why})
}

// await waits until the maintenance is in a wanted state, or closed, and returns its state. It does not poll: every change of state or reason is an
// event in the maintenance's history, and Temporal streams the events. A long wait continues as new, with another history.
func (m *maintenance) await(ctx context.Context, wanted func(state string) bool) (string, error) {
	for continued := true; continued; {
		continued = false
		history := m.server.GetWorkflowHistory(ctx, m.GetID(), "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			if err != nil {
				return "", err
			}
			continued = event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
			// The first events are old: only the current state counts.
			if event.GetEventType() == enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES {
				if state, err := m.state(ctx); err != nil || wanted(state) {
					return state, err
				}
			}
		}
	}
	return m.state(ctx)
}

// state is that of the last run; "" when it is closed. A terminated workflow keeps its search attributes, but its node is no longer ready for the
// requestor.
func (m *maintenance) state(ctx context.Context) (string, error) {
	execution, err := m.server.DescribeWorkflow(ctx, m.GetID(), "")
	if err != nil {
		return "", err
	}
	state, _ := execution.TypedSearchAttributes.GetKeyword(drydockPhase)
	reason, _ := execution.TypedSearchAttributes.GetKeyword(drydockReason)
	if text := strings.TrimSpace(state + " " + reason); text != m.printed {
		m.printed = text
		m.print(text)
	}
	if execution.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	return state, nil
}

// outcome waits for the end, and is nil only if the maintenance completed.
func (m *maintenance) outcome(ctx context.Context) error {
	err := m.Get(ctx, nil)
	var failure *temporal.ApplicationError
	switch {
	case err == nil:
		m.print("returned")
	case errors.As(err, &failure):
		return fmt.Errorf("%s: %s", failure.Type(), failure.Message())
	}
	return err
}

func (m *maintenance) print(what string) {
	fmt.Printf("%s  %s: %s\n", time.Now().Format(time.TimeOnly), m.node, what)
}
