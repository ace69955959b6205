package clusterupgrade

import (
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
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
