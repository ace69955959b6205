package kit

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// progressInterval is the minimum time between progress messages to a parent, and from the start of a child to its first message. Children with few
// siblings report sooner, after quickInterval: people watch them.
const (
	progressInterval = 5 * time.Second
	quickInterval    = time.Second
)

// progressSteps is the ratio of the longest interval to the first. Both grow with the number of siblings, so that many children do not overload their
// parent with messages.
const progressSteps = 16

// progressBudget limits the progress messages that a run receives from its children. Beyond it, the run would have to continue as new, which it can do
// only when no child is running.
const progressBudget = 4000

// ProgressLimit returns the longest interval between the messages of one child. With it, all siblings stay within the budget of messages for that
// runtime. The parent receives every change within this interval.
func ProgressLimit(siblings int, runtime time.Duration) time.Duration {
	return max(quickInterval, time.Duration(siblings)*runtime/progressBudget)
}

// Progress reports changes to a parent workflow. It coalesces changes. The interval grows by a quarter with each message, up to the limit. Siblings that
// start together report at different times. The end of a child needs no report: the parent receives its result.
type Progress struct {
	Changed bool
	// Urgent requests a report without delay. urgentReports counts these requests.
	Urgent        bool
	urgentReports int
}

// maxUrgentReports limits the urgent reports of one child, so that all siblings stay within the budget.
const maxUrgentReports = 10

// ReportNow reports a change to the parent without delay, at most maxUrgentReports times.
func (p *Progress) ReportNow() {
	if p.urgentReports < maxUrgentReports {
		p.Changed, p.Urgent = true, true
		p.urgentReports++
	}
}

// BecameUrgent reports whether a wait has changed to a reason that needs a person.
func BecameUrgent(before, now *drydockv1.Wait) bool {
	return now != nil && now.Reason == locks.ReasonWorkloadLocksFailed && (before == nil || before.Reason != now.Reason)
}

// Report sends the current state to the parent after changes, until ctx is cancelled. Run it in its own coroutine.
func (p *Progress) Report(ctx workflow.Context, parent, signal string, limit time.Duration, current func() any) {
	first := progressInterval
	if limit < progressInterval {
		first = quickInterval
	}
	interval := max(limit/progressSteps, first)
	pause := first + time.Duration(spread(ctx)*float64(interval-first))
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
		interval = min(interval+interval/4, max(limit, first))
	}
}

// spread returns a number from 0 to 1 that depends on the id of the workflow. It spreads the reports of siblings: fifty at the same moment keep the
// server busy for a second.
func spread(ctx workflow.Context) float64 {
	sum := sha256.Sum256([]byte(workflow.GetInfo(ctx).WorkflowExecution.ID))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}
