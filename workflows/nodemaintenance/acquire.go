package nodemaintenance

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// outcome is how an attempt at cordoning the node ended.
type outcome string

const (
	// outcomeAcquired: the node is out of service.
	outcomeAcquired outcome = "acquired"
	// outcomeClusterLocked: a lock of the cluster holds it.
	outcomeClusterLocked outcome = "clusterLocked"
	// outcomeNodeBusy: a maintenance that the scheduler does not know has the node.
	outcomeNodeBusy outcome = "nodeBusy"
	// outcomeLockRefused: a lock was taken back at the last moment.
	outcomeLockRefused outcome = "lockRefused"
	// outcomeHeld: the emergency stop, or a window, held the cluster before the attempt had begun.
	outcomeHeld outcome = "held"
	// outcomeLockCycle: this maintenance and others wait for each other's locks, and the others go first.
	outcomeLockCycle outcome = "lockCycle"
	// outcomeWindowClosed: the maintenance window has closed.
	outcomeWindowClosed outcome = "windowClosed"
	// outcomeHistoryLong: the next run goes on.
	outcomeHistoryLong outcome = "historyLong"
	// outcomeFailed: the maintenance ends.
	outcomeFailed outcome = "failed"
)

// outcomeOf is the outcome of an attempt, or of a wait between two attempts, that ended with that error.
func (m *nodeMaintenance) outcomeOf(err error) outcome {
	switch {
	case err == nil && m.lockState.ClusterHeld:
		return outcomeClusterLocked
	case err == nil:
		return outcomeAcquired
	case errors.Is(err, kit.ErrHistoryLong):
		return outcomeHistoryLong
	case errors.Is(err, errShut):
		return outcomeWindowClosed
	}
	switch temporal.ErrorType(err) {
	case temporal.ErrNodeBusy:
		return outcomeNodeBusy
	case temporal.ErrLockRefused:
		if m.lockState.Asked {
			return outcomeLockRefused
		}
	case temporal.ErrHeld:
		return outcomeHeld
	case temporal.ErrLockCycle:
		return outcomeLockCycle
	}
	return outcomeFailed
}

// acquire waits for a slot, unless a run before or the rollout has one, and cordons the node. It returns false without an error when a rollout has to
// request another slot.
func (m *nodeMaintenance) acquire(ctx workflow.Context) (acquired bool, err error) {
	last, pause := outcome(""), LockRefusedPause
	for {
		if !m.slots.Granted(m.in.Object.Name) {
			if err := m.awaitNode(ctx); err != nil {
				return false, err
			}
		}
		refused := last == outcomeLockRefused
		last, err = m.attemptAfter(ctx, last, err, pause)
		if refused {
			pause = min(2*pause, LockRefusedPauseLimit)
		}
		workflow.GetLogger(ctx).Info("tried to cordon the node", "cluster", m.in.Cluster, "node", m.node.Node, "requestor", m.spec.RequestorID,
			"outcome", last, "error", err)
		switch last {
		case outcomeAcquired:
			return true, nil
		case outcomeFailed:
			return false, err
		case outcomeHistoryLong:
			if err := m.continueAsNew(ctx, m.takes); err != nil {
				return false, err
			}
		case outcomeWindowClosed, outcomeLockCycle:
			if err := m.requeueAfter(ctx, last, err); err != nil || m.in.Slot != nil {
				return false, err
			}
			pause = LockRefusedPause
		}
	}
}

// attemptAfter waits for what was in the way of the last attempt, and tries to cordon the node.
func (m *nodeMaintenance) attemptAfter(ctx workflow.Context, last outcome, cause error, pause time.Duration) (outcome, error) {
	err := m.waitAfter(ctx, last, cause, pause)
	switch {
	case err != nil:
	case m.isLong(ctx) && (last == outcomeNodeBusy || last == outcomeLockRefused || last == outcomeHeld):
		err = kit.ErrHistoryLong
	default:
		err = m.attempt(ctx)
	}
	return m.outcomeOf(err), err
}

// waitAfter waits for what was in the way of an attempt that ended so.
func (m *nodeMaintenance) waitAfter(ctx workflow.Context, last outcome, cause error, pause time.Duration) error {
	switch last {
	case outcomeClusterLocked:
		if m.lockState.ClusterRequested {
			return m.whileOpen(ctx, m.awaitClusterLocks)
		}
	case outcomeNodeBusy:
		m.record.note("queued again: " + temporal.ErrorMessage(cause))
		m.queueAgain(ctx, false)
		m.stopLockClocks(ctx)
		return m.whileOpen(ctx, m.awaitNodeFree)
	case outcomeLockRefused:
		m.record.note("waiting for locks again: " + temporal.ErrorMessage(cause))
		return awaitRefused(ctx, m.record.reason, cause, pause, "before looking at the locks of "+m.node.Node+" again")
	}
	return nil
}

// requeueAfter gives back what the maintenance has after an attempt that ended so, and waits for those that go first.
func (m *nodeMaintenance) requeueAfter(ctx workflow.Context, last outcome, cause error) error {
	if last == outcomeLockCycle {
		return m.giveWay(ctx, cause)
	}
	return m.standBack(ctx)
}

// attempt asks the workload locks of the node, and of its cluster, to let go, and cordons the node once those of the node have.
func (m *nodeMaintenance) attempt(ctx workflow.Context) error {
	if err := m.whileOpen(ctx, m.awaitRelease); err != nil {
		return err
	}
	if cordoned, err := m.take(ctx); cordoned || err != nil || m.lockState.ClusterHeld {
		return err
	}
	for _, wait := range []func(workflow.Context) error{m.awaitLocks, m.awaitRelease} {
		if err := m.whileOpen(ctx, wait); err != nil {
			return err
		}
	}
	return m.cordon(ctx)
}
