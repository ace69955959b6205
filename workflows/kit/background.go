package kit

import "go.temporal.io/sdk/workflow"

// Background is work beside the main loop of a run. It ends before the run does.
type Background struct {
	// Stop cancels the work; working counts the parts that have not ended.
	Stop    func()
	Running int
}

// Go starts a part of the work in a coroutine of that name.
func (b *Background) Go(ctx workflow.Context, name string, part func(workflow.Context)) {
	b.Running++
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		part(ctx)
		b.Running--
	})
}
