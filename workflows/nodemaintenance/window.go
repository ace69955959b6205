package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// RequeueAfter is the time between the end of a window and the release of the slot of a node that waits for its locks. The node keeps the slot if another
// window opens in that time.
const RequeueAfter = time.Minute

// showHold shows the hold that prevents new disruption.
func (m *nodeMaintenance) showHold() {
	m.state.Status.Held = m.holds.Of(m.in.Cluster)
	m.record.notifier.Hold(m.record.ctx, m.state.Status.Held)
	m.record.show()
}

// closedWindow returns the closed window of the maintenance; nil: a window is open.
func (m *nodeMaintenance) closedWindow() *drydockv1.Hold {
	return m.holds.Windows.Hold(m.in.Cluster, 0)
}

// anyClosedWindow returns the closed window of the maintenance or of its rollout that prevents the cordon; nil: none.
func (m *nodeMaintenance) anyClosedWindow() *drydockv1.Hold {
	return m.holds.ClosedWindow(m.in.Cluster)
}

// awaitOpening waits until a window of the maintenance is open. Until then it requests no slot, so that others can use it.
func (m *nodeMaintenance) awaitOpening(ctx workflow.Context) error {
	for m.closedWindow() != nil {
		if err := m.awaitGate(ctx, gateWindow, func() bool { return m.closedWindow() == nil || m.mayRest(ctx) }); err != nil {
			return err
		}
		if m.mayRest(ctx) {
			if err := m.continueAsNew(ctx, m.mayRest); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitRelease waits until the cluster is not held. It is called before every disruptive step. Meanwhile the time limits of locks pause.
func (m *nodeMaintenance) awaitRelease(ctx workflow.Context) error {
	kit.HandlePendingSignals(ctx)
	if m.holds.Of(m.in.Cluster) != nil {
		m.stopLockClocks(ctx)
	}
	m.waits.gate = gateRelease
	err := m.followHolds(ctx)
	m.waits.gate, m.waits.release = gateNone, nil
	m.showWait(ctx)
	return err
}

// followHolds waits until a notification ends the hold. The start of an opening does not end it: a window counts as closed until it sends a notification.
func (m *nodeMaintenance) followHolds(ctx workflow.Context) error {
	for {
		m.waits.release = m.holds.Wait(m.in.Cluster, m.record.now(ctx))
		if m.waits.release == nil {
			return nil
		}
		number, trouble := m.holds.Number(), m.holds.Trouble
		if err := m.followWait(ctx, func() bool { return m.holds.Number() != number || m.holds.Trouble != trouble }); err != nil {
			return err
		}
	}
}

// whenReleased runs a disruptive step, and runs it again if the cluster was held before the step started.
func (m *nodeMaintenance) whenReleased(ctx workflow.Context, step func() error) error {
	for {
		if err := m.awaitRelease(ctx); err != nil {
			return err
		}
		if err := step(); temporal.ErrorType(err) != temporal.ErrHeld {
			return err
		}
	}
}

// cordonedUnderWindow records that the node is out of service. From now on a closing window lets the maintenance finish, or cancels it.
func (m *nodeMaintenance) cordonedUnderWindow() {
	m.holds.Begun = true
	m.showHold()
	m.cancelWhenClosed()
}

// cancelWhenClosed cancels a maintenance in progress if its window has closed with onOverrun Cancel.
func (m *nodeMaintenance) cancelWhenClosed() {
	hold := m.closedWindow()
	if hold == nil || !m.holds.Begun || m.state.Return.Begun == Yes || hold.OnOverrun != drydockv1.OverrunCancel {
		return
	}
	m.cancelForAll(temporal.SignalRequest{Actor: "window " + hold.Window, Reason: hold.Reason})
}

// whileOpen returns a step that ends when the window has been closed for RequeueAfter.
func (m *nodeMaintenance) whileOpen(wait step) step {
	return func(ctx workflow.Context) (outcome, error) {
		ended, err, closed := unless(ctx, "while the window is open", wait, m.awaitClosed)
		if closed {
			return outcomeWindowClosed, nil
		}
		return ended, err
	}
}

// awaitClosed waits until the window has been closed for RequeueAfter.
func (m *nodeMaintenance) awaitClosed(ctx workflow.Context) error {
	for {
		if err := workflow.Await(ctx, func() bool { return m.anyClosedWindow() != nil }); err != nil {
			return err
		}
		err := kit.AwaitFor(ctx, RequeueAfter, "before the slot is released: the window is closed", func() bool { return m.anyClosedWindow() == nil })
		if err != nil || m.anyClosedWindow() != nil {
			return err
		}
	}
}
