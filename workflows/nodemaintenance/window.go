package nodemaintenance

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// showHold shows what keeps the maintenance from disrupting anything more.
func (m *nodeMaintenance) showHold() {
	m.status.Held = m.holds.Of(m.in.Cluster)
	m.record.show()
}

// setBegun says whether the node is out of service for this maintenance: then a window that has closed may let it finish, or wants it back.
func (m *nodeMaintenance) setBegun(begun bool) {
	m.holds.Begun = begun
	m.showHold()
	m.takeBackClosed()
}

// closed is the maintenance window that keeps the maintenance from beginning; nil: none does.
func (m *nodeMaintenance) closed() *drydockv1.Hold { return m.holds.Windows.Hold(m.in.Cluster, 0) }

// awaitOpening waits until a maintenance window of the maintenance is open. Until then it asks for no slot, which others can use.
func (m *nodeMaintenance) awaitOpening(ctx workflow.Context) error {
	windows := &m.holds.Windows
	for hold := m.closed(); hold != nil; hold = m.closed() {
		m.record.reason.Hold(ctx, *hold)
		version := windows.Version
		if err := workflow.Await(ctx, func() bool { return windows.Version != version || m.rests(ctx) }); err != nil {
			return err
		}
		if m.rests(ctx) {
			if err := m.continueAsNew(ctx, m.rests); err != nil {
				return err
			}
		}
	}
	if len(windows.Names) > 0 {
		m.record.reason.Set(ctx, "", "")
	}
	return nil
}

// takeBackClosed ends a maintenance at work whose window has closed, and wants that.
func (m *nodeMaintenance) takeBackClosed() {
	hold := m.closed()
	if hold == nil || !m.holds.Begun || m.returning || hold.OnOverrun != drydockv1.OverrunCancel {
		return
	}
	m.takeBackAll(temporal.SignalRequest{Actor: "window " + hold.Window, Reason: hold.Reason})
}

// shut is the maintenance window, its own or its rollout's, that keeps a node from being taken; nil: none does.
func (m *nodeMaintenance) shut() *drydockv1.Hold { return m.holds.ClosedWindow(m.in.Cluster) }

// errShut ends a wait for a node's locks: its window has closed, perhaps for long.
var errShut = errors.New("the maintenance window has closed")

// StandsBackAfter is for how long a window has to be closed before a node that waits for its locks gives back what it has. Between two windows that
// follow each other that would be for nothing.
const StandsBackAfter = time.Minute

// whileOpen waits for something that stands before the cordon. It returns errShut instead when the window has been closed for a while.
func (m *nodeMaintenance) whileOpen(ctx workflow.Context, wait func(workflow.Context) error) error {
	return unless(ctx, "while the window is open", errShut, wait, m.awaitShut)
}

// unless waits for something, and returns that error instead when something else comes first.
func unless(ctx workflow.Context, name string, instead error, wait, other func(workflow.Context) error) error {
	first := false
	err := kit.Within(ctx, func(ctx workflow.Context) error {
		waiting, stop := workflow.WithCancel(ctx)
		workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
			if first = other(ctx) == nil; first {
				stop()
			}
		})
		return wait(waiting)
	})
	if first && err != nil && ctx.Err() == nil {
		return instead
	}
	return err
}

// awaitShut waits until the window has been closed for standsBackAfter.
func (m *nodeMaintenance) awaitShut(ctx workflow.Context) error {
	for {
		if err := workflow.Await(ctx, func() bool { return m.shut() != nil }); err != nil {
			return err
		}
		err := kit.AwaitFor(ctx, StandsBackAfter, "before the slot is given back: the window is closed", func() bool { return m.shut() == nil })
		if err != nil || m.shut() != nil {
			return err
		}
	}
}

// standBack gives back what a node has that was not taken before its window closed, as far as anybody has heard. It has its turn again in the next opening, in which
// its locks are asked for what is left of their time.
func (m *nodeMaintenance) standBack(ctx workflow.Context) error {
	m.stopLockClocks(ctx)
	if m.cordoned {
		if err := m.returnUnheard(ctx); err != nil {
			return err
		}
	}
	return m.requeue(ctx)
}

// returnUnheard returns a node that an attempt may have taken whose answer nobody heard. It keeps its slot until it is known to be in service.
func (m *nodeMaintenance) returnUnheard(ctx workflow.Context) error {
	in := node.ReturnNodeInput{NodeRef: m.node, Ended: &node.MaintenanceEnd{
		State: maintenancev1.NodePending, Message: "the maintenance window has closed; the maintenance waits for its turn once more",
	}}
	var result node.ReturnNodeResult
	if err := m.retrier().Run(ctx, "return "+m.node.Node, m.nodes.ReturnNode, in, &result); err != nil {
		return err
	}
	m.cordoned = false
	m.record.note(result.Note)
	if m.in.Slot != nil {
		return nil // a rollout's maintenance ends
	}
	return m.plan(ctx)
}
