package clusterupgrade

import (
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// listen handles signals from people, the rollout, nodes and activities.
func (c *clusterUpgrade) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Stop, and return the nodes at work to service.", func(r temporal.SignalRequest) {
		if c.withdrawn == nil {
			c.withdrawn = &r
		}
		c.withdraw()
	})
	kit.OnSignal(ctx, temporal.SignalPause, "Start no further node.", func(temporal.SignalRequest) { c.pause(true) })
	kit.OnSignal(ctx, temporal.SignalResume, "Start nodes again.", func(temporal.SignalRequest) { c.pause(false) })
	c.holds.Listen(ctx, func() {
		c.Status.Held = c.holds.State.Of(c.in.Cluster)
		c.Nodes.changed = true
		c.Nodes.takeBackHeld()
		c.Record.show()
	})
	kit.OnSignal(ctx, temporal.SignalObserved, "What a waiting activity sees.", c.observe)
	c.Nodes.slots.Listen(ctx, func() {
		c.signals++
		c.Nodes.changed = true
	})
	kit.OnSignal(ctx, temporal.SignalNodeProgress, "Progress of a node at work.", func(n ranv1.ClusterNodeStatus) {
		c.signals++
		c.Nodes.Progressed(n)
	})
	workflow.GoNamed(ctx, "slots", c.Nodes.slots.Run)
	workflow.GoNamed(ctx, "progress", func(ctx workflow.Context) {
		parent := temporal.ClusterGroupUpgradeID(c.in.Namespace, c.in.Rollout)
		c.Record.progress.Report(ctx, parent, temporal.SignalClusterProgress, c.in.ProgressLimit, func() any { return c.Record.Summary() })
	})
}

// observe records what the waiting activity in progress sees, and what the one that follows the locks sees. Other observations are stale.
func (c *clusterUpgrade) observe(o temporal.Observation) {
	c.signals++
	switch o.Activity {
	case c.awaited:
		if kit.TurnedUrgent(c.Status.Wait, o.Wait) {
			c.Record.progress.Hurry()
		}
		c.observed = o.Wait
		c.Record.show()
	case activityFollowLocks:
		c.Record.followsLocks = true
		c.Record.lockProgress(o.LockProgress)
	}
}

func (c *clusterUpgrade) pause(paused bool) {
	c.Status.Paused = paused
	c.Nodes.changed = true
	c.Record.attributes.Set(temporal.AttributePaused.ValueSet(paused))
	c.Record.show()
}

// overdue limits how long the history grows while nodes are at work, as a multiple of its length when the server first suggested to continue as
// new. The server suggests that at 4,096 events or 4 MB, and ends a run at 51,200 or 50 MB. Waiting for all nodes earlier would leave slots unused.
const overdue = 4

// mustContinueAsNew reports whether this run may start no further node. Without a node at work, it continues as new once that is suggested.
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
	return len(c.Nodes.Running) == 0 || info.GetCurrentHistoryLength() >= overdue*c.suggestedAt
}

// continueAsNew passes the state to a new run. No node is at work.
func (c *clusterUpgrade) continueAsNew(ctx workflow.Context) error {
	if err := c.Nodes.slots.Settle(ctx); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.Record.attributes.Flush()
	c.Record.log.Info("Cluster continues as new", "step", c.Status.Step)
	in := c.in
	in.Held = c.holds.State
	in.Carried = &Carried{Status: c.Status, Locked: c.locked, Slots: c.Nodes.slots.State}
	return workflow.NewContinueAsNewError(ctx, temporal.ClusterUpgrade, in)
}

// cleanUp withdraws the maintenance request of the cluster, so that its locks become active again.
func (c *clusterUpgrade) cleanUp(ctx workflow.Context) {
	c.Record.enter(ranv1.StepCleaningUp)
	if !c.requested {
		return
	}
	if c.locked && !c.awaitSwept(ctx) {
		return
	}
	retrier := c.retrier()
	retrier.Deadline = workflow.Now(ctx).Add(clusterCleanUpLimit)
	in := activities.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner}
	summary := "withdraw the request for " + c.in.Cluster
	c.Record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
	err := retrier.Run(ctx, summary, c.locks.WithdrawClusterMaintenance, in, nil)
	c.Record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, err, c.lockNote())
	if err != nil {
		c.Record.note("could not " + summary + ": " + temporal.ErrorMessage(err))
	}
}

// awaitSwept waits until the sweeper has returned the nodes that their maintenances may have left out of service: the locks of the cluster stay
// inactive until then. It returns false if that takes too long. Then the sweeper withdraws the request, too, after the nodes.
func (c *clusterUpgrade) awaitSwept(ctx workflow.Context) bool {
	deadline := workflow.Now(ctx).Add(sweptLimit)
	for _, node := range c.Nodes.left {
		object := c.Nodes.objectFor(node)
		in := activities.AwaitNodeFreeInput{
			NodeRef: activities.NodeRef{Cluster: c.in.Cluster, Node: node, Owner: c.owner},
			Of:      temporal.NodeMaintenanceID(c.in.Cluster, object.Namespace, object.Name),
		}
		var nodes *activities.Nodes
		err := c.await(ctx, "AwaitNodeFree", "wait until the sweeper has returned "+node, &deadline, temporal.ErrNodeBusy, nodes.AwaitNodeFree, in)
		if err != nil && temporal.ErrorType(err) != temporal.ErrNodeGone {
			c.Record.note("the request for " + c.in.Cluster + " is left to the sweeper, which deletes it when node " + node + " is back")
			return false
		}
	}
	return true
}

// sweptLimit limits the wait for the sweeper. It takes about ten seconds if the cluster answers.
const sweptLimit = 5 * time.Minute

// clusterCleanUpLimit limits the retries to withdraw the maintenance request of the cluster.
const clusterCleanUpLimit = 10 * time.Minute

// finish turns the end of the work into the result of the workflow.
func (c *clusterUpgrade) finish(ctx workflow.Context, err error) (ranv1.ClusterStatus, error) {
	c.Status.State = ranv1.ClusterFailed
	cancelled := sdktemporal.IsCanceledError(err) && c.Status.Failure == nil
	switch {
	case err == nil:
		c.Status.State = ranv1.ClusterComplete
	case cancelled:
		c.Status.State = ranv1.ClusterCancelled
		if c.withdrawn != nil {
			c.Record.note("cancelled" + kit.ActorSuffix(*c.withdrawn))
		}
	}
	now := c.Record.now(ctx)
	c.Status.CompletedAt = &now
	c.Record.enter(ranv1.StepOver)
	c.Record.attributes.Flush()
	summary := c.Record.Summary()
	switch {
	case err == nil:
		return summary, nil
	case cancelled:
		return summary, sdktemporal.NewCanceledError(summary)
	}
	failure := c.Status.Failure
	return summary, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{summary}})
}
