package workflows

import "go.temporal.io/sdk/workflow"

// within runs body with a context that is cancelled once it has returned. To defer the cancellation would give its commands also when the run is
// evicted from the worker's cache, which unwinds it wherever it stands.
func within[T any](ctx workflow.Context, body func(workflow.Context) T) T {
	ctx, stop := workflow.WithCancel(ctx)
	result := body(ctx)
	stop()
	return result
}
