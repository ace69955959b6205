package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// lockClock measures for how long workload locks have been requested to release a node, against lockTimeoutSeconds. While the maintenance waits for a slot
// again, they are not requested, and the clock is paused. It starts over only after they released the node.
type lockClock struct {
	// Left is what was left when it stopped last; nil: it has not run.
	Left *time.Duration `json:"left,omitempty"`
	// RunsOut is when there is nothing left; nil: it is paused, or there is no limit.
	RunsOut *time.Time `json:"runsOut,omitempty"`
}

// lockClockOf is a clock that has those seconds left, or has not run if there are none.
func lockClockOf(seconds *int32) lockClock {
	if seconds == nil {
		return lockClock{}
	}
	return lockClock{Left: new(time.Duration(*seconds) * time.Second)}
}

// run starts or resumes the clock, and returns when it runs out; nil: there is no limit.
func (c *lockClock) run(ctx workflow.Context, limitSeconds *int32) *time.Time {
	switch {
	case limitSeconds == nil || c.RunsOut != nil:
	case c.Left != nil:
		c.RunsOut = new(workflow.Now(ctx).Add(*c.Left))
	default:
		c.RunsOut = kit.DeadlineIn(ctx, *limitSeconds)
	}
	return c.RunsOut
}

func (c *lockClock) stop(ctx workflow.Context) {
	if c.RunsOut != nil {
		c.Left, c.RunsOut = new(max(0, c.RunsOut.Sub(workflow.Now(ctx)))), nil
	}
}

// seconds are those that are left; nil: the clock has not run.
func (c *lockClock) seconds() *int32 {
	if c.Left == nil {
		return nil
	}
	return new(int32(*c.Left / time.Second))
}

// runLockClock starts or resumes one of the clocks, and returns when it runs out.
func (m *nodeMaintenance) runLockClock(ctx workflow.Context, clock *lockClock) *time.Time {
	m.state.Status.LockTimeLeft = nil
	return clock.run(ctx, m.spec.LockTimeoutSeconds)
}

// stopLockClocks stops the clocks until the locks are requested again, and shows the time that is left.
func (m *nodeMaintenance) stopLockClocks(ctx workflow.Context) {
	locks := &m.state.Locks
	locks.Cluster.Clock.stop(ctx)
	locks.Clock.stop(ctx)
	left := maintenancev1.LockTimeLeft{ClusterSeconds: locks.Cluster.Clock.seconds(), NodeSeconds: locks.Clock.seconds()}
	if left != (maintenancev1.LockTimeLeft{}) {
		m.state.Status.LockTimeLeft = &left
	}
}

// resetLockClocks gives locks that are requested again after they released the node their whole time.
func (m *nodeMaintenance) resetLockClocks() {
	m.state.Locks.Cluster.Clock, m.state.Locks.Clock, m.state.Status.LockTimeLeft = lockClock{}, lockClock{}, nil
}
