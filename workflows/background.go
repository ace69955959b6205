package workflows

import "go.temporal.io/sdk/workflow"

// background is work beside the main loop of a run. It ends before the run does.
type background struct {
	// rest cancels the work; working counts the parts that have not ended.
	rest    func()
	working int
}

// work starts a part of the work in a coroutine of that name.
func (b *background) work(ctx workflow.Context, name string, part func(workflow.Context)) {
	b.working++
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		part(ctx)
		b.working--
	})
}
