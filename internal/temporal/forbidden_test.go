package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// needsARight runs an activity whose retry policy would pause for an hour.
func needsARight(ctx workflow.Context) (int32, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, RetryPolicy: &sdktemporal.RetryPolicy{InitialInterval: time.Hour},
	})
	var attempts int32
	err := workflow.ExecuteActivity(ctx, "needRight").Get(ctx, &attempts)
	return attempts, err
}

// retriesSoonWithoutARight: only the interceptor makes the third attempt start within this test.
func retriesSoonWithoutARight(t *testing.T, c client.Client) {
	w := worker.New(c, "forbidden", worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporal.Forbidden{}}})
	w.RegisterWorkflow(needsARight)
	w.RegisterActivityWithOptions(func(ctx context.Context) (int32, error) {
		attempt := activity.GetInfo(ctx).Attempt
		if attempt < 3 {
			return 0, temporal.Error(temporal.ErrForbidden, "the worker's user may not patch nodes", nil)
		}
		return attempt, nil
	}, activity.RegisterOptions{Name: "needRight"})
	require.NoError(t, w.Start())
	defer w.Stop()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "forbidden"}, needsARight)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var attempts int32
	require.NoError(t, run.Get(ctx, &attempts))
	require.Equal(t, int32(3), attempts)
}
