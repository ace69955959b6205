package nodemaintenance

import (
	"fmt"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// listen takes in what people, the parent and our own activities say.
func (m *nodeMaintenance) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Take back what was done and return the node.", func(r temporal.SignalRequest) {
		m.takeBack(r)
	})
	kit.OnSignal(ctx, temporal.SignalDone, "The requestor has finished its work on the node.", m.takeDone)
	kit.OnSignal(ctx, temporal.SignalFail, "The requestor's work has failed: hold the node.", m.takeFailure)
	kit.OnSignal(ctx, temporal.SignalRecover, "The requestor goes on with its work after a failure.", m.takeRecovery)
	kit.OnSignal(ctx, temporal.SignalObserved, "What a waiting activity sees.", m.observe)
	if m.in.Slot == nil {
		m.slots.Listen(ctx, func() {})
		workflow.GoNamed(ctx, "slots", m.slots.Run)
	}
	m.holds.Listen(ctx, m.showHold)
	m.holds.Windows.Listen(ctx, func() {
		m.showHold()
		m.takeBackClosed()
	})
	if m.in.Parent != "" {
		workflow.GoNamed(ctx, "progress", func(ctx workflow.Context) {
			m.record.progress.Report(ctx, m.in.Parent, temporal.SignalNodeProgress, m.in.ProgressLimit, func() any { return m.record.summary() })
		})
	}
}

// observe takes over what the current activity sees; what an earlier one saw is stale.
func (m *nodeMaintenance) observe(o temporal.Observation) {
	if o.Activity != m.awaited {
		return
	}
	m.observed = true
	if o.Drain != nil {
		m.status.Drain, m.draining.Before = o.Drain, o.Drain
		m.draining.Reports++
	}
	m.status.WaitForCompletion = o.Pods
	if kit.TurnedUrgent(m.status.Wait, o.Wait) {
		m.record.progress.Hurry()
	}
	m.record.reason.Replace(o.Wait)
}

// leaveQueue takes back a request for a slot that was not granted: the clean-up may take long, and others wait behind it.
func (m *nodeMaintenance) leaveQueue() {
	if m.slots.Waits() {
		m.giveSlotBack()
	}
}

// cleanUp takes back what was done, in reverse order: the job, the cordon, the request to the locks. What cannot be taken back
// within the limit is reported. A node whose job could not be removed is kept.
func (m *nodeMaintenance) cleanUp(ctx workflow.Context, err error) {
	m.record.enter(ctx, maintenancev1.NodeCleaningUp)
	retrier := m.cleanUpRetrier(ctx)
	// A job that may be at work is ended before anything else, however long that takes.
	if m.jobStarted && !m.jobFinished {
		if left := m.removeJob(ctx, retrier); left != nil {
			m.keepNode(ctx, left)
			return
		}
	}
	mayHaveLetGo := !m.gaveWay && m.mayHaveLetGo()
	var found locks.NodeLocks
	if m.marked {
		found = m.returnNode(ctx, retrier, err, mayHaveLetGo)
	}
	if m.lockState.Requested {
		found = m.withdrawRequest(ctx, retrier)
	}
	if mayHaveLetGo && !found.Active {
		m.awaitLocksActive(ctx)
	}
	m.withdrawCluster(ctx, retrier)
	if m.status.NotReturned {
		_ = m.announce(ctx, m.endState(err), m.end(err).Message).Get(ctx, nil)
	}
}

// keepNode leaves the node as it is, out of service and with its locks let go: a job that could not be removed may be at work on it. All that bears our
// mark is left to the sweeper, which takes it back in the same order, the job first.
func (m *nodeMaintenance) keepNode(ctx workflow.Context, left error) {
	message := "the node is kept out of service until its job is gone: " + temporal.ErrorMessage(left)
	then := " returns it then"
	if m.keepsOnFailure() {
		then = " removes its marks then, and leaves it cordoned, as onFailure asks"
	}
	m.record.note(message + "; workflow " + temporal.SweeperID(m.in.Cluster) + then)
	m.status.LeftCordoned = m.cordoned && m.cordons()
	failure := kit.FailureOf(left)
	failure.Message = message
	m.leaveNode(failure)
	_ = m.announce(ctx, maintenancev1.NodeFailed, message).Get(ctx, nil)
}

// leaveNode leaves the node to the sweeper. The maintenance has failed then, whatever became of the work: nobody may take the node for returned.
func (m *nodeMaintenance) leaveNode(failure *maintenancev1.Failure) {
	m.status.NotReturned = true
	if m.status.Failure == nil {
		m.status.Failure = failure
	}
}

// cleanUpRetrier is that of a whole clean-up: all its steps share one limit.
func (m *nodeMaintenance) cleanUpRetrier(ctx workflow.Context) kit.Retrier {
	return m.retrier().Until(workflow.Now(ctx).Add(cleanUpLimit))
}

// returnNode returns the node; what always goes with that goes with it.
func (m *nodeMaintenance) returnNode(ctx workflow.Context, retrier kit.Retrier, err error, mayHaveLetGo bool) locks.NodeLocks {
	keep := m.status.Failure != nil && m.keepsOnFailure()
	in := node.ReturnNodeInput{
		NodeRef: m.node, KeepCordoned: keep, Withdraw: m.lockState.Requested, RequestUID: m.lockState.RequestUID, Ended: m.end(err),
		WithdrawCluster: m.lockState.ClusterRequested, ClusterRequestUID: m.lockState.ClusterRequestUID, Slot: m.parentsSlot(err), AwaitLocks: mayHaveLetGo,
	}
	if m.jobFinished {
		in.FinishedJob = new(m.jobInput())
	}
	if m.cordoned {
		m.record.stages.Begin(ctx, maintenancev1.StageKubernetesUncordoned)
	}
	if m.lockState.Requested {
		m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRemoved)
	}
	var result node.ReturnNodeResult
	undone := m.undo(ctx, retrier, "return "+m.node.Node, m.nodes.ReturnNode, in, &result)
	m.slotReturned = result.SlotReturned
	m.record.note(result.Note)
	m.record.lockProgress(result.LockProgress)
	if m.nodeUID != "" {
		m.recordHeldAgain(result.LocksHeld)
	}
	m.record.stages.End(ctx, maintenancev1.StageKubernetesUncordoned, undone, result.Note)
	// A node that was not taken is out of service for somebody else.
	if m.cordoned {
		m.recordReturn(result, undone)
	}
	if undone == nil && !result.NotWithdrawn {
		m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRemoved, nil, m.lockNote())
		m.lockState.Requested = false
	}
	if result.ClusterWithdrawn {
		m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
		m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, nil, "")
		m.lockState.ClusterRequested = false
	}
	return result.Locks
}

// recordReturn records how a node is left that may have been taken.
func (m *nodeMaintenance) recordReturn(result node.ReturnNodeResult, undone error) {
	if undone != nil {
		m.status.LeftCordoned = m.cordons()
		message := "the node could not be returned: " + temporal.ErrorMessage(undone) + "; workflow " + temporal.SweeperID(m.in.Cluster) + " goes on trying"
		if m.keepsOnFailure() {
			message += " to remove its marks, and leaves it cordoned, as onFailure asks"
		}
		m.leaveNode(&maintenancev1.Failure{Reason: temporal.ErrNodeNotReturned, Message: message})
		return
	}
	if m.status.LeftCordoned = result.LeftCordoned; result.LeftCordoned && result.Note == "" {
		m.record.note("left cordoned: our marks had been removed before, by an attempt whose answer was lost, or by somebody else")
	}
}

// parentsSlot is the parent's slot if the maintenance gives it back: when it has completed. Else the parent has to hear of its end before the
// slot is free, for it may not want to go on.
func (m *nodeMaintenance) parentsSlot(err error) *scheduling.HeldSlot {
	if m.endState(err) != maintenancev1.NodeCompleted {
		return nil
	}
	return m.in.Slot
}

// releaseSlot gives the slot back, or the request for it. A node that could not be returned goes on to count as under maintenance.
func (m *nodeMaintenance) releaseSlot(ctx workflow.Context, err error) {
	if m.slotReturned || m.in.Slot != nil && m.parentsSlot(err) == nil {
		return
	}
	if m.in.Slot != nil {
		m.returnParentsSlot(ctx)
		return
	}
	m.slots.Release(m.in.Object.Name, scheduling.Release{Unclean: m.status.NotReturned, LeftOut: m.status.LeftCordoned})
	_ = m.slots.Settle(ctx)
}

// returnParentsSlot gives the parent's slot back. A scheduler that is not there is started by it, and hears from the parent which slots it has.
func (m *nodeMaintenance) returnParentsSlot(ctx workflow.Context) {
	in := scheduler.ReturnSlotInput{Cluster: m.in.Cluster, Return: m.in.Slot.Return(m.status.LeftCordoned)}
	hub := kit.HubRetrier(m.record.reason.Set)
	m.slotReturned = hub.Run(ctx, "return the slot of "+m.node.Node, m.scheduler.ReturnSlot, in, nil) == nil
}

func (m *nodeMaintenance) withdrawRequest(ctx workflow.Context, retrier kit.Retrier) (found locks.NodeLocks) {
	in := locks.NodeLockInput{NodeRef: m.node}
	m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRemoved)
	err := m.undo(ctx, retrier, "withdraw the request for "+m.node.Node, m.locks.WithdrawNodeMaintenance, in, &found)
	m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRemoved, err, m.lockNote())
	m.lockState.Requested = err != nil
	return found
}

func (m *nodeMaintenance) awaitLocksActive(ctx workflow.Context) {
	deadline := workflow.Now(ctx).Add(locksActiveLimit)
	in := locks.NodeLockInput{NodeRef: m.node, Deadline: &deadline}
	var inactive []drydockv1.Blocker
	err := m.await(ctx, "AwaitNodeLocksActive", "wait until the locks of "+m.node.Node+" are active", &deadline, temporal.ErrLockTimedOut,
		m.locks.AwaitNodeLocksActive, in, &inactive)
	if err != nil && ctx.Err() == nil {
		m.record.note("could not see whether the locks are active again: " + temporal.ErrorMessage(err))
	}
	for _, lock := range inactive {
		m.record.note(fmt.Sprintf("%s is not active again: %s", lock, lock.Message))
	}
}

// undo retries to undo something, and notes when that was not possible.
func (m *nodeMaintenance) undo(ctx workflow.Context, retrier kit.Retrier, summary string, activity, input, result any) error {
	err := retrier.Run(ctx, summary, activity, input, result)
	if err != nil {
		m.record.note("could not " + summary + ": " + temporal.ErrorMessage(err))
	}
	return err
}

// finish turns the way the work ended into the end of the workflow.
func (m *nodeMaintenance) finish(ctx workflow.Context, err error) (maintenancev1.NodeMaintenanceStatus, error) {
	now := m.record.now(ctx)
	m.status.CompletedAt = &now
	state := m.endState(err)
	if state == maintenancev1.NodeCancelled && m.withdrawn != nil && kit.ActorSuffix(*m.withdrawn) != "" {
		m.record.note("cancelled" + kit.ActorSuffix(*m.withdrawn))
	}
	if state != maintenancev1.NodePending && state != maintenancev1.NodeCancelled {
		m.status.LockTimeLeft = nil // nobody asks once more
	}
	m.record.enter(ctx, state)
	switch state {
	case maintenancev1.NodeCompleted, maintenancev1.NodePending:
		return m.status, nil
	case maintenancev1.NodeCancelled:
		return m.status, sdktemporal.NewCanceledError(m.status)
	}
	failure := m.status.Failure
	return m.status, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{m.status}})
}
