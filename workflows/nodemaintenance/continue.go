package nodemaintenance

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/slots"
)

// Carried is what a run hands to the next one before the node is taken. It may wait for thousands of openings of its maintenance window
// before it has its turn, and then have to ask the workload locks again and again.
type Carried struct {
	Status     maintenancev1.NodeMaintenanceStatus `json:"status"`
	Requestors []maintenancev1.RequestorStatus     `json:"requestors"`
	Locks      lockState                           `json:"locks,omitzero"`
	Cordoned   bool                                `json:"cordoned,omitempty"`
	Withdrawn  *temporal.SignalRequest             `json:"withdrawn,omitempty"`
	Windows    gates.CarriedWindows                `json:"windows"`
	Slots      slots.ClientState                   `json:"slots"`
	// Announced is how many states were announced on the node.
	Announced int32 `json:"announced,omitempty"`
}

func (m *nodeMaintenance) restore(c Carried) {
	m.status, m.withdrawn = c.Status, c.Withdrawn
	m.marked = true
	m.holds.Windows.Restore(c.Windows)
	m.slots.State = c.Slots
	m.announced = c.Announced
	m.requestors.all = nil
	for _, carried := range c.Requestors {
		m.requestors.all = append(m.requestors.all, &requestor{RequestorStatus: carried})
	}
	m.requestors.publish()
	m.lockState, m.cordoned = c.Locks, c.Cordoned
}

// isLong reports whether the next run is to go on with taking the node.
func (m *nodeMaintenance) isLong(ctx workflow.Context) bool {
	return kit.ShouldContinueAsNew(ctx, 0)
}

// whileShort waits for workload locks, for as long as the history may grow: what is told of such a wait may change for weeks. Then it returns errLong.
func (m *nodeMaintenance) whileShort(ctx workflow.Context, wait func(workflow.Context) error) error {
	return unless(ctx, "while the history is short", kit.ErrHistoryLong, wait, func(ctx workflow.Context) error {
		err := workflow.Await(ctx, func() bool { return kit.ShouldContinueAsNew(ctx, 0) })
		if err == nil && !m.isLong(ctx) {
			err = workflow.Await(ctx, func() bool { return false })
		}
		return err
	})
}

// takes reports whether the next run may go on with taking the node.
func (m *nodeMaintenance) takes(ctx workflow.Context) bool { return ctx.Err() == nil }

// rests reports whether the run may end here: its history is long enough, its window is closed, and it has nothing in hand that only this run knows of.
func (m *nodeMaintenance) rests(ctx workflow.Context) bool {
	return kit.ShouldContinueAsNew(ctx, 0) && m.closed() != nil && ctx.Err() == nil &&
		!m.lockState.Requested && !m.lockState.ClusterRequested && !m.cordoned
}

// continueAsNew hands everything to a new run, unless something was said in the last moment by which it may not: then it returns nil.
func (m *nodeMaintenance) continueAsNew(ctx workflow.Context, may func(workflow.Context) bool) error {
	if err := m.slots.Settle(ctx); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if !may(ctx) || !m.slots.Settled() {
		return nil
	}
	m.record.attributes.Flush()
	in := m.in
	in.Held, in.LockTimeLeft = m.holds.State, m.status.LockTimeLeft
	in.Carried = &Carried{
		Status: m.status, Withdrawn: m.withdrawn, Windows: m.holds.Windows.Carry(),
		Announced: m.announced, Slots: m.slots.State, Locks: m.lockState, Cordoned: m.cordoned,
	}
	in.Carried.Status.States, in.Carried.Status.Notes = latest(m.status.States), latest(m.status.Notes)
	for _, r := range m.requestors.all {
		in.Carried.Requestors = append(in.Carried.Requestors, r.RequestorStatus)
	}
	return workflow.NewContinueAsNewError(ctx, temporal.NodeMaintenance, in)
}

// mostCarried is how many of the states that a maintenance went through are handed to the next run, and how many of its notes.
const mostCarried = 200

// latest keeps the first, and as many of the last as are handed on.
func latest[T any](all []T) []T {
	if len(all) <= mostCarried {
		return all
	}
	return slices.Concat(all[:1], all[len(all)-mostCarried+1:])
}
