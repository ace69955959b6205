package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/windows"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/locks"
)

// cutOff is a Temporal client with one workflow that was terminated or timed out. A worker still answers queries with its last status.
type cutOff struct {
	client.Client
	status enumspb.WorkflowExecutionStatus
	last   any
}

func (c cutOff) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	return &client.WorkflowExecutionDescription{WorkflowExecutionMetadata: client.WorkflowExecutionMetadata{
		WorkflowExecution: workflow.Execution{RunID: "run"}, Status: c.status,
	}}, nil
}

func (c cutOff) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(c.last)
	return client.NewValue(payloads), err
}

func (c cutOff) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &closeEvent{{Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
		WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Identity: "ann", Reason: "wrong one"},
	}}}
}

// closeEvent is the last event of a history.
type closeEvent []*historypb.HistoryEvent

func (e *closeEvent) HasNext() bool { return len(*e) > 0 }

func (e *closeEvent) Next() (*historypb.HistoryEvent, error) {
	next := (*e)[0]
	*e = (*e)[1:]
	return next, nil
}

// shows is a command that prints a report.
func shows(get func(*cli, context.Context, *server, subject) (report, error)) func(*cli, context.Context, *server, subject) error {
	return func(c *cli, ctx context.Context, s *server, target subject) error {
		return c.showStatus(func(ctx context.Context, s *server, target subject) (report, error) { return get(c, ctx, s, target) })(ctx, s, target)
	}
}

func TestATerminatedWorkflowIsNotShownAsRunning(t *testing.T) {
	node, rollout := nodeMaintenance("c1", "default", "n1"), rolloutSubject("prod", "june")
	harbor := harborCluster("c1", "default", "main")
	ready := maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeReady}
	healthy := harborworkflow.Status{State: harborworkflow.Managed, Harbor: goharborv1.HarborClusterStatus{Status: goharborv1.StatusHealthy}}
	tests := []struct {
		name string
		of   subject
		last any
		verb func(*cli, context.Context, *server, subject) error
	}{
		{"a rollout", rollout, longRollout(3), shows((*cli).rolloutReport)},
		{"a watched rollout", rollout, longRollout(3), (*cli).watchRollout},
		{"a maintenance", node, ready, shows((*cli).maintenanceReport)},
		{"a maintenance with an awaited state", node, ready, func(c *cli, ctx context.Context, s *server, of subject) error {
			return c.awaitState(ctx, s, of, maintenancev1.NodeReady)
		}},
		{"a Harbor", harbor, healthy, (*cli).showHarbor},
		{"a Harbor with an awaited state", harbor, healthy, func(c *cli, ctx context.Context, s *server, of subject) error {
			return c.awaitHarbor(ctx, s, of, 0)
		}},
		{"a window", windowSubject("prod", "night"), windows.Status{Phase: windows.PhaseOpen}, shows((*cli).windowReport)},
		{"a lock controller", lockController("c1", "ceph"), locks.Status{}, shows((*cli).lockControllerReport)},
		{"a portal", portalSubject("main"), portal.View{}, shows((*cli).portalReport)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for status, how := range map[enumspb.WorkflowExecutionStatus]string{
				enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: "was terminated by ann: wrong one", enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: "has timed out",
			} {
				var out, errOut bytes.Buffer
				c := &cli{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, output: formatTable}
				err := tt.verb(c, t.Context(), &server{Client: cutOff{status: status, last: tt.last}}, tt.of)
				require.EqualError(t, err, tt.of.String()+" has stopped: its workflow "+how)
				require.Empty(t, out.String())
				require.Empty(t, errOut.String())
				require.Equal(t, status.String(), workflowRow{Row: observe.Row{Execution: status.String(), Phase: "Ready"}}.phase())
			}
		})
	}
}
