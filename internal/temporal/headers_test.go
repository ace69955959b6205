package temporal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// Its lease counts from there: the worker may have been frozen since.
func TestALocalActivityKnowsTheTimeOfItsWorkflow(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetContextPropagators([]workflow.ContextPropagator{AttemptHeaders(DataConverter())})
	hourAgo := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	env.SetStartTime(hourAgo)
	var local, other time.Time
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		if activity.GetInfo(ctx).IsLocalActivity {
			local = started(ctx)
		} else {
			other = started(ctx)
		}
		return nil
	}, activity.RegisterOptions{Name: "Short"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		options := workflow.LocalActivityOptions{StartToCloseTimeout: time.Second}
		if err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(Local(ctx), options), "Short").Get(ctx, nil); err != nil {
			return err
		}
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second}), "Short").Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
	require.WithinDuration(t, hourAgo, local, time.Minute)
	require.False(t, other.IsZero())
}
