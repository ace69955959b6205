package workflows

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// progressInterval is the least time between progress messages to a parent, and from the start of a child to the first: that it has
// started, the parent knows.
const progressInterval = 5 * time.Second

// progressSteps is how many times as long as the first interval the longest is: the more siblings there are, the longer are both, so that a
// parent of many is not kept busy by listening.
const progressSteps = 16

// progressBudget is how many progress messages a run may get from its children before it has to continue as new, which it can do only when
// no child is at work.
const progressBudget = 4000

// progressLimit is the longest that the interval between the messages of one child grows to, so that all siblings together stay within the
// budget for as long as they may be at work. A change is never told later than that.
func progressLimit(siblings int, atWork time.Duration) time.Duration {
	return max(progressInterval, time.Duration(siblings)*atWork/progressBudget)
}

// progress tells a parent workflow what has changed. Changes are coalesced, and the interval between messages grows by a quarter with
// each, up to the limit. Siblings that start together tell it one after the other. The end of a child is told by its result, at once.
type progress struct {
	changed bool
	// urgent: it is told at once. hurried counts how often that was so.
	urgent  bool
	hurried int
}

// hurriedAtMost is how many changes of one child are told at once, so that those of all siblings stay within the budget.
const hurriedAtMost = 10

// hurry has the parent told of a change at once.
func (p *progress) hurry() {
	if p.hurried < hurriedAtMost {
		p.changed, p.urgent = true, true
		p.hurried++
	}
}

// turnedUrgent reports whether a wait has turned to a reason that a person has to see to.
func turnedUrgent(before, now *drydockv1.Wait) bool {
	return now != nil && now.Reason == activities.ReasonWorkloadLocksFailed && (before == nil || before.Reason != now.Reason)
}

// report sends what current returns to the parent whenever it has changed, until ctx is cancelled. It runs in a coroutine of its own.
func (p *progress) report(ctx workflow.Context, parent, signal string, limit time.Duration, current func() any) {
	interval := max(limit/progressSteps, progressInterval)
	pause := progressInterval + time.Duration(turnAmongSiblings(ctx)*float64(interval-progressInterval))
	for {
		gathering, stop := workflow.WithCancel(ctx)
		timer := workflow.NewTimerWithOptions(gathering, pause, workflow.TimerOptions{Summary: "gather changes for the parent"})
		if workflow.Await(ctx, func() bool { return p.urgent || timer.IsReady() }) != nil {
			return
		}
		stop()
		if workflow.Await(ctx, func() bool { return p.changed }) != nil {
			return
		}
		p.changed, p.urgent = false, false
		// A parent that has ended needs no news: nothing to do about an error.
		_ = workflow.SignalExternalWorkflow(ctx, parent, "", signal, current()).Get(ctx, nil)
		pause = interval
		interval = min(interval+interval/4, max(limit, progressInterval))
	}
}

// turnAmongSiblings spreads workflows evenly between 0 and 1 by their ids. Fifty that started in one moment and all had something to say in another
// would keep the server from everything else for a second.
func turnAmongSiblings(ctx workflow.Context) float64 {
	sum := sha256.Sum256([]byte(workflow.GetInfo(ctx).WorkflowExecution.ID))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}
