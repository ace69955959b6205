package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Within runs body with a context that is cancelled when body returns. A deferred cancellation would also run when the run is evicted from the worker's
// cache, and issue commands there.
func Within[T any](ctx workflow.Context, body func(workflow.Context) T) T {
	ctx, stop := workflow.WithCancel(ctx)
	result := body(ctx)
	stop()
	return result
}

// AwaitFor waits until condition holds, at most that long. It returns an error only when ctx is cancelled.
func AwaitFor(ctx workflow.Context, most time.Duration, summary string, condition func() bool) error {
	err := Within(ctx, func(ctx workflow.Context) error {
		timer := workflow.NewTimerWithOptions(ctx, most, workflow.TimerOptions{Summary: summary})
		return workflow.Await(ctx, func() bool { return condition() || timer.IsReady() })
	})
	if err == nil {
		err = ctx.Err() // a cancelled timer is ready too
	}
	return err
}
