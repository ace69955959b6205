package nodemaintenance

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// restore restores the state of the previous run. A run continues as new only before the node is cordoned: the wait for openings of its window, and
// repeated lock requests, may fill the history.
func (m *nodeMaintenance) restore(s *State) {
	m.state = s
	m.holds.Windows.Restore(s.Windows)
	m.slots.State = s.Slots
}

// historyLong reports whether the history is long enough for another run.
func historyLong(ctx workflow.Context) bool { return kit.ShouldContinueAsNew(ctx, 0) }

// notCancelled reports whether the next run may continue to acquire the node.
func notCancelled(ctx workflow.Context) bool { return ctx.Err() == nil }

// whileShort runs a wait for workload locks until the history is long: locks may report changes for weeks.
func whileShort(ctx workflow.Context, wait step) (outcome, error) {
	ended, err, long := unless(ctx, "while the history is short", wait, func(ctx workflow.Context) error {
		return workflow.Await(ctx, func() bool { return historyLong(ctx) })
	})
	if long {
		return outcomeHistoryLong, nil
	}
	return ended, err
}

// mayRest reports whether the run may continue as new during a wait: its history is long, its window is closed, and it has nothing to clean up.
func (m *nodeMaintenance) mayRest(ctx workflow.Context) bool {
	return historyLong(ctx) && m.closedWindow() != nil && ctx.Err() == nil &&
		!m.state.Locks.Request.Possible() && !m.state.Locks.Cluster.Request.Possible() && !m.state.Node.Cordoned.Possible()
}

// continueAsNew passes the state to a new run. It returns nil if a pending signal means that this run must continue.
func (m *nodeMaintenance) continueAsNew(ctx workflow.Context, may func(workflow.Context) bool) error {
	if err := m.slots.Settle(ctx); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && m.record.notifier.Idle() }); err != nil {
		return err
	}
	m.record.publisher.Pause(ctx)
	kit.HandlePendingSignals(ctx)
	if !may(ctx) || !m.slots.Settled() {
		m.record.publisher.Resume()
		return nil
	}
	m.record.publisher.Stop()
	m.record.attributes.Flush()
	m.record.log.Info("Node maintenance continues as new", "state", m.state.Status.State)
	in := m.in
	in.Carried = m.carried()
	return workflow.NewContinueAsNewError(ctx, temporal.NodeMaintenance, in)
}

// carried returns the state for the next run.
func (m *nodeMaintenance) carried() *State {
	carried := *m.state
	carried.Held, carried.Windows, carried.Slots = m.holds.State, m.holds.Windows.Carry(), m.slots.State
	carried.Publisher, carried.Notifier = m.record.publisher.State, m.record.notifier.State
	carried.Status.States, carried.Status.Notes = latest(carried.Status.States), latest(carried.Status.Notes)
	return &carried
}

// mostCarried limits the recorded states, and the notes, that are passed to the next run.
const mostCarried = 200

// latest returns at most mostCarried elements: the first one and the last ones.
func latest[T any](all []T) []T {
	if len(all) <= mostCarried {
		return all
	}
	return slices.Concat(all[:1], all[len(all)-mostCarried+1:])
}
