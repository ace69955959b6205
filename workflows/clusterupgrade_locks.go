package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// awaitClusterLocks asks the workloads of the cluster to let go, before any node is touched.
func (c *clusterUpgrade) awaitClusterLocks(ctx workflow.Context) error {
	if c.in.Carried != nil || len(c.status.Nodes) == 0 {
		return nil
	}
	c.record.enter(ranv1.StepClusterLocks)
	in := activities.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner, Scope: scheduling.LockScope(c.in.Remediation.Action), Requested: true}
	for pause := lockRefusedPause; ; pause = min(2*pause, lockRefusedPauseLimit) {
		if err := c.awaitRelease(ctx, &in); err != nil {
			return err
		}
		err := c.askClusterLocks(ctx, &in)
		switch temporal.ErrorType(err) {
		case temporal.ErrHeld:
			continue
		case temporal.ErrLockRefused:
		default:
			return err
		}
		c.record.note("asking the workload locks again: " + temporal.ErrorMessage(err))
		if err := c.awaitRefused(ctx, err, pause); err != nil {
			return err
		}
	}
}

// awaitRelease stands before every request to the locks: none is made while the cluster is held, or the rollout paused. The locks have all their time after
// that.
func (c *clusterUpgrade) awaitRelease(ctx workflow.Context, in *activities.ClusterLockInput) error {
	var err error
	for err == nil && c.held() != nil {
		in.Deadline, c.asksLocks = nil, true
		c.record.show()
		paused, number := c.status.Paused, c.holds.number()
		err = workflow.Await(ctx, func() bool { return c.status.Paused != paused || c.holds.number() != number })
	}
	if c.asksLocks {
		c.asksLocks = false
		c.record.show()
	}
	return err
}

// awaitRefused waits before the locks are asked again that have refused.
func (c *clusterUpgrade) awaitRefused(ctx workflow.Context, refused error, pause time.Duration) error {
	c.refused = newWait(ctx, nil, temporal.ErrLockRefused, temporal.ErrorMessage(refused))
	c.record.show()
	err := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "before asking the locks of " + c.in.Cluster + " again"}).Get(ctx, nil)
	c.refused = nil
	c.record.show()
	return err
}

// held says as an error what keeps anything new from being begun on the cluster; nil: nothing does.
func (c *clusterUpgrade) held() error {
	if hold := c.holds.of(c.in.Cluster); hold != nil {
		return temporal.Error(temporal.ErrHeld, emergency.Message(*hold), nil)
	}
	if c.status.Paused {
		return temporal.Error(temporal.ErrHeld, "the rollout is paused", nil)
	}
	return nil
}

// askClusterLocks requests the maintenance of the cluster, and waits until its locks have let go, until the deadline that is set the first time. Errors:
// LockRefused when the request is gone; Held when none was made because of that.
func (c *clusterUpgrade) askClusterLocks(ctx workflow.Context, in *activities.ClusterLockInput) error {
	c.requested = true
	c.record.stages.begin(ctx, ranv1.StageClusterMaintenanceRequested)
	insist := c.insist()
	insist.before, in.Closes = c.held, c.holds.closes(c.in.Cluster)
	err := insist.effect(ctx, "request maintenance of "+c.in.Cluster, c.locks.RequestClusterMaintenance, *in, &c.locked)
	c.answered = err == nil
	c.record.stages.end(ctx, ranv1.StageClusterMaintenanceRequested, err, c.lockNote())
	if err != nil || !c.locked {
		return err
	}
	if in.Deadline == nil && c.in.Remediation.LockTimeoutSeconds != nil {
		in.Deadline = deadlineIn(ctx, *c.in.Remediation.LockTimeoutSeconds)
	}
	c.record.stages.begin(ctx, ranv1.StageClusterWorkloadLocksInactive)
	err = c.await(ctx, "AwaitClusterLocks", "wait for the workload locks of "+c.in.Cluster, in.Deadline, temporal.ErrLockTimedOut, c.locks.AwaitClusterLocks, *in)
	c.record.stages.end(ctx, ranv1.StageClusterWorkloadLocksInactive, err, "")
	return err
}

func (c *clusterUpgrade) lockNote() string {
	if c.answered && !c.locked {
		return "the cluster has no workload locks"
	}
	return ""
}

const (
	// activityFollowLocks is the one that follows the workload locks of a cluster.
	activityFollowLocks = "FollowLocks"
	// followLimit is how long one of them does: so long no report of it is put off.
	followLimit = 30 * time.Minute
)

// followLocks shows how far applications have come whenever that changes, from the moment that a node has told of locks until ctx is cancelled.
func (c *clusterUpgrade) followLocks(ctx workflow.Context) {
	// What cannot be seen is not what the cluster is waited for.
	insist := onCluster(c.in.Cluster, &c.in.TaskQueue, func(workflow.Context, string, string) {})
	for workflow.Await(ctx, func() bool { return len(c.status.LockProgress) > 0 }) == nil {
		deadline := workflow.Now(ctx).Add(followLimit)
		in := activities.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner, Deadline: &deadline}
		err := insist.wait(ctx, "follow the workload locks of "+c.in.Cluster, &deadline, temporal.ErrClusterUnreachable, c.locks.FollowLocks, in, nil)
		c.record.followsLocks = false
		if err != nil && temporal.ErrorType(err) != temporal.ErrClusterUnreachable {
			return
		}
	}
}
