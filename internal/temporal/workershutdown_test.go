package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// attempt records an attempt of the activity.
type attempt struct {
	number int32
	cause  error
}

// longWait runs an activity that waits until it is cancelled, unless it is a second attempt.
func longWait(ctx workflow.Context) (int32, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour,
		HeartbeatTimeout:    time.Hour, // longer than this test, so that only the shutdown starts the second attempt
		RetryPolicy:         &sdktemporal.RetryPolicy{InitialInterval: time.Hour},
	})
	var attempts int32
	err := workflow.ExecuteActivity(ctx, "await").Get(ctx, &attempts)
	return attempts, err
}

func continuesElsewhere(t *testing.T, c client.Client) {
	started, ended := make(chan struct{}, 1), make(chan attempt, 1)
	await := func(ctx context.Context) (int32, error) {
		number := activity.GetInfo(ctx).Attempt
		if number > 1 {
			return number, nil
		}
		started <- struct{}{}
		<-ctx.Done()
		ended <- attempt{number, context.Cause(ctx)}
		return 0, ctx.Err()
	}
	startWorker := func() worker.Worker {
		w := worker.New(c, "shutdown", worker.Options{
			Interceptors:      []interceptor.WorkerInterceptor{&temporal.WorkerShutdown{}},
			WorkerStopTimeout: time.Minute,
		})
		w.RegisterWorkflow(longWait)
		w.RegisterActivityWithOptions(await, activity.RegisterOptions{Name: "await"})
		require.NoError(t, w.Start())
		return w
	}
	first := startWorker()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "shutdown"}, longWait)
	require.NoError(t, err)
	<-started
	first.Stop()
	require.ErrorIs(t, (<-ended).cause, worker.ErrWorkerShutdown)

	second := startWorker()
	defer second.Stop()
	var attempts int32
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, run.Get(ctx, &attempts))
	require.Equal(t, int32(2), attempts)
}

func measures(t *testing.T, registry *prometheus.Registry) {
	families, err := registry.Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	require.Contains(t, names, "temporal_request_total")
	require.Contains(t, names, "temporal_request_latency_seconds")
}
