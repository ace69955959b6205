package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// awaitRefused pauses before locks are looked at again that were taken back in the last moment, and says so.
func awaitRefused(ctx workflow.Context, reason kit.CurrentReason, refused error, pause time.Duration, summary string) error {
	reason.Set(ctx, temporal.ErrLockRefused, temporal.ErrorMessage(refused))
	err := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
	reason.Set(ctx, "", "")
	return err
}

// lockClock measures for how long workload locks have been asked to let go, against lockTimeoutSeconds. It never begins anew before they have: while the
// maintenance waits for its turn again, they are not asked, and the clock stands still.
type lockClock struct {
	// Left is what was left when it stopped last; nil: it has not run.
	Left *time.Duration `json:"left,omitempty"`
	// RunsOut is when there is nothing left; nil: it stands still, or there is no limit.
	RunsOut *time.Time `json:"runsOut,omitempty"`
}

// lockClockOf is one that goes on with those seconds, or has not run if there are none.
func lockClockOf(seconds *int32) lockClock {
	if seconds == nil {
		return lockClock{}
	}
	return lockClock{Left: new(time.Duration(*seconds) * time.Second)}
}

// run lets it go on, and returns when it runs out; nil: there is no limit.
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

// seconds are those that are left; nil: it has not run.
func (c *lockClock) seconds() *int32 {
	if c.Left == nil {
		return nil
	}
	return new(int32(*c.Left / time.Second))
}

// runLockClock lets one of the clocks go on, and returns when it runs out.
func (m *nodeMaintenance) runLockClock(ctx workflow.Context, clock *lockClock) *time.Time {
	m.status.LockTimeLeft = nil
	return clock.run(ctx, m.spec.LockTimeoutSeconds)
}

// stopLockClocks lets the clocks stand still until the locks are asked once more, and shows what is left.
func (m *nodeMaintenance) stopLockClocks(ctx workflow.Context) {
	m.lockState.ClusterClock.stop(ctx)
	m.lockState.NodeClock.stop(ctx)
	left := maintenancev1.LockTimeLeft{ClusterSeconds: m.lockState.ClusterClock.seconds(), NodeSeconds: m.lockState.NodeClock.seconds()}
	if left != (maintenancev1.LockTimeLeft{}) {
		m.status.LockTimeLeft = &left
	}
}

// locksLetGo: whoever is asked once more after that has all the time again.
func (m *nodeMaintenance) locksLetGo() {
	m.lockState.ClusterClock, m.lockState.NodeClock, m.status.LockTimeLeft = lockClock{}, lockClock{}, nil
}
