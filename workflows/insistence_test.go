package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/temporal"
)

func TestAClusterThatDoesNotAnswerForLongLeavesRoomInTheHistoryAndIsHeardAtOnce(t *testing.T) {
	w := newWorld(t)
	answers := w.Now().Add(24 * time.Hour)
	w.fail["PlanMaintenance"] = func(int) error {
		if w.Now().Before(answers) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	rounds := 0
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) { rounds++ }}
		var nodes *activities.Nodes
		return insist.effect(ctx, "mark a node as planned", nodes.PlanMaintenance, activities.PlanMaintenanceInput{}, nil)
	}, "")
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.Less(t, rounds, 200, "a day has 8640 times 10 s")
	require.WithinDuration(t, answers, w.Now(), 2*laterRetry)
}
