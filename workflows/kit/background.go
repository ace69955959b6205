package kit

import "go.temporal.io/sdk/workflow"

// Background is work in coroutines beside the main loop. It must end before the run.
type Background struct {
	// Stop cancels the work. Running counts the coroutines that have not ended.
	Stop    func()
	Running int
}

// Go starts a part of the work in a named coroutine.
func (b *Background) Go(ctx workflow.Context, name string, part func(workflow.Context)) {
	b.Running++
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		part(ctx)
		b.Running--
	})
}
