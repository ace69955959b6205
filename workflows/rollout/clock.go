package rollout

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit"
)

// timeout is the timeout of the whole rollout.
func (g *groupUpgrade) timeout() time.Duration { return rollout.Timeout(&g.spec) }

// stopwatch measures the time during which it runs.
type stopwatch struct {
	// used is the time measured before since; since is nil while the stopwatch is stopped.
	used  time.Duration
	since *time.Time
	// ran is the period before the last stop.
	ran rollout.Period
	// outage is the last period that was taken off.
	outage rollout.Period
}

func (s *stopwatch) start(now time.Time) {
	if s.since == nil {
		s.since = &now
	}
}

func (s *stopwatch) stop(now time.Time) {
	s.ran = s.lastRun(now)
	s.used, s.since = s.elapsed(now), nil
}

// lastRun is the period in which the stopwatch runs, or ran last.
func (s *stopwatch) lastRun(now time.Time) rollout.Period {
	if s.since == nil {
		return s.ran
	}
	return rollout.Period{From: *s.since, To: now}
}

// takeOff takes an outage off. left is the remaining time of the batch.
func (s *stopwatch) takeOff(outage rollout.Period, now time.Time, left time.Duration) time.Duration {
	uncounted := rollout.Uncounted(outage, s.lastRun(now), s.outage, left)
	s.used -= uncounted
	if uncounted > 0 {
		s.outage = outage
	}
	return uncounted
}

func (s *stopwatch) elapsed(now time.Time) time.Duration {
	if s.since == nil {
		return s.used
	}
	return s.used + now.Sub(*s.since)
}

// workersAway takes an outage off the clock that an activity reports. A timer shows an outage only if it is due during that.
func (g *groupUpgrade) workersAway(ctx workflow.Context, outage rollout.Period) {
	now := workflow.Now(ctx)
	left := g.timeLimit() - g.clock.elapsed(now)
	if g.batch != nil {
		left = g.batch.timeLeft(now)
	}
	if g.clock.takeOff(outage, now, left) == 0 {
		return
	}
	g.record.note(fmt.Sprintf("no worker ran from %s to %s: this time does not count", outage.From.UTC().Format(kit.TimeFormat), outage.To.UTC().Format(kit.TimeFormat)))
	if g.batch != nil {
		g.batch.stopTimer() // its deadlines are later now
		g.batch.changed = true
	}
}

// startTimer sets the timer for the next deadline: of the batch or one of its clusters or, while all active clusters soak, of the rollout. It keeps a
// timer that is set already and still right. While the clock is paused, no timer is set.
func (b *batch) startTimer(ctx workflow.Context) {
	g := b.group
	if g.clockPaused() || len(b.active)+len(b.pending)+len(b.offline) == 0 {
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
	timing, cancel := workflow.WithCancel(ctx)
	b.timer = cancel
	workflow.GoNamed(timing, "batch deadline", func(ctx workflow.Context) {
		if b.awaitTimeout(ctx) && timing.Err() == nil {
			b.timer = nil
			b.timeOut(ctx)
		}
	})
}

// awaitTimeout cancels clusters as they time out, and returns true when the batch times out. A timer that fires late shows that no worker was running,
// and that time does not count.
func (b *batch) awaitTimeout(ctx workflow.Context) bool {
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
			g.record.setDeadlines(ctx, batchDeadline, new(now.Add(g.lastLimit()-g.clock.elapsed(now))))
		}
		pause := b.untilNextTimeout(now)
		if pause < left {
			timed = "the next cluster of " + timed
		}
		b.wake = now.Add(pause)
		summary := fmt.Sprintf("%s times out %s", timed, b.wake.UTC().Format("15:04:05Z"))
		if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: summary}).Get(ctx, nil) != nil {
			return false
		}
		fired := workflow.Now(ctx)
		g.clock.takeOff(rollout.LateTimer(b.wake, fired), fired, b.untilNextTimeout(fired))
	}
}

// timeLeft is the time until the batch times out; negative after that. A batch whose active clusters all soak has the remaining time of the rollout.
func (b *batch) timeLeft(now time.Time) time.Duration {
	if b.onlySoaks() {
		return b.group.timeLimit() - b.group.clock.elapsed(now)
	}
	return b.started.Timeout - (b.group.clock.elapsed(now) - b.started.UsedBefore)
}

// untilNextTimeout is the time until the batch or one of its clusters times out.
func (b *batch) untilNextTimeout(now time.Time) time.Duration {
	least := b.timeLeft(now)
	//workflowcheck:ignore the order does not affect a minimum
	for _, cluster := range b.active {
		if left, limited := b.clusterTimeLeft(cluster, now); limited {
			least = min(least, left)
		}
	}
	return least
}

// clusterTimeLeft is the time until a cluster reaches clusterTimeout. It is limited only while the cluster is running, and if clusterTimeout is set.
func (b *batch) clusterTimeLeft(cluster *activeCluster, now time.Time) (left time.Duration, limited bool) {
	limit := time.Duration(b.group.spec.RemediationStrategy.ClusterTimeout) * time.Minute
	if limit == 0 || !cluster.state.Timed() {
		return 0, false
	}
	return limit - (b.group.clock.elapsed(now) - cluster.usedBefore), true
}

// timeOutClusters cancels the clusters that have reached clusterTimeout.
func (b *batch) timeOutClusters(ctx workflow.Context) {
	now := workflow.Now(ctx)
	for _, name := range workflow.DeterministicKeys(b.active) {
		cluster := b.active[name]
		if left, limited := b.clusterTimeLeft(cluster, now); limited && left <= 0 {
			b.group.record.clusterTimedOut(ctx, name)
			cluster.cancelTimedOut()
		}
	}
}

func (b *batch) stopTimer() {
	if b.timer != nil {
		b.timer()
		b.timer = nil
	}
}

// timeOut cancels the running clusters and starts no others. Soaking clusters keep their places, since later batches wait for them, unless the
// rollout itself has timed out.
func (b *batch) timeOut(ctx workflow.Context) {
	b.changed = true
	if b.onlySoaks() {
		b.cancel()
		return
	}
	b.timedOut = true
	b.group.record.batchTimedOut(ctx, b.clusters)
	b.stopStarting()
	for _, name := range workflow.DeterministicKeys(b.active) {
		b.active[name].cancelTimedOut()
	}
}
