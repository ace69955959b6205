package clusterupgrade

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// Locks is the known state of the workload locks of the cluster.
type Locks struct {
	// Request: our ClusterMaintenanceRequest exists.
	Request nodemaintenance.Fact `json:"request,omitempty"`
	// Answer is the answer to the last request.
	Answer nodemaintenance.LockAnswer `json:"answer,omitempty"`
}

// awaitClusterLocks requests the workload locks of the cluster and waits until they are inactive. No node is disrupted before that.
func (c *clusterUpgrade) awaitClusterLocks(ctx workflow.Context) error {
	if c.in.Carried != nil || len(c.state.Status.Nodes) == 0 {
		return nil
	}
	c.record.enter(ranv1.StepClusterLocks)
	in := locks.ClusterLockInput{
		Cluster: c.in.Cluster, Owner: c.owner, Scope: scheduling.LockScope(c.in.Remediation.Action), Release: c.in.Remediation.LockRelease, Requested: true,
	}
	for pause := nodemaintenance.LockRefusedPause; ; pause = min(2*pause, nodemaintenance.LockRefusedPauseLimit) {
		if err := c.awaitRelease(ctx, &in); err != nil {
			return err
		}
		err := c.requestClusterLocks(ctx, &in)
		switch temporal.ErrorType(err) {
		case temporal.ErrHeld:
			continue
		case temporal.ErrLockRefused:
		default:
			return err
		}
		c.record.note("requesting the workload locks again: " + temporal.ErrorMessage(err))
		if err := c.awaitRefused(ctx, err, pause); err != nil {
			return err
		}
	}
}

// awaitRelease waits until the cluster is not held and the rollout not paused. After a wait, the locks have their full time again.
func (c *clusterUpgrade) awaitRelease(ctx workflow.Context, in *locks.ClusterLockInput) error {
	kit.HandlePendingSignals(ctx)
	var err error
	for err == nil && c.held() != nil {
		in.Deadline, c.blocked = nil, "no workload locks are requested"
		c.record.show()
		paused, number := c.state.Status.Paused, c.holds.Number()
		err = workflow.Await(ctx, func() bool { return c.state.Status.Paused != paused || c.holds.Number() != number })
	}
	if c.blocked != "" {
		c.blocked = ""
		c.record.show()
	}
	return err
}

// awaitRefused waits before a refused request for the locks is retried.
func (c *clusterUpgrade) awaitRefused(ctx workflow.Context, refused error, pause time.Duration) error {
	c.refused = kit.NewWait(ctx, nil, temporal.ErrLockRefused, temporal.ErrorMessage(refused))
	c.record.show()
	err := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "before requesting the locks of " + c.in.Cluster + " again"}).Get(ctx, nil)
	c.refused = nil
	c.record.show()
	return err
}

// held returns the hold or pause that prevents new work on the cluster, as an error; nil: none.
func (c *clusterUpgrade) held() error {
	if hold := c.holds.Of(c.in.Cluster); hold != nil {
		return temporal.Error(temporal.ErrHeld, emergency.Message(*hold), nil)
	}
	if c.state.Status.Paused {
		return temporal.Error(temporal.ErrHeld, "the rollout is paused", nil)
	}
	return nil
}

// requestClusterLocks requests the maintenance of the cluster and waits until its locks are inactive, at most until the deadline that the first call
// sets. Errors: LockRefused if the request was deleted; Held if no request was made.
func (c *clusterUpgrade) requestClusterLocks(ctx workflow.Context, in *locks.ClusterLockInput) error {
	known := &c.state.Locks
	known.Request, known.Answer = nodemaintenance.Maybe, nodemaintenance.LocksUnknown
	c.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRequested)
	retrier := c.retrier()
	retrier.BeforeRound, in.Closes = c.held, c.holds.Closes(c.in.Cluster)
	var locked bool
	err := retrier.Run(ctx, "request maintenance of "+c.in.Cluster, c.locks.RequestClusterMaintenance, *in, &locked)
	switch {
	case err == nil && locked:
		known.Request, known.Answer = nodemaintenance.Yes, nodemaintenance.LocksRequested
	case err == nil:
		known.Answer = nodemaintenance.LocksNone
	}
	c.record.log.Info("Workload locks requested", "answer", string(known.Answer), "error", err)
	c.record.stages.End(ctx, ranv1.StageClusterMaintenanceRequested, err, c.lockNote())
	if err != nil || !locked {
		return err
	}
	if in.Deadline == nil && c.in.Remediation.LockTimeoutSeconds != nil {
		in.Deadline = kit.DeadlineIn(ctx, *c.in.Remediation.LockTimeoutSeconds)
	}
	c.record.stages.Begin(ctx, ranv1.StageClusterWorkloadLocksInactive)
	err = c.await(ctx, "AwaitClusterLocks", "wait for the workload locks of "+c.in.Cluster, in.Deadline, temporal.ErrLockTimedOut, c.locks.AwaitClusterLocks, *in)
	c.record.stages.End(ctx, ranv1.StageClusterWorkloadLocksInactive, err, "")
	c.record.lockWaitEnded(err)
	return err
}

func (c *clusterUpgrade) lockNote() string {
	if c.state.Locks.Answer == nodemaintenance.LocksNone {
		return "the cluster has no workload locks"
	}
	return ""
}

const (
	// activityFollowLocks is the name of the activity that follows the workload locks of a cluster.
	activityFollowLocks = "FollowLocks"
	// followLimit limits one attempt of it.
	followLimit = 30 * time.Minute
)

// followLocks shows the progress of applications that hold locks, until ctx is cancelled. It starts with the first report of a node.
func (c *clusterUpgrade) followLocks(ctx workflow.Context) {
	// The cluster does not wait for this activity, so its failures are not shown.
	retrier := kit.ClusterRetrier(c.in.Cluster, &c.in.TaskQueue, nil)
	for workflow.Await(ctx, func() bool { return len(c.state.Status.LockProgress) > 0 }) == nil {
		deadline := workflow.Now(ctx).Add(followLimit)
		in := locks.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner, Deadline: &deadline}
		err := retrier.Wait(ctx, "follow the workload locks of "+c.in.Cluster, &deadline, temporal.ErrClusterUnreachable, c.locks.FollowLocks, in, nil)
		c.record.followsLocks = false
		if err != nil && temporal.ErrorType(err) != temporal.ErrClusterUnreachable {
			return
		}
	}
}
