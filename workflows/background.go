package workflows

import "go.temporal.io/sdk/workflow"

// background is work that a run does besides its main loop. It ends before the run does.
type background struct {
	// rest ends the work; working is how much of it has not ended.
	rest    func()
	working int
}

// work does a part of the work, until it is done or the run is over.
func (b *background) work(ctx workflow.Context, name string, part func(workflow.Context)) {
	b.working++
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		part(ctx)
		b.working--
	})
}
