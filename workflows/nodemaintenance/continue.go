package nodemaintenance

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// restore continues with the state of the run before. A run continues as new before the node is cordoned only: it may wait for thousands of openings of its
// maintenance window, and then have to request the workload locks again and again.
func (m *nodeMaintenance) restore(s *State) {
	m.state = s
	m.holds.Windows.Restore(s.Windows)
	m.slots.State = s.Slots
}

// historyLong reports whether the next run is to continue with acquiring the node.
func historyLong(ctx workflow.Context) bool { return kit.ShouldContinueAsNew(ctx, 0) }

// notCancelled reports whether the next run may continue with acquiring the node.
func notCancelled(ctx workflow.Context) bool { return ctx.Err() == nil }

// whileShort waits for workload locks while the history of the run is short: what they report may change for weeks.
func whileShort(ctx workflow.Context, wait step) (outcome, error) {
	ended, err, long := unless(ctx, "while the history is short", wait, func(ctx workflow.Context) error {
		return workflow.Await(ctx, func() bool { return historyLong(ctx) })
	})
	if long {
		return outcomeHistoryLong, nil
	}
	return ended, err
}

// mayRest reports whether the run may end here: its history is long, its window is closed, and the maintenance has nothing that must be cleaned up.
func (m *nodeMaintenance) mayRest(ctx workflow.Context) bool {
	return historyLong(ctx) && m.closedWindow() != nil && ctx.Err() == nil &&
		!m.state.Locks.Request.Possible() && !m.state.Locks.Cluster.Request.Possible() && !m.state.Node.Cordoned.Possible()
}

// continueAsNew passes the state to a new run. It returns nil when a signal came at the last moment after which the run may not end.
func (m *nodeMaintenance) continueAsNew(ctx workflow.Context, may func(workflow.Context) bool) error {
	if err := m.slots.Settle(ctx); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if !may(ctx) || !m.slots.Settled() {
		return nil
	}
	m.record.attributes.Flush()
	m.record.log.Info("Node maintenance continues as new", "state", m.state.Status.State)
	in := m.in
	in.Carried = m.carried()
	return workflow.NewContinueAsNewError(ctx, temporal.NodeMaintenance, in)
}

// carried is the state for the next run.
func (m *nodeMaintenance) carried() *State {
	carried := *m.state
	carried.Held, carried.Windows, carried.Slots = m.holds.State, m.holds.Windows.Carry(), m.slots.State
	carried.Status.States, carried.Status.Notes = latest(carried.Status.States), latest(carried.Status.Notes)
	return &carried
}

// mostCarried is how many of the states of a maintenance, and of its notes, are passed to the next run.
const mostCarried = 200

// latest keeps the first, and the last ones up to that number.
func latest[T any](all []T) []T {
	if len(all) <= mostCarried {
		return all
	}
	return slices.Concat(all[:1], all[len(all)-mostCarried+1:])
}
