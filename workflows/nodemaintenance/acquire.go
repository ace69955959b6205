package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// LockRefusedPause is the first pause after a lock, or a pod that may not be evicted, refused the cordon. It doubles up to LockRefusedPauseLimit.
const (
	LockRefusedPause      = time.Second
	LockRefusedPauseLimit = time.Minute
)

// outcome is the result of a step of an attempt to cordon the node.
type outcome string

const (
	// outcomeNext: the attempt continues with its next step.
	outcomeNext outcome = ""
	// outcomeAcquired: the node is out of service.
	outcomeAcquired outcome = "acquired"
	// outcomeClusterLocked: a lock of the cluster holds it.
	outcomeClusterLocked outcome = "clusterLocked"
	// outcomeNodeBusy: the node is under a maintenance that the scheduler does not know: one that ended and left its mark, or that of another program.
	outcomeNodeBusy outcome = "nodeBusy"
	// outcomeLockRefused: a lock became active again before the cordon.
	outcomeLockRefused outcome = "lockRefused"
	// outcomeNotEvictable: the node has pods that the drain may not evict, and the maintenance waits for their end.
	outcomeNotEvictable outcome = "notEvictable"
	// outcomeHeld: the emergency stop or a window held the cluster before the step started.
	outcomeHeld outcome = "held"
	// outcomeLockCycle: this maintenance and others wait for each other's locks. The others go first.
	outcomeLockCycle outcome = "lockCycle"
	// outcomeWindowClosed: the maintenance window has closed.
	outcomeWindowClosed outcome = "windowClosed"
	// outcomeHistoryLong: the workflow continues as new before the next attempt.
	outcomeHistoryLong outcome = "historyLong"
	// outcomeFailed: the maintenance ends.
	outcomeFailed outcome = "failed"
)

// outcomeOf returns the outcome of a step that ended with that error.
func (s *State) outcomeOf(err error) outcome {
	if err == nil {
		return outcomeNext
	}
	switch temporal.ErrorType(err) {
	case temporal.ErrNodeBusy:
		return outcomeNodeBusy
	case temporal.ErrLockRefused:
		if s.Locks.Answer == LocksRequested {
			return outcomeLockRefused
		}
	case temporal.ErrHeld:
		return outcomeHeld
	case temporal.ErrLockCycle:
		return outcomeLockCycle
	}
	return outcomeFailed
}

// step is a step of an attempt to cordon the node. The error is the cause of its outcome.
type step func(workflow.Context) (outcome, error)

// acquire waits for a slot, unless an earlier run or the rollout has one, and cordons the node. It returns false without an error if the rollout must
// request another slot.
func (m *nodeMaintenance) acquire(ctx workflow.Context) (acquired bool, err error) {
	last, pause := outcomeNext, LockRefusedPause
	for {
		if !m.slots.Granted(m.in.Object.Name) {
			if err := m.awaitNode(ctx); err != nil {
				return false, err
			}
		}
		refused := last == outcomeLockRefused || last == outcomeNotEvictable
		last, err = m.attemptAfter(ctx, last, err, pause)
		if last == outcomeFailed && m.drainsAgain(err) {
			last = outcomeNotEvictable
		}
		if refused {
			pause = min(2*pause, LockRefusedPauseLimit)
		}
		m.record.log.Info("Attempt to cordon the node ended", "outcome", string(last), "error", err)
		switch last {
		case outcomeAcquired:
			return true, nil
		case outcomeFailed:
			return false, err
		case outcomeHistoryLong:
			if err := m.continueAsNew(ctx, notCancelled); err != nil {
				return false, err
			}
		case outcomeNotEvictable:
			if err := m.requeueForPods(ctx, err, pause); err != nil {
				return false, err
			}
		case outcomeWindowClosed, outcomeLockCycle, outcomeNodeBusy:
			if err := m.requeueAfter(ctx, last, err); err != nil || m.in.Slot != nil {
				return false, err
			}
			pause = LockRefusedPause
		}
	}
}

// attemptAfter waits until the cause of the last outcome has ended, and tries again to cordon the node.
func (m *nodeMaintenance) attemptAfter(ctx workflow.Context, last outcome, cause error, pause time.Duration) (outcome, error) {
	ended, err := m.waitAfter(ctx, last, cause, pause)
	switch {
	case ended != outcomeNext:
		return ended, err
	case historyLong(ctx) && (last == outcomeNodeBusy || last == outcomeLockRefused || last == outcomeNotEvictable || last == outcomeHeld):
		return outcomeHistoryLong, nil
	}
	return m.attempt(ctx)
}

// waitAfter waits until the cause of the last outcome has ended.
func (m *nodeMaintenance) waitAfter(ctx workflow.Context, last outcome, cause error, pause time.Duration) (outcome, error) {
	switch last {
	case outcomeClusterLocked:
		if m.state.Locks.Cluster.Request.Possible() {
			return m.whileOpen(m.awaitClusterLocks)(ctx)
		}
	case outcomeLockRefused:
		m.record.note("waiting for locks again: " + temporal.ErrorMessage(cause))
		err := m.pauseAfter(ctx, cause, pause)
		return m.state.outcomeOf(err), err
	}
	return outcomeNext, nil
}

// attempt requests the workload locks of the node and its cluster, waits until those of the node are inactive, and cordons the node.
func (m *nodeMaintenance) attempt(ctx workflow.Context) (outcome, error) {
	steps := []step{m.whileOpen(m.awaitReleaseStep), m.requestNode, m.whileOpen(m.awaitLocks), m.whileOpen(m.awaitReleaseStep), m.cordon}
	for _, step := range steps {
		if ended, err := step(ctx); ended != outcomeNext {
			return ended, err
		}
	}
	return outcomeAcquired, nil
}

func (m *nodeMaintenance) awaitReleaseStep(ctx workflow.Context) (outcome, error) {
	err := m.awaitRelease(ctx)
	return m.state.outcomeOf(err), err
}

// pauseAfter pauses after a lock or pods refused an attempt, and shows why. An edit of the request ends the pause.
func (m *nodeMaintenance) pauseAfter(ctx workflow.Context, refused error, pause time.Duration) error {
	m.waits.refused = refused
	timer := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "before the next attempt on " + m.node.Node})
	edits := m.edits
	return m.awaitGate(ctx, gateRefused, func() bool { return timer.IsReady() || m.edits != edits })
}

// unless runs wait until other succeeds, and reports whether other ended it.
func unless(ctx workflow.Context, name string, wait step, other func(workflow.Context) error) (ended outcome, err error, otherFirst bool) {
	_ = kit.Within(ctx, func(ctx workflow.Context) error {
		waiting, stop := workflow.WithCancel(ctx)
		workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
			if otherFirst = other(ctx) == nil; otherFirst {
				stop()
			}
		})
		ended, err = wait(waiting)
		return nil
	})
	return ended, err, otherFirst && ended != outcomeNext && ctx.Err() == nil
}
