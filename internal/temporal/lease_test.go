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

// twoAttempts runs an activity with those limits. On a slow machine, the second attempt may also be too late.
func twoAttempts(ctx workflow.Context, startToClose, heartbeat time.Duration) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: startToClose, HeartbeatTimeout: heartbeat,
		RetryPolicy: &sdktemporal.RetryPolicy{MaximumAttempts: 10},
	})
	return workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
}

func leases(t *testing.T, c client.Client) {
	const long = time.Hour
	for _, test := range []struct {
		name                    string
		startToClose, heartbeat time.Duration
		heartbeats              bool
		ends                    bool
	}{
		{name: "of an attempt within its timeout holds", startToClose: long},
		{name: "of an attempt past its timeout ends", startToClose: 2 * time.Second, ends: true},
		{name: "of an attempt without heartbeats ends before the server's timeout", startToClose: long, heartbeat: 4 * time.Second, ends: true},
		{name: "of an attempt that sends heartbeats holds", startToClose: long, heartbeat: 4 * time.Second, heartbeats: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			over := make(chan error, 1)
			work := func(ctx context.Context) error {
				if activity.GetInfo(ctx).Attempt > 1 {
					return nil
				}
				over <- watchLease(ctx, test.heartbeats)
				return ctx.Err()
			}
			w := worker.New(c, t.Name(), worker.Options{
				Interceptors: []interceptor.WorkerInterceptor{&temporal.Lease{}}, MaxHeartbeatThrottleInterval: 500 * time.Millisecond, // as in a real worker
			})
			w.RegisterWorkflow(twoAttempts)
			w.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
			require.NoError(t, w.Start())
			defer w.Stop()
			run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, twoAttempts, test.startToClose, test.heartbeat)
			require.NoError(t, err)
			ended := <-over
			require.Equal(t, test.ends, ended != nil, "%v", ended)
			require.NoError(t, run.Get(t.Context(), nil), "another attempt continues")
		})
	}
	require.NoError(t, temporal.LeaseOver(t.Context()), "outside of activities there is no lease")
}

// watchLease checks the lease for longer than three quarters of the heartbeat timeout of these tests, and returns why it is over.
func watchLease(ctx context.Context, heartbeats bool) error {
	end := time.After(3500 * time.Millisecond)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-end:
			return temporal.LeaseOver(ctx)
		case <-ticker.C:
			if heartbeats {
				activity.RecordHeartbeat(ctx)
			}
			if err := temporal.LeaseOver(ctx); err != nil {
				<-ctx.Done()
				return err
			}
		}
	}
}
