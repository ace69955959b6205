package clusterupgrade

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

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
