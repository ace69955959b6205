package slots

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/sweeper"
)

const (
	// checkOwnersEvery is how often the workflows of the slot owners are checked.
	checkOwnersEvery = 30 * time.Second
	// retryResponseAfter is when a response is sent again that did not reach its owner. Sooner it would likely fail again.
	retryResponseAfter = checkOwnersEvery
	// checkedAtOnce is about how many owners one activity checks.
	checkedAtOnce = 100
	// missingAtOnce is how many nodes one activity looks for that no watch has shown. If they exist, the watch shows them a moment later; if it does not,
	// they are looked for again after missingPause.
	missingAtOnce = 100
	missingPause  = 5 * time.Second
)

// findClosedOwners checks regularly that the workflows of the owners are running, and at once when a message did not reach one. It frees the slots of those that
// are closed. The sweeper cleans up after them.
func (s *maintenanceScheduler) findClosedOwners(ctx workflow.Context) {
	if s.unswept {
		s.sweep(ctx)
	}
	for {
		if s.slots.Empty() {
			if workflow.Await(ctx, func() bool { return !s.slots.Empty() }) != nil {
				return
			}
			s.ownersCheckedAt = workflow.Now(ctx)
		}
		timing, stop := workflow.WithCancel(ctx)
		// Runs may be shorter than the interval.
		pause := max(0, s.ownersCheckedAt.Add(checkOwnersEvery).Sub(workflow.Now(ctx)))
		timer := workflow.NewTimerWithOptions(timing, pause, workflow.TimerOptions{Summary: "check the slot owners"})
		err := workflow.Await(ctx, func() bool { return s.unreachable || timer.IsReady() })
		stop()
		if err != nil {
			return
		}
		s.unreachable = false
		s.checkOwners(ctx)
	}
}

func (s *maintenanceScheduler) checkOwners(ctx workflow.Context) {
	s.ownersCheckedAt = workflow.Now(ctx)
	for holders := range slices.Chunk(s.slots.Holders(), checkedAtOnce) {
		var closed []scheduling.Holder
		hub := kit.HubRetrier(nil)
		if hub.Run(ctx, "check the slot owners", s.scheduler.FindClosedOwners, holders, &closed) != nil {
			return
		}
		notReturned := 0
		for _, owner := range closed {
			notReturned += len(s.slots.OwnerClosed(owner, workflow.Now(ctx)))
			s.changed = true
		}
		if notReturned > 0 {
			s.sweep(ctx)
		}
	}
}

// sweep wakes the sweeper. A run that ends before that is done leaves it to the next one.
func (s *maintenanceScheduler) sweep(ctx workflow.Context) {
	s.unswept = true
	s.unswept = sweeper.Wake(ctx, nil, s.in.Cluster, "maintenances ended without returning their nodes").Get(ctx, nil) != nil
}

// findGone looks for nodes that requests wait for and that no watch has shown. Requests for nodes that do not exist end. Nothing is granted for a node that
// exists and was not shown: its budgets are unknown.
func (s *maintenanceScheduler) findGone(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.queue != "" && len(s.decided.Missing()) > 0 }) != nil {
			return
		}
		missing := s.decided.Missing()
		in := scheduler.FindGoneInput{Cluster: s.in.Cluster, Nodes: missing[:min(missingAtOnce, len(missing))]}
		retrier := kit.ClusterRetrier(s.in.Cluster, &s.queue, nil)
		var gone []string
		err := retrier.Run(ctx, "look for nodes that no watch has shown", s.scheduler.FindGone, in, &gone)
		s.slots.NodesGone(gone)
		s.changed = true
		if err == nil && len(gone) == len(in.Nodes) {
			// The next decision no longer waits for them.
			if workflow.Await(ctx, func() bool { return !s.changed }) != nil {
				return
			}
			continue
		}
		if workflow.NewTimerWithOptions(ctx, missingPause, workflow.TimerOptions{Summary: "before looking for nodes again"}).Get(ctx, nil) != nil {
			return
		}
	}
}
