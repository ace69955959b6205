package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// logLines is a logger that records messages with some of their keys.
type logLines []string

func (l *logLines) record(message string, keyvals ...any) {
	line := message
	for i := 0; i+1 < len(keyvals); i += 2 {
		if key := keyvals[i].(string); key == "cluster" || key == "phase" || key == "state" || key == "batch" {
			line += fmt.Sprintf(" %s=%v", key, keyvals[i+1])
		}
	}
	*l = append(*l, line)
}

func (l *logLines) Debug(message string, keyvals ...any) { l.record(message, keyvals...) }
func (l *logLines) Info(message string, keyvals ...any)  { l.record(message, keyvals...) }
func (l *logLines) Warn(message string, keyvals ...any)  { l.record(message, keyvals...) }
func (l *logLines) Error(message string, keyvals ...any) { l.record(message, keyvals...) }

func TestARolloutCanBeFollowedFromTheLog(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	var lines logLines
	w.RegisterAs("logged", func(ctx workflow.Context, in rollout.Input) (workflowtest.GroupStatus, error) {
		return rollout.RunWithLogger(ctx, in, &lines)
	})
	workflowtest.SignalWhen(w, func(status workflowtest.GroupStatus) bool { return status.Status.CurrentBatch == 2 }, temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	w.ExecuteWorkflow("logged", rollout.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, logLines{
		"Rollout enters a phase phase=plan",
		"Rollout enters a phase phase=blocked",
		"Rollout enters a phase phase=backup",
		"Rollout enters a phase phase=beforeEnable",
		"Rollout enters a phase phase=start",
		"Rollout enters a phase phase=batches",
		"Batch is in progress batch=1",
		"Cluster started cluster=c1 batch=1",
		"Cluster ended cluster=c1 batch=1 state=complete",
		"Batch is in progress batch=2",
		"Cluster started cluster=c2 batch=2",
		"Rollout is being cancelled",
		"Cluster ended cluster=c2 batch=2 state=cancelled",
		"Rollout cleans up",
		"Rollout ended",
	}, lines)
}
