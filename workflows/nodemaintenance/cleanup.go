package nodemaintenance

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// cleanUpLimit limits the retries of a cleanup.
const cleanUpLimit = 30 * time.Minute

// cleanUp removes the Job, uncordons the node and withdraws the lock requests, in this order. It notes the steps that fail until the limit. A node whose
// Job cannot be removed stays out of service.
func (m *nodeMaintenance) cleanUp(ctx workflow.Context, err error) {
	m.enter(ctx, cleanUp)
	retrier := m.cleanUpRetrier(ctx)
	// A Job that may be in progress is removed first, even if that takes long.
	if m.state.Job == JobStarted {
		if left := m.removeJob(ctx, retrier); left != nil {
			m.keepNode(ctx, left)
			return
		}
	}
	mayHaveReleased := m.state.Return.ParentSlot != SlotRequeued && m.state.Locks.mayHaveReleased()
	var found locks.NodeLocks
	if m.state.Node.Marked.Possible() {
		found = m.returnNode(ctx, retrier, err, mayHaveReleased)
	}
	if m.state.Locks.Request.Possible() {
		found = m.withdrawNodeRequest(ctx, retrier)
	}
	if mayHaveReleased && !found.Active {
		m.awaitLocksActive(ctx)
	}
	m.withdrawClusterRequest(ctx, retrier)
	if m.state.Status.NotReturned {
		_ = m.announce(ctx, m.endState(err), m.end(err).Message).Get(ctx, nil)
	}
}

// cleanUpRetrier returns a retrier for a whole cleanup. All its steps share one limit.
func (m *nodeMaintenance) cleanUpRetrier(ctx workflow.Context) kit.Retrier {
	return m.retrier().Until(workflow.Now(ctx).Add(cleanUpLimit))
}

// undo runs a step of the cleanup, and notes its failure.
func (m *nodeMaintenance) undo(ctx workflow.Context, retrier kit.Retrier, summary string, activity, input, result any) error {
	err := retrier.Run(ctx, summary, activity, input, result)
	m.record.log.Info("Cleanup step ended", "step", summary, "error", err)
	if err != nil {
		m.record.note("could not " + summary + ": " + temporal.ErrorMessage(err))
	}
	return err
}

// keepNode leaves the node out of service with inactive locks, because a Job that could not be removed may be in progress. The sweeper does the rest of
// the cleanup in the same order.
func (m *nodeMaintenance) keepNode(ctx workflow.Context, left error) {
	message := "the node is kept out of service until its job is gone: " + temporal.ErrorMessage(left)
	then := " returns it then"
	if m.keepsOnFailure() {
		then = " removes its marks then, and leaves it cordoned, as onFailure requires"
	}
	m.record.note(message + "; workflow " + temporal.SweeperID(m.in.Cluster) + then)
	m.state.Status.LeftCordoned = m.state.Node.Cordoned.Possible() && m.cordons()
	failure := kit.FailureOf(left)
	failure.Message = message
	m.leaveToSweeper(failure)
	_ = m.announce(ctx, maintenancev1.NodeFailed, message).Get(ctx, nil)
}

// leaveToSweeper leaves the node to the sweeper. The maintenance fails even if its work succeeded, because the node is not in service.
func (m *nodeMaintenance) leaveToSweeper(failure *maintenancev1.Failure) {
	m.record.log.Info("Node left to the sweeper", "reason", failure.Reason, "message", failure.Message)
	m.state.Status.NotReturned = true
	if m.state.Status.Failure == nil {
		m.state.Status.Failure = failure
	}
}

// withdrawNodeRequest withdraws the lock request for the node.
func (m *nodeMaintenance) withdrawNodeRequest(ctx workflow.Context, retrier kit.Retrier) (found locks.NodeLocks) {
	in := locks.NodeLockInput{NodeRef: m.node}
	m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRemoved)
	err := m.undo(ctx, retrier, "withdraw the request for "+m.node.Node, m.locks.WithdrawNodeMaintenance, in, &found)
	m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRemoved, err, m.lockNote())
	if err == nil {
		m.state.Locks.Request = No
	}
	return found
}

// withdrawClusterRequest withdraws the lock request for the cluster. It must follow that for the node: if that one was not withdrawn, the sweeper
// withdraws both in order.
func (m *nodeMaintenance) withdrawClusterRequest(ctx workflow.Context, retrier kit.Retrier) {
	if !m.state.Locks.Cluster.Request.Possible() || m.state.Locks.Request.Possible() {
		return
	}
	in := locks.ClusterLockInput{Cluster: m.in.Cluster, Owner: m.node.Owner}
	m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
	err := m.undo(ctx, retrier, "withdraw the request for "+m.in.Cluster, m.locks.WithdrawClusterMaintenance, in, nil)
	m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, err, "")
	if err == nil {
		m.state.Locks.Cluster.Request = No
	}
}

// awaitLocksActive waits until the locks of the node are active again, and notes those that are not in time.
func (m *nodeMaintenance) awaitLocksActive(ctx workflow.Context) {
	deadline := workflow.Now(ctx).Add(locksActiveLimit)
	in := locks.NodeLockInput{NodeRef: m.node, Deadline: &deadline}
	var inactive []drydockv1.Blocker
	err := m.await(ctx, "AwaitNodeLocksActive", "wait until the locks of "+m.node.Node+" are active", &deadline, temporal.ErrLockTimedOut,
		m.locks.AwaitNodeLocksActive, in, &inactive)
	m.record.log.Info("Wait for active workload locks ended", "inactive", len(inactive), "error", err)
	if err != nil && ctx.Err() == nil {
		m.record.note("unknown whether the locks are active again: " + temporal.ErrorMessage(err))
	}
	for _, lock := range inactive {
		m.record.note(fmt.Sprintf("%s is not active again: %s", lock, lock.Message))
	}
}
