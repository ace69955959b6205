package kit

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// progressInterval is the least time between progress messages to a parent, and from the start of a child to its first message.
const progressInterval = 5 * time.Second

// progressSteps is the ratio of the longest interval to the first. Both grow with the number of siblings, so that a parent of many is not busy with
// messages.
const progressSteps = 16

// progressBudget is the number of progress messages that a run may receive from its children before it has to continue as new, which it can do only
// when no child is running.
const progressBudget = 4000

// ProgressLimit is the longest interval between the messages of one child, so that all siblings together stay within the budget while they run. No change
// is reported later than that.
func ProgressLimit(siblings int, atWork time.Duration) time.Duration {
	return max(progressInterval, time.Duration(siblings)*atWork/progressBudget)
}

// Progress reports changes to a parent workflow. Changes are coalesced, and the interval between messages grows by a quarter with each one, up to the
// limit. Siblings that start together report at different times. The result of a child reports its end, at once.
type Progress struct {
	Changed bool
	// Urgent asks for a report at once; hurried counts how often that happened.
	Urgent  bool
	hurried int
}

// hurriedAtMost limits the urgent reports of one child, so that those of all siblings stay within the budget.
const hurriedAtMost = 10

// Hurry reports a change to the parent at once.
func (p *Progress) Hurry() {
	if p.hurried < hurriedAtMost {
		p.Changed, p.Urgent = true, true
		p.hurried++
	}
}

// TurnedUrgent reports whether a wait has changed to a reason that needs a person.
func TurnedUrgent(before, now *drydockv1.Wait) bool {
	return now != nil && now.Reason == locks.ReasonWorkloadLocksFailed && (before == nil || before.Reason != now.Reason)
}

// Report sends what current returns to the parent whenever it has changed, until ctx is cancelled. It runs in a coroutine of its own.
func (p *Progress) Report(ctx workflow.Context, parent, signal string, limit time.Duration, current func() any) {
	interval := max(limit/progressSteps, progressInterval)
	pause := progressInterval + time.Duration(turnAmongSiblings(ctx)*float64(interval-progressInterval))
	for {
		gathering, stop := workflow.WithCancel(ctx)
		timer := workflow.NewTimerWithOptions(gathering, pause, workflow.TimerOptions{Summary: "gather changes for the parent"})
		if workflow.Await(ctx, func() bool { return p.Urgent || timer.IsReady() }) != nil {
			return
		}
		stop()
		if workflow.Await(ctx, func() bool { return p.Changed }) != nil {
			return
		}
		p.Changed, p.Urgent = false, false
		// The error means that the parent has ended and needs no report.
		_ = workflow.SignalExternalWorkflow(ctx, parent, "", signal, current()).Get(ctx, nil)
		pause = interval
		interval = min(interval+interval/4, max(limit, progressInterval))
	}
}

// turnAmongSiblings spreads workflows evenly between 0 and 1 by their ids. Fifty siblings that report at the same moment keep the server busy for a
// second.
func turnAmongSiblings(ctx workflow.Context) float64 {
	sum := sha256.Sum256([]byte(workflow.GetInfo(ctx).WorkflowExecution.ID))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}
