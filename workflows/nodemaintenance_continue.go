package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// NodeMaintenanceCarried is what a run hands to the next one that waits for a maintenance window to open, and has nothing in hand: neither the node nor
// a slot. It may wait so for thousands of openings before it has its turn.
type NodeMaintenanceCarried struct {
	Status     maintenancev1.NodeMaintenanceStatus `json:"status"`
	Requestors []maintenancev1.RequestorStatus     `json:"requestors"`
	Withdrawn  *temporal.SignalRequest             `json:"withdrawn,omitempty"`
	Windows    CarriedWindows                      `json:"windows"`
	// Asked, Turn and Scheduler are the number of the last slot, that of the last answer, and when the scheduler began that gave it.
	Asked     int64     `json:"asked"`
	Turn      int64     `json:"turn"`
	Scheduler time.Time `json:"scheduler"`
	// Claims and Shares are how many messages there were to maintenances that share a node, Announced to the node itself.
	Claims    int64 `json:"claims,omitempty"`
	Shares    int64 `json:"shares,omitempty"`
	Announced int32 `json:"announced,omitempty"`
}

func (m *nodeMaintenance) restore(c NodeMaintenanceCarried) {
	m.status, m.withdrawn = c.Status, c.Withdrawn
	m.marked = true
	m.holds.windows.restore(c.Windows)
	m.slots.number, m.slots.turn, m.slots.scheduler = c.Asked, c.Turn, c.Scheduler
	m.sharing.number, m.shares, m.announced = c.Claims, c.Shares, c.Announced
	for i, r := range m.requestors.ours() {
		r.RequestorStatus = c.Requestors[i]
	}
	m.requestors.publish()
}

// rests reports whether the run may end here: its history is long enough, its window is closed, and it has nothing in hand that only this run knows of.
func (m *nodeMaintenance) rests(ctx workflow.Context) bool {
	return mustContinueAsNew(ctx, 0) && m.closed() != nil && ctx.Err() == nil && !m.sharing.joined &&
		!m.requested && !m.clusterRequested && !m.cordoned && m.requestors.failing() == nil
}

// continueAsNew hands everything to a new run, unless something was said in the last moment that changes how it stands: then it returns nil.
func (m *nodeMaintenance) continueAsNew(ctx workflow.Context) error {
	m.leaveHolder(ctx)
	if err := m.slots.settle(ctx); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return m.unheard == 0 }); err != nil {
		return err
	}
	hearSignals(ctx)
	if !m.rests(ctx) || m.unheard > 0 || m.slots.news() {
		return nil
	}
	m.record.attributes.flush()
	in := m.in
	in.Held, in.LockTimeLeft = m.holds.state, m.status.LockTimeLeft
	in.Carried = &NodeMaintenanceCarried{
		Status: m.status, Withdrawn: m.withdrawn, Windows: m.holds.windows.carry(),
		Asked: m.slots.number, Turn: m.slots.turn, Scheduler: m.slots.scheduler,
		Claims: m.sharing.number, Shares: m.shares, Announced: m.announced,
	}
	in.Carried.Status.States = latest(m.status.States)
	for _, r := range m.requestors.ours() {
		in.Carried.Requestors = append(in.Carried.Requestors, r.RequestorStatus)
	}
	return workflow.NewContinueAsNewError(ctx, temporal.NodeMaintenance, in)
}

// statesCarried is how many of the states that a maintenance went through are handed to the next run.
const statesCarried = 200

// latest keeps the first state, and as many of the last as are handed on.
func latest(states []maintenancev1.StateTime) []maintenancev1.StateTime {
	if len(states) <= statesCarried {
		return states
	}
	return slices.Concat(states[:1], states[len(states)-statesCarried+1:])
}
