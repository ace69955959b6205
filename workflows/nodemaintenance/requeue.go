package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// requeueAfter releases the slot after an attempt with that outcome, and waits until the node may be maintained again.
func (m *nodeMaintenance) requeueAfter(ctx workflow.Context, last outcome, cause error) error {
	switch last {
	case outcomeLockCycle:
		return m.requeueForCycle(ctx, cause)
	case outcomeNodeBusy:
		return m.requeueForHolder(ctx, cause)
	}
	return m.requeueForWindow(ctx)
}

// requeueForHolder releases the slot until another maintenance of the node has ended, which may take long: other nodes may have the slot until then. It
// does not wait for locks, which may be released for the other maintenance. A closed window ends the wait, too: it is no reason to keep a rollout waiting.
func (m *nodeMaintenance) requeueForHolder(ctx workflow.Context, busy error) error {
	m.record.note("queued again: " + temporal.ErrorMessage(busy))
	m.withdrawLockRequests(ctx, false)
	m.stopLockClocks(ctx)
	if err := m.giveUpSlot(ctx); err != nil {
		return err
	}
	_, err := m.whileOpen(m.awaitNodeFree)(ctx)
	return err
}

func (m *nodeMaintenance) awaitNodeFree(ctx workflow.Context) (outcome, error) {
	in := node.AwaitNodeFreeInput{NodeRef: m.node}
	err := m.await(ctx, "AwaitNodeFree", "wait until "+m.node.Node+" is free", nil, "", m.nodes.AwaitNodeFree, in, nil)
	return m.state.outcomeOf(err), err
}

// requeueForCycle breaks a lock cycle. It withdraws the lock requests, releases the slot, and waits until the other maintenances in the cycle are served.
// Otherwise the same cycle could occur again.
func (m *nodeMaintenance) requeueForCycle(ctx workflow.Context, cycle error) error {
	m.record.note("queued again: " + temporal.ErrorMessage(cycle))
	if err := m.requeue(ctx); err != nil {
		return err
	}
	in := locks.RequestsServedInput{Cluster: m.in.Cluster, Deadline: m.state.Locks.Clock.RunsOut}
	for _, first := range temporal.Blockers(cycle) {
		in.Requests = append(in.Requests, first.Name)
	}
	err := m.await(ctx, "AwaitRequestsServed", "wait for the maintenances that go first", in.Deadline, temporal.ErrLockTimedOut, m.locks.AwaitRequestsServed, in, nil)
	m.stopLockClocks(ctx)
	return err
}

// requeueForPods releases the slot of a node whose pods may not be evicted, and pauses before the next attempt.
func (m *nodeMaintenance) requeueForPods(ctx workflow.Context, refused error, pause time.Duration) error {
	m.record.note("queued again: " + temporal.ErrorMessage(refused))
	m.stopLockClocks(ctx)
	if err := m.requeue(ctx); err != nil {
		return err
	}
	return m.pauseAfter(ctx, refused, pause)
}

// requeueForWindow releases the slot and the locks of a node that was not cordoned before its window closed, as far as the workflow knows. In the next
// opening, the lock request has the remaining time.
func (m *nodeMaintenance) requeueForWindow(ctx workflow.Context) error {
	m.stopLockClocks(ctx)
	if m.state.Node.Cordoned.Possible() {
		if err := m.returnUnconfirmed(ctx); err != nil {
			return err
		}
	}
	return m.requeue(ctx)
}

// returnUnconfirmed returns a node that an unanswered attempt may have cordoned. The node keeps its slot until it is in service.
func (m *nodeMaintenance) returnUnconfirmed(ctx workflow.Context) error {
	in := node.ReturnNodeInput{NodeRef: m.node, Ended: &node.MaintenanceEnd{
		State: maintenancev1.NodePending, Message: "the maintenance window has closed; the maintenance waits for a slot again",
	}}
	var result node.ReturnNodeResult
	if err := m.retrier().Run(ctx, "return "+m.node.Node, m.nodes.ReturnNode, in, &result); err != nil {
		return err
	}
	m.state.Node.Cordoned = No
	m.record.log.Info("Node returned to service")
	m.record.note(result.Note)
	if m.in.Slot != nil {
		return nil // a rollout's maintenance ends
	}
	return m.plan(ctx)
}

// requeue withdraws the lock requests and releases the slot.
func (m *nodeMaintenance) requeue(ctx workflow.Context) error {
	switch mayHaveReleased := m.state.Locks.mayHaveReleased(); {
	case m.state.Locks.Request.Possible():
		m.withdrawLockRequests(ctx, mayHaveReleased)
	case mayHaveReleased:
		m.awaitLocksActive(ctx)
	}
	return m.giveUpSlot(ctx)
}

// giveUpSlot returns the slot to the scheduler, or to the rollout, because the maintenance has to wait without it.
func (m *nodeMaintenance) giveUpSlot(ctx workflow.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.enter(ctx, requeue)
	if m.in.Slot != nil {
		m.state.Return.ParentSlot = SlotRequeued
		m.returnParentSlot(ctx)
	} else {
		m.cancelSlotRequest()
	}
	return ctx.Err()
}
