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
	// ownersPerCheck limits the owners that one activity checks, and those without a slot that are checked at a time.
	ownersPerCheck = 100
	// nodesPerLookup limits the missing nodes that one activity looks for. If they exist, the watch soon reports them. Otherwise the scheduler looks
	// again after missingPause.
	nodesPerLookup = 100
	missingPause   = 5 * time.Second
)

// findClosedOwners checks the workflows of the owners periodically, and when a message to one fails. It frees the slots of closed owners. The sweeper
// cleans up after them.
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

// checkOwners checks the owners of slots, and some of the others. If one of the others is closed, it continues with the next: many may have been terminated.
func (s *maintenanceScheduler) checkOwners(ctx workflow.Context) {
	s.ownersCheckedAt = workflow.Now(ctx)
	for again := true; again; {
		again = false
		for holders := range slices.Chunk(s.slots.HoldersToCheck(ownersPerCheck), ownersPerCheck) {
			var closed []scheduling.Holder
			if kit.HubRetrier(nil).Run(ctx, "check the slot owners", s.scheduler.FindClosedOwners, holders, &closed) != nil {
				return
			}
			hasSlot := map[scheduling.SlotOwner]bool{}
			for _, holder := range holders {
				hasSlot[holder.SlotOwner] = len(holder.Maintenances) > 0
			}
			notReturned := 0
			for _, owner := range closed {
				slot, checked := hasSlot[owner.SlotOwner]
				again = again || checked && !slot
				notReturned += len(s.slots.OwnerClosed(owner, workflow.Now(ctx)))
				s.changed = true
			}
			if notReturned > 0 {
				s.sweep(ctx)
			}
		}
	}
}

// sweep wakes the sweeper. If the run ends before that, the next run does it.
func (s *maintenanceScheduler) sweep(ctx workflow.Context) {
	s.unswept = true
	s.unswept = sweeper.Wake(ctx, nil, s.in.Cluster, "maintenances ended without returning their nodes").Get(ctx, nil) != nil
}

// findMissingNodes looks for requested nodes that the watch has not listed, and ends requests for nodes that do not exist. A node that exists gets no
// slot before the watch lists it, because its budgets are unknown until then.
func (s *maintenanceScheduler) findMissingNodes(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.queue != "" && len(s.missing) > 0 }) != nil {
			return
		}
		in := scheduler.FindGoneInput{Cluster: s.in.Cluster, Nodes: s.missing[:min(nodesPerLookup, len(s.missing))]}
		retrier := kit.ClusterRetrier(s.in.Cluster, &s.queue, nil)
		var gone []string
		err := retrier.Run(ctx, "find missing nodes", s.scheduler.FindGone, in, &gone)
		s.slots.NodesGone(gone)
		s.changed = true
		if err == nil && len(gone) == len(in.Nodes) {
			// Wait for the next decision, which no longer lists them as missing.
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
