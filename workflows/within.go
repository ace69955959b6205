package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// within runs body with a context that is cancelled once it has returned. To defer the cancellation would give its commands also when the run is
// evicted from the worker's cache, which unwinds it wherever it stands.
func within[T any](ctx workflow.Context, body func(workflow.Context) T) T {
	ctx, stop := workflow.WithCancel(ctx)
	result := body(ctx)
	stop()
	return result
}

// awaitFor waits until condition holds, but for no longer than that. The error is that ctx was cancelled: its timer, which is then over at once, would else
// be taken for one that has fired.
func awaitFor(ctx workflow.Context, most time.Duration, summary string, condition func() bool) error {
	err := within(ctx, func(ctx workflow.Context) error {
		timer := workflow.NewTimerWithOptions(ctx, most, workflow.TimerOptions{Summary: summary})
		return workflow.Await(ctx, func() bool { return condition() || timer.IsReady() })
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}
