package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
)

// timeout of the whole rollout; 240 minutes unless given.
func (g *groupUpgrade) timeout() time.Duration {
	if g.spec.RemediationStrategy.Timeout == 0 {
		return 240 * time.Minute
	}
	return time.Duration(g.spec.RemediationStrategy.Timeout) * time.Minute
}

// stopwatch measures time that may stand still in between.
type stopwatch struct {
	used  time.Duration
	since *time.Time
}

func (s *stopwatch) start(now time.Time) {
	if s.since == nil {
		s.since = &now
	}
}

func (s *stopwatch) stop(now time.Time) {
	s.used, s.since = s.total(now), nil
}

// giveBack takes time off that shall not count.
func (s *stopwatch) giveBack(d time.Duration) { s.used -= d }

func (s *stopwatch) total(now time.Time) time.Duration {
	if s.since == nil {
		return s.used
	}
	return s.used + now.Sub(*s.since)
}

// arm keeps the batch's deadline as a timer. While the clock of the rollout stands still, there is no deadline.
func (b *batch) arm(ctx workflow.Context) {
	g := b.group
	if g.standsStill() {
		b.disarm()
		g.record.deadlines(ctx, nil, nil)
		return
	}
	if b.timer != nil {
		return
	}
	armed, cancel := workflow.WithCancel(ctx)
	b.timer = cancel
	workflow.GoNamed(armed, "batch deadline", func(ctx workflow.Context) {
		if b.keepTime(ctx) && armed.Err() == nil {
			b.timer = nil
			b.timeOut(ctx)
		}
	})
}

// keepTime returns true when the time of the batch is over. It looks at the clock in between: time in which no worker was there is not
// charged, and shows only by a look that comes late.
func (b *batch) keepTime(ctx workflow.Context) (over bool) {
	g := b.group
	var deadline time.Time
	for {
		now := workflow.Now(ctx)
		left := b.left(now)
		if left <= 0 {
			return true
		}
		if moved := now.Add(left); !moved.Equal(deadline) {
			deadline = moved
			g.record.deadlines(ctx, &deadline, new(now.Add(g.timeout()-g.charged.total(now))))
		}
		pause := min(left, rollout.ClockInterval(b.time.Budget))
		summary := fmt.Sprintf("batch %d of %d times out %s", b.number, len(g.status.RemediationPlan), deadline.UTC().Format("15:04:05Z"))
		if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: summary}).Get(ctx, nil) != nil {
			return false
		}
		looked := workflow.Now(ctx)
		g.charged.giveBack(rollout.Outage(now, now.Add(pause), looked, b.left(looked)))
	}
}

// left is how much of the batch's time is left; negative when it is over.
func (b *batch) left(now time.Time) time.Duration {
	return b.time.Budget - (b.group.charged.total(now) - b.time.ChargedBefore)
}

func (b *batch) disarm() {
	if b.timer != nil {
		b.timer()
		b.timer = nil
	}
}

// timeOut withdraws what is at work; nothing else of the batch starts.
func (b *batch) timeOut(ctx workflow.Context) {
	b.timedOut, b.changed = true, true
	b.group.record.batchTimedOut(ctx, b.number)
	b.withdraw()
}
