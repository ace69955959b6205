package rollout

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
)

// timeout of the whole rollout.
func (g *groupUpgrade) timeout() time.Duration { return rollout.Timeout(&g.spec) }

// stopwatch measures time, and can be stopped and started again.
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
	s.used, s.since = s.elapsed(now), nil
}

// subtract subtracts time that does not count.
func (s *stopwatch) subtract(d time.Duration) { s.used -= d }

func (s *stopwatch) elapsed(now time.Time) time.Duration {
	if s.since == nil {
		return s.used
	}
	return s.used + now.Sub(*s.since)
}

// startTimer keeps a timer for the deadlines of the batch and of its clusters, or, while clusters only soak, of the rollout. While the clock is
// stopped there is none.
func (b *batch) startTimer(ctx workflow.Context) {
	g := b.group
	if g.clockPaused() || len(b.running) == 0 && len(b.pending) == 0 {
		b.stopTimer()
		g.record.setDeadlines(ctx, nil, nil)
		return
	}
	soaks := b.onlySoaks()
	if now := workflow.Now(ctx); b.timer != nil && (soaks != b.rolloutTimer || now.Add(b.untilNextTimeout(now)).Before(b.wake)) {
		b.stopTimer()
	}
	if b.timer != nil {
		return
	}
	b.rolloutTimer = soaks
	armed, cancel := workflow.WithCancel(ctx)
	b.timer = cancel
	workflow.GoNamed(armed, "batch deadline", func(ctx workflow.Context) {
		if b.awaitTimeout(ctx) && armed.Err() == nil {
			b.timer = nil
			b.timeOut(ctx)
		}
	})
}

// awaitTimeout returns true when the batch has timed out. It withdraws clusters that have timed out. It also wakes in between:
// a timer that fires late shows that no worker was running, and that time is not charged.
func (b *batch) awaitTimeout(ctx workflow.Context) (over bool) {
	g := b.group
	var deadline time.Time
	for {
		now := workflow.Now(ctx)
		left := b.timeLeft(now)
		if left <= 0 {
			return true
		}
		b.timeOutClusters(ctx)
		timed := fmt.Sprintf("batch %d of %d", b.first, len(g.status.RemediationPlan))
		if b.rolloutTimer {
			timed = "the rollout"
		}
		if moved := now.Add(left); !moved.Equal(deadline) {
			deadline = moved
			batchDeadline := &deadline
			if b.rolloutTimer {
				batchDeadline = nil
			}
			g.record.setDeadlines(ctx, batchDeadline, new(now.Add(g.timeout()-g.clock.elapsed(now))))
		}
		pause := min(b.untilNextTimeout(now), rollout.ClockInterval(b.started.Timeout))
		b.wake = now.Add(pause)
		summary := fmt.Sprintf("%s times out %s", timed, deadline.UTC().Format("15:04:05Z"))
		if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: summary}).Get(ctx, nil) != nil {
			return false
		}
		looked := workflow.Now(ctx)
		g.clock.subtract(rollout.Outage(now, now.Add(pause), looked, b.untilNextTimeout(looked)))
	}
}

// timeLeft is the time that the batch has left; negative when it is over. A batch that only soaks has all the time of the rollout.
func (b *batch) timeLeft(now time.Time) time.Duration {
	if b.onlySoaks() {
		return b.group.timeout() - b.group.clock.elapsed(now)
	}
	return b.started.Timeout - (b.group.clock.elapsed(now) - b.started.UsedBefore)
}

// untilNextTimeout is the time until the batch, or the first running cluster, times out.
func (b *batch) untilNextTimeout(now time.Time) time.Duration {
	least := b.timeLeft(now)
	//workflowcheck:ignore the least has no order
	for _, cluster := range b.running {
		if left, limited := b.clusterTimeLeft(cluster, now); limited {
			least = min(least, left)
		}
	}
	return least
}

// clusterTimeLeft is the time that a cluster has left; false: it has no limit of its own, or is not running.
func (b *batch) clusterTimeLeft(cluster *activeCluster, now time.Time) (time.Duration, bool) {
	limit := time.Duration(b.group.spec.RemediationStrategy.ClusterTimeout) * time.Minute
	if limit == 0 || !cluster.state.Timed() {
		return 0, false
	}
	return limit - (b.group.clock.elapsed(now) - cluster.usedBefore), true
}

// timeOutClusters withdraws clusters that have timed out.
func (b *batch) timeOutClusters(ctx workflow.Context) {
	now := workflow.Now(ctx)
	for _, name := range workflow.DeterministicKeys(b.running) {
		cluster := b.running[name]
		if left, limited := b.clusterTimeLeft(cluster, now); limited && left <= 0 {
			b.group.record.clusterTimedOut(ctx, name)
			cluster.withdrawTimedOut()
		}
	}
}

func (b *batch) stopTimer() {
	if b.timer != nil {
		b.timer()
		b.timer = nil
	}
}

// withdrawTimedOut withdraws the running clusters and starts no others. Soaking clusters keep their places for the batches that follow, unless
// the time of the rollout is over.
func (b *batch) timeOut(ctx workflow.Context) {
	b.changed = true
	if b.onlySoaks() {
		b.withdraw()
		return
	}
	b.timedOut = true
	b.group.record.batchTimedOut(ctx, b.clusters)
	b.stopStarting()
	for _, name := range workflow.DeterministicKeys(b.running) {
		b.running[name].withdrawTimedOut()
	}
}
