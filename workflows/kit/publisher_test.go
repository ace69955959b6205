package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// The object may be released, and another one created with its name, while its status is written.
func TestAPublisherThatIsClosedDuringAWriteWritesNothingMore(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	var writes []objects.PublishStatusInput
	env.RegisterActivityWithOptions(func(ctx context.Context, in objects.PublishStatusInput) (objects.PublishStatusResult, error) {
		writes = append(writes, in)
		token := activity.GetInfo(ctx).TaskToken
		env.RegisterDelayedCallback(func() {
			require.NoError(t, env.CompleteActivity(token, objects.PublishStatusResult{}, nil))
		}, 3*time.Second)
		return objects.PublishStatusResult{}, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "PublishStatus"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		p := kit.Publisher{Object: &temporal.Object{Cluster: "c1"}, Current: func() any { return "Ready" }, Retrier: kit.HubRetrier(nil)}
		p.Open()
		p.ChangeNow()
		workflow.Go(ctx, p.Run)
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		p.Close()
		if err := workflow.Sleep(ctx, 10*time.Second); err != nil {
			return err
		}
		p.Finish(ctx)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, writes, 1)
}

// A timer that is started and cancelled is two events.
func TestAStatusThatIsOverAtOnceStartsNoTimer(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	var writes []any
	env.RegisterActivityWithOptions(func(_ context.Context, in objects.PublishStatusInput) (objects.PublishStatusResult, error) {
		writes = append(writes, in.Status)
		return objects.PublishStatusResult{}, nil
	}, activity.RegisterOptions{Name: "PublishStatus"})
	var timers []time.Duration
	env.SetOnTimerScheduledListener(func(_ string, after time.Duration) { timers = append(timers, after) })
	const passes = 10 * time.Second
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		status, released, next := "Ready", false, false
		p := kit.Publisher{
			Object: &temporal.Object{Cluster: "c1"}, Current: func() any { return status }, Lasts: func() bool { return status != "Uncordon" }, Retrier: kit.HubRetrier(nil),
		}
		p.Open()
		p.ChangeNow()
		workflow.Go(ctx, p.Run)
		workflow.Go(ctx, func(ctx workflow.Context) { // the work takes more than one step to continue
			_ = workflow.Await(ctx, func() bool { return released })
			next = true
		})
		workflow.Go(ctx, func(ctx workflow.Context) {
			_ = workflow.Sleep(ctx, 100*time.Millisecond)
			released = true
			p.Change()
		})
		if err := workflow.Await(ctx, func() bool { return next }); err != nil {
			return err
		}
		status = "Uncordon"
		p.Change()
		if err := workflow.Sleep(ctx, passes); err != nil {
			return err
		}
		status = "Completed"
		p.Change()
		return workflow.Sleep(ctx, passes)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []any{"Ready", "Completed"}, writes)
	require.Equal(t, []time.Duration{100 * time.Millisecond, passes, passes}, timers)
}
