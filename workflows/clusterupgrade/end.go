package clusterupgrade

import (
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// listen handles signals from people, the rollout, nodes and activities.
func (c *clusterUpgrade) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Stop, and return the nodes in maintenance to service.", func(r temporal.SignalRequest) {
		if c.cancelled == nil {
			c.cancelled = &r
		}
		c.cancel()
	})
	kit.OnSignal(ctx, temporal.SignalPause, "Start no further node.", func(temporal.SignalRequest) { c.pause(true) })
	kit.OnSignal(ctx, temporal.SignalResume, "Start nodes again.", func(temporal.SignalRequest) { c.pause(false) })
	c.holds.Listen(ctx, func() {
		c.state.Status.Held = c.holds.State.Of(c.in.Cluster)
		c.nodes.changed = true
		c.nodes.cancelOnOverrun()
		c.record.show()
	})
	kit.OnSignal(ctx, temporal.SignalObserved, "The observation of a waiting activity.", c.observe)
	c.nodes.slots.Listen(ctx, func() {
		c.signals++
		c.nodes.changed = true
	})
	kit.OnSignal(ctx, temporal.SignalNodeProgress, "Progress of a running node maintenance.", func(n ranv1.ClusterNodeStatus) {
		c.signals++
		c.nodes.recordProgress(n)
	})
	workflow.GoNamed(ctx, "slots", c.nodes.slots.Run)
	workflow.GoNamed(ctx, "progress", func(ctx workflow.Context) {
		parent := temporal.ClusterGroupUpgradeID(c.in.Namespace, c.in.Rollout)
		c.record.progress.Report(ctx, parent, temporal.SignalClusterProgress, c.in.ProgressLimit, func() any { return c.record.summary() })
	})
}

// observe records observations of the waiting activity in progress, and of the activity that follows the locks. Others are stale.
func (c *clusterUpgrade) observe(o temporal.Observation) {
	c.signals++
	switch o.Activity {
	case c.awaited:
		if kit.BecameUrgent(c.state.Status.Wait, o.Wait) {
			c.record.progress.ReportNow()
		}
		c.observed = o.Wait
		c.record.show()
	case activityFollowLocks:
		c.record.followsLocks = true
		c.record.lockProgress(o.LockProgress)
	}
}

func (c *clusterUpgrade) pause(paused bool) {
	c.state.Status.Paused = paused
	c.nodes.changed = true
	c.record.attributes.Set(temporal.AttributePaused.ValueSet(paused))
	c.record.show()
}

// overdue limits the history while nodes are running, as a multiple of its length when the server first suggested to continue as new. The server
// suggests it at 4,096 events or 4 MB, and ends a run at 51,200 events or 50 MB. Waiting for all nodes earlier would leave slots unused.
const overdue = 4

// mustContinueAsNew reports whether this run must start no further node. Without a running node, it does so at the server's suggestion.
func (c *clusterUpgrade) mustContinueAsNew(ctx workflow.Context) bool {
	if c.signals >= kit.ContinueAsNewSignals {
		return true
	}
	info := workflow.GetInfo(ctx)
	if !info.GetContinueAsNewSuggested() {
		return false
	}
	if c.suggestedAt == 0 {
		c.suggestedAt = info.GetCurrentHistoryLength()
	}
	return len(c.nodes.running) == 0 || info.GetCurrentHistoryLength() >= overdue*c.suggestedAt
}

// continueAsNew passes the state to a new run. No node is running.
func (c *clusterUpgrade) continueAsNew(ctx workflow.Context) error {
	if err := c.nodes.slots.Settle(ctx); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.record.attributes.Flush()
	c.record.log.Info("Cluster continues as new", "step", c.state.Status.Step)
	in := c.in
	in.Held = c.holds.State
	in.Carried = &State{Status: c.state.Status, Locks: c.state.Locks, Slots: c.nodes.slots.State}
	return workflow.NewContinueAsNewError(ctx, temporal.ClusterUpgrade, in)
}

// cleanUp withdraws the maintenance request of the cluster, so that its locks become active again.
func (c *clusterUpgrade) cleanUp(ctx workflow.Context) {
	c.record.enter(ranv1.StepCleaningUp)
	if !c.state.Locks.Request.Possible() {
		return
	}
	if c.state.Locks.Answer == nodemaintenance.LocksRequested && !c.awaitSwept(ctx) {
		return
	}
	retrier := c.retrier()
	retrier.Deadline = workflow.Now(ctx).Add(clusterCleanUpLimit)
	in := locks.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner}
	summary := "withdraw the request for " + c.in.Cluster
	c.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
	err := retrier.Run(ctx, summary, c.locks.WithdrawClusterMaintenance, in, nil)
	c.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, err, c.lockNote())
	c.record.log.Info("Cleanup step ended", "step", summary, "error", err)
	if err != nil {
		c.record.note("could not " + summary + ": " + temporal.ErrorMessage(err))
	}
}

// awaitSwept waits until the sweeper has returned the unreturned nodes, so that the locks of the cluster stay inactive until then. It returns false if
// that takes too long; then the sweeper also withdraws the request, after the nodes.
func (c *clusterUpgrade) awaitSwept(ctx workflow.Context) bool {
	deadline := workflow.Now(ctx).Add(sweptLimit)
	for _, node := range c.nodes.unreturned {
		object := c.nodes.objectFor(node)
		in := nodeactivities.AwaitNodeFreeInput{
			NodeRef: activitykit.NodeRef{Cluster: c.in.Cluster, Node: node, Owner: c.owner},
			Of:      temporal.NodeMaintenanceID(c.in.Cluster, object.Namespace, object.Name),
		}
		var nodes *nodeactivities.Activities
		err := c.await(ctx, "AwaitNodeFree", "wait until the sweeper has returned "+node, &deadline, temporal.ErrNodeBusy, nodes.AwaitNodeFree, in)
		if err != nil && temporal.ErrorType(err) != temporal.ErrNodeGone {
			c.record.note("the request for " + c.in.Cluster + " is left to the sweeper, which deletes it after node " + node + " is returned")
			return false
		}
	}
	return true
}

// sweptLimit limits the wait for the sweeper, which takes about ten seconds if the cluster answers.
const sweptLimit = 5 * time.Minute

// clusterCleanUpLimit limits the retries to withdraw the maintenance request of the cluster.
const clusterCleanUpLimit = 10 * time.Minute

// finish turns the error of the upgrade into the result of the workflow.
func (c *clusterUpgrade) finish(ctx workflow.Context, err error) (ranv1.ClusterStatus, error) {
	c.state.Status.State = ranv1.ClusterFailed
	cancelled := sdktemporal.IsCanceledError(err) && c.state.Status.Failure == nil
	switch {
	case err == nil:
		c.state.Status.State = ranv1.ClusterComplete
	case cancelled:
		c.state.Status.State = ranv1.ClusterCancelled
		if c.cancelled != nil {
			c.record.note("cancelled" + kit.ActorSuffix(*c.cancelled))
		}
	}
	now := c.record.now(ctx)
	c.state.Status.CompletedAt = &now
	c.record.enter(ranv1.StepOver)
	c.record.attributes.Flush()
	summary := c.record.summary()
	switch {
	case err == nil:
		return summary, nil
	case cancelled:
		return summary, sdktemporal.NewCanceledError(summary)
	}
	failure := c.state.Status.Failure
	return summary, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{summary}})
}
