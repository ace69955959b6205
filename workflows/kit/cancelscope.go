package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Within runs body with a context that it cancels afterwards. A deferred cancellation would also issue commands when the worker evicts the run from its
// cache.
func Within[T any](ctx workflow.Context, body func(workflow.Context) T) T {
	ctx, stop := workflow.WithCancel(ctx)
	result := body(ctx)
	stop()
	return result
}

// AwaitFor waits until condition holds, at most for the limit. It returns an error only when ctx is cancelled.
func AwaitFor(ctx workflow.Context, limit time.Duration, summary string, condition func() bool) error {
	err := Within(ctx, func(ctx workflow.Context) error {
		timer := workflow.NewTimerWithOptions(ctx, limit, workflow.TimerOptions{Summary: summary})
		return workflow.Await(ctx, func() bool { return condition() || timer.IsReady() })
	})
	if err == nil {
		err = ctx.Err() // a cancelled timer is ready too
	}
	return err
}
