package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

const (
	// progressInterval is the least time between the first two progress messages to a parent.
	progressInterval = time.Second
	// progressIntervalLimit is the longest the interval grows to.
	progressIntervalLimit = 5 * time.Minute
)

// progress tells a parent workflow what has changed. Changes are coalesced, and the interval between messages grows by a quarter with
// each, so that a parent of many children stays far below the signals that one run can take. The end of a child is told by its result,
// at once.
type progress struct {
	changed bool
}

// report sends what current returns to the parent whenever it has changed, until ctx is cancelled. It runs in a coroutine of its own.
func (p *progress) report(ctx workflow.Context, parent, signal string, current func() any) {
	interval := progressInterval
	for {
		if workflow.Await(ctx, func() bool { return p.changed }) != nil {
			return
		}
		p.changed = false
		// A parent that has ended needs no news: nothing to do about an error.
		_ = workflow.SignalExternalWorkflow(ctx, parent, "", signal, current()).Get(ctx, nil)
		pause := workflow.NewTimerWithOptions(ctx, interval, workflow.TimerOptions{Summary: "gather further changes for the parent"})
		if pause.Get(ctx, nil) != nil {
			return
		}
		interval = min(interval+interval/4, progressIntervalLimit)
	}
}
