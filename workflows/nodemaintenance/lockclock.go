package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// lockClock measures the time of a lock request for lockTimeoutSeconds. While the maintenance waits for another slot there is no request, and the clock is
// paused. It starts over only after the locks were inactive.
type lockClock struct {
	// Left is the remaining time when the clock stopped last; nil: it has not run.
	Left *time.Duration `json:"left,omitempty"`
	// RunsOut is the time of the timeout; nil: the clock is paused, or there is no limit.
	RunsOut *time.Time `json:"runsOut,omitempty"`
}

// lockClockOf returns a clock with those remaining seconds; nil: it has not run.
func lockClockOf(seconds *int32) lockClock {
	if seconds == nil {
		return lockClock{}
	}
	return lockClock{Left: new(time.Duration(*seconds) * time.Second)}
}

// run starts or resumes the clock, and returns the time of the timeout; nil: there is no limit.
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

// seconds returns the remaining seconds; nil: the clock has not run.
func (c *lockClock) seconds() *int32 {
	if c.Left == nil {
		return nil
	}
	return new(int32(*c.Left / time.Second))
}

// runLockClock starts or resumes one of the clocks, and returns the time of its timeout.
func (m *nodeMaintenance) runLockClock(ctx workflow.Context, clock *lockClock) *time.Time {
	m.state.Status.LockTimeLeft = nil
	return clock.run(ctx, m.spec.LockTimeoutSeconds)
}

// stopLockClocks stops the clocks until the locks are requested again, and shows the remaining time.
func (m *nodeMaintenance) stopLockClocks(ctx workflow.Context) {
	locks := &m.state.Locks
	locks.Cluster.Clock.stop(ctx)
	locks.Clock.stop(ctx)
	left := maintenancev1.LockTimeLeft{ClusterSeconds: locks.Cluster.Clock.seconds(), NodeSeconds: locks.Clock.seconds()}
	if left != (maintenancev1.LockTimeLeft{}) {
		m.state.Status.LockTimeLeft = &left
	}
}

// resetLockClocks resets the clocks once the locks were inactive: a later request has the full timeout.
func (m *nodeMaintenance) resetLockClocks() {
	m.state.Locks.Cluster.Clock, m.state.Locks.Clock, m.state.Status.LockTimeLeft = lockClock{}, lockClock{}, nil
}
