package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// listen handles signals from people, the parent and activities.
func (m *nodeMaintenance) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Clean up, and return the node to service.", m.cancelFor)
	kit.OnSignal(ctx, temporal.SignalDone, "The requestor has finished its work on the node.", m.handleDone)
	kit.OnSignal(ctx, temporal.SignalFail, "The requestor's work has failed: hold the node.", m.handleFail)
	kit.OnSignal(ctx, temporal.SignalRecover, "The work of the requestor continues after a failure.", m.handleRecover)
	kit.OnSignal(ctx, temporal.SignalObject, "The current request in the NodeMaintenance of the cluster.", m.followObject)
	kit.OnSignal(ctx, temporal.SignalObserved, "The observation of a waiting activity.", func(o temporal.Observation) { m.observe(ctx, o) })
	if m.in.Slot == nil {
		m.slots.Listen(ctx, func() {})
		workflow.GoNamed(ctx, "slots", m.slots.Run)
	}
	m.holds.Listen(ctx, m.showHold)
	m.holds.Windows.Listen(ctx, func() {
		m.showHold()
		m.cancelWhenClosed()
	})
	workflow.GoNamed(ctx, "publish", m.record.publisher.Run)
	if m.in.Parent != "" {
		workflow.GoNamed(ctx, "progress", func(ctx workflow.Context) {
			m.record.progress.Report(ctx, m.in.Parent, temporal.SignalNodeProgress, m.in.ProgressLimit, func() any { return m.record.summary() })
		})
	}
}

// senderOf finds the requestor of a signal, and notes a signal of an unknown requestor.
func (m *nodeMaintenance) senderOf(r temporal.SignalRequest, signal string) *Requestor {
	of := m.state.requestor(r.Requestor)
	if of == nil {
		m.record.note(signal + " was sent for " + r.Requestor + kit.ActorSuffix(r) + ", which is no requestor of this maintenance: nothing done")
	}
	return of
}

// received describes a signal for a note. It names the requestor if there are several.
func (m *nodeMaintenance) received(signal string, of *Requestor, r temporal.SignalRequest) string {
	if len(m.state.Requestors) == 1 {
		return signal + " was sent" + kit.ActorSuffix(r)
	}
	return signal + " was sent for " + of.RequestorID + kit.ActorSuffix(r)
}

// handleDone records that a requestor has finished. During the drain this takes effect when the node is ready; before the drain, the requestor no longer
// needs the node. A requestor whose work is a Job is done when that has ended.
func (m *nodeMaintenance) handleDone(r temporal.SignalRequest) {
	switch of := m.senderOf(r, "done"); {
	case of == nil || m.state.Return.Begun == Yes || !of.State.NeedsNode():
	case m.state.Status.ReadyForRequestors:
		of.Failure = nil
		m.setRequestor(of, maintenancev1.RequestorDone, kit.ActorSuffix(r))
		m.record.note(m.received("done", of, r))
		m.showFailure()
	case of == m.state.first() && m.byJob() && m.mayBeReady():
		m.record.note(m.received("done", of, r) + ", but a Job does the work: nothing done")
	case m.state.Status.State == maintenancev1.NodeDraining:
		m.record.note(m.received("done", of, r) + " during the drain: it takes effect when the node is ready")
		m.keepDone(of, r)
	default:
		m.leave("done", of, r)
		m.cancelUnneeded()
	}
}

// mayBeReady reports whether the conditions of the node may show that it is ready: a drain sets them before it ends.
func (m *nodeMaintenance) mayBeReady() bool {
	return m.state.Status.State == maintenancev1.NodeDraining || m.state.Status.State == maintenancev1.NodeReady
}

// keepDone keeps a done that came during the drain until the node is ready.
func (m *nodeMaintenance) keepDone(of *Requestor, r temporal.SignalRequest) {
	of.Done = &r
	if m.unwanted() {
		m.edits++ // ends the drain
	}
}

// settleDone lets the done of requestors that came during the drain take effect. Requestors have not worked on a node that was not drained, nor on one
// whose work is a Job that has not run: they leave.
func (m *nodeMaintenance) settleDone(drained bool) {
	for _, of := range m.state.requestors(needsNode) {
		r := of.Done
		switch of.Done = nil; {
		case r == nil:
		case drained && !(of == m.state.first() && m.byJob()):
			m.setRequestor(of, maintenancev1.RequestorDone, kit.ActorSuffix(*r))
		default:
			m.leave("done", of, *r)
		}
	}
}

// handleFail records that the work of a requestor failed.
func (m *nodeMaintenance) handleFail(r temporal.SignalRequest) {
	switch of := m.senderOf(r, "fail"); {
	case of == nil:
	case !of.State.NeedsNode():
		m.record.note(m.received("fail", of, r) + ", but " + of.RequestorID + " no longer needs the node: nothing done")
	case !m.state.Status.ReadyForRequestors:
		m.record.note(m.received("fail", of, r) + ", but the node is not ready: nothing done")
	default:
		of.Failure = &WorkFailure{Report: reportOf(r)}
		of.Failure.Failure = maintenancev1.Failure{Reason: reasonRequestorFailed, Message: "the work of " + of.RequestorID + " failed" + of.Failure.Report}
		m.setRequestor(of, maintenancev1.RequestorFailed, kit.ActorSuffix(r))
		m.showFailure()
	}
}

// handleRecover records that the work of a requestor continues after a failure.
func (m *nodeMaintenance) handleRecover(r temporal.SignalRequest) {
	switch of := m.senderOf(r, "recover"); {
	case of == nil:
	case of.State != maintenancev1.RequestorFailed:
		m.record.note(m.received("recover", of, r) + ", but the work of " + of.RequestorID + " has not failed: nothing done")
	default:
		of.Failure = nil
		m.setRequestor(of, maintenancev1.RequestorActive, "")
		m.record.note(m.received("recover", of, r) + "; the work of " + of.RequestorID + ", which had failed, continues")
		m.showFailure()
	}
}

// cancelFor records that a requestor no longer needs the node.
func (m *nodeMaintenance) cancelFor(r temporal.SignalRequest) {
	switch of := m.senderOf(r, "cancel"); {
	case of == nil:
	case of != m.state.first() && !of.State.NeedsNode():
		m.record.note(m.received("cancel", of, r) + ", but " + of.RequestorID + " no longer needs the node: nothing done")
	default:
		m.leave("cancel", of, r)
		m.cancelUnneeded()
	}
}

// cancelForAll ends the maintenance for all requestors.
func (m *nodeMaintenance) cancelForAll(r temporal.SignalRequest) {
	for _, of := range m.state.Requestors[1:] {
		if of.State.NeedsNode() {
			m.setRequestor(of, maintenancev1.RequestorLeft, kit.ActorSuffix(r))
		}
	}
	m.leave("cancel", m.state.first(), r)
	m.cancelUnneeded()
}

// leave removes a requestor after a signal, and ends its Job.
func (m *nodeMaintenance) leave(signal string, of *Requestor, r temporal.SignalRequest) {
	if of == m.state.first() && m.state.Return.CancelledBy == nil {
		m.state.Return.CancelledBy = &r
	}
	if of.State.NeedsNode() {
		m.setRequestor(of, maintenancev1.RequestorLeft, kit.ActorSuffix(r))
	}
	if of == m.state.first() && m.stopJob != nil {
		m.stopJob()
	}
	if m.state.needed() && m.state.Return.Begun == No {
		m.record.note(m.received(signal, of, r) + ": the node is kept for " + names(m.state.requestors(needsNode)))
	}
}

// cancelUnneeded cancels the work if no requestor needs the node. A node on which a requestor has worked is checked first.
func (m *nodeMaintenance) cancelUnneeded() {
	if !m.state.needed() && !(m.state.Status.ReadyForRequestors && m.state.worked()) {
		m.state.Return.Begun = Yes
		m.stopWork()
	}
}
