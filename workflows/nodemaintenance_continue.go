package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// NodeMaintenanceCarried is what a run hands to the next one before the node is taken. It may wait for thousands of openings of its maintenance window
// before it has its turn, and then have to ask the workload locks again and again.
type NodeMaintenanceCarried struct {
	Status     maintenancev1.NodeMaintenanceStatus `json:"status"`
	Requestors []maintenancev1.RequestorStatus     `json:"requestors"`
	// Taking is how far it has come with taking the node; nil: it has not begun.
	Taking    *CarriedTaking          `json:"taking,omitempty"`
	Withdrawn *temporal.SignalRequest `json:"withdrawn,omitempty"`
	Windows   CarriedWindows          `json:"windows"`
	// Asked, Turn and Scheduler are the number of the last slot, that of the last answer, and when the scheduler began that gave it.
	Asked     int64     `json:"asked"`
	Turn      int64     `json:"turn"`
	Scheduler time.Time `json:"scheduler"`
	// Announced is how many states were announced on the node.
	Announced int32 `json:"announced,omitempty"`
}

// CarriedTaking is how far a run has come with taking the node. Its fields are those of nodeMaintenance.
type CarriedTaking struct {
	// Slots that were asked for, and granted: that of the node, unless it is the parent's.
	Slots             []scheduling.Slot `json:"slots,omitempty"`
	Requested         bool              `json:"requested,omitempty"`
	RequestUID        types.UID         `json:"requestUID,omitempty"`
	Answered          bool              `json:"answered,omitempty"`
	Locked            bool              `json:"locked,omitempty"`
	Skipped           bool              `json:"skipped,omitempty"`
	ClusterRequested  bool              `json:"clusterRequested,omitempty"`
	ClusterRequestUID types.UID         `json:"clusterRequestUID,omitempty"`
	ClusterHeld       bool              `json:"clusterHeld,omitempty"`
	Cordoned          bool              `json:"cordoned,omitempty"`
	NodeLockClock     lockClock         `json:"nodeLockClock,omitzero"`
	ClusterLockClock  lockClock         `json:"clusterLockClock,omitzero"`
}

func (m *nodeMaintenance) restore(c NodeMaintenanceCarried) {
	m.status, m.withdrawn = c.Status, c.Withdrawn
	m.marked = true
	m.holds.windows.restore(c.Windows)
	m.slots.number, m.slots.turn, m.slots.scheduler = c.Asked, c.Turn, c.Scheduler
	m.announced = c.Announced
	m.requestors.all = nil
	for _, carried := range c.Requestors {
		m.requestors.all = append(m.requestors.all, &requestor{RequestorStatus: carried})
	}
	m.requestors.publish()
	if c.Taking != nil {
		m.restoreTaking(*c.Taking)
	}
}

func (m *nodeMaintenance) restoreTaking(t CarriedTaking) {
	m.slots.slots = t.Slots
	m.requested, m.requestUID, m.answered, m.locked, m.skipped = t.Requested, t.RequestUID, t.Answered, t.Locked, t.Skipped
	m.clusterRequested, m.clusterRequestUID, m.clusterHeld = t.ClusterRequested, t.ClusterRequestUID, t.ClusterHeld
	m.cordoned, m.nodeLockClock, m.clusterLockClock = t.Cordoned, t.NodeLockClock, t.ClusterLockClock
}

func (m *nodeMaintenance) taking() *CarriedTaking {
	return &CarriedTaking{
		Slots:     m.slots.slots,
		Requested: m.requested, RequestUID: m.requestUID, Answered: m.answered, Locked: m.locked, Skipped: m.skipped,
		ClusterRequested: m.clusterRequested, ClusterRequestUID: m.clusterRequestUID, ClusterHeld: m.clusterHeld,
		Cordoned: m.cordoned, NodeLockClock: m.nodeLockClock, ClusterLockClock: m.clusterLockClock,
	}
}

// errLong ends an attempt at taking the node, for the next run to go on with: the history has grown long by those before, or by what was told of this one.
var errLong = errors.New("the history of the run is long")

// isLong reports whether the next run is to go on with taking the node.
func (m *nodeMaintenance) isLong(ctx workflow.Context) bool {
	return mustContinueAsNew(ctx, 0)
}

// whileShort waits for workload locks, for as long as the history may grow: what is told of such a wait may change for weeks. Then it returns errLong.
func (m *nodeMaintenance) whileShort(ctx workflow.Context, wait func(workflow.Context) error) error {
	return unless(ctx, "while the history is short", errLong, wait, func(ctx workflow.Context) error {
		err := workflow.Await(ctx, func() bool { return mustContinueAsNew(ctx, 0) })
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
	return mustContinueAsNew(ctx, 0) && m.closed() != nil && ctx.Err() == nil &&
		!m.requested && !m.clusterRequested && !m.cordoned
}

// continueAsNew hands everything to a new run, unless something was said in the last moment by which it may not: then it returns nil.
func (m *nodeMaintenance) continueAsNew(ctx workflow.Context, may func(workflow.Context) bool) error {
	if err := m.slots.settle(ctx); err != nil {
		return err
	}
	hearSignals(ctx)
	if !may(ctx) || m.slots.news() {
		return nil
	}
	m.record.attributes.flush()
	in := m.in
	in.Held, in.LockTimeLeft = m.holds.state, m.status.LockTimeLeft
	in.Carried = &NodeMaintenanceCarried{
		Status: m.status, Withdrawn: m.withdrawn, Windows: m.holds.windows.carry(),
		Asked: m.slots.number, Turn: m.slots.turn, Scheduler: m.slots.scheduler,
		Announced: m.announced, Taking: m.taking(),
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
