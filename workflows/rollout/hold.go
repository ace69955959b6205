package rollout

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// updateClock pauses or resumes the clock of the rollout, and records the hold. Call it after every event that may change them: a pause, a hold, the
// start of a batch, the end of a cluster.
func (g *groupUpgrade) updateClock(ctx workflow.Context) {
	run := g.status.Status
	if run.CompletedAt != nil {
		return
	}
	g.invalidateHealth()
	g.record.setHold(g.hold())
	switch {
	case run.StartedAt == nil && g.batch == nil: // remediation has not started
	case g.clockPaused():
		g.clock.stop(workflow.Now(ctx))
	default:
		g.clock.start(workflow.Now(ctx))
	}
	if g.batch != nil {
		g.batch.changed = true
	}
}

// clockPaused reports whether the timeouts of the rollout are paused: during a pause or a hold, while an approval is missing or the state of holds is
// unknown, and at the health gate, whose checks have timeouts of their own.
func (g *groupUpgrade) clockPaused() bool {
	return g.status.Paused || !g.holds.Known() || g.missingApproval != nil || g.gate.waiting || g.batch != nil && g.batch.hold() != nil
}

// hold is the hold on the rollout; nil: it is not held.
func (g *groupUpgrade) hold() *drydockv1.Hold {
	all := g.holds.All()
	switch {
	case all == nil && g.gate.waiting:
		return g.nextBatchHold()
	case all != nil || g.batch == nil:
		return all
	}
	return g.batch.hold()
}

// hold is the hold on the unfinished clusters of the batch; nil: the batch is not held. The emergency stop holds the batch if it holds one of them, a
// closed window only if windows hold all of them. A pending cluster that would not finish before its window closes is held, too.
func (b *batch) hold() *drydockv1.Hold {
	g := b.group
	if !g.holds.Any() {
		return nil
	}
	var closed *drydockv1.Hold
	free := false
	for _, cluster := range b.clusters {
		if g.record.cluster(cluster).State.Over() {
			continue
		}
		need := g.slowest
		if b.active[cluster] != nil {
			need = 0
		}
		hold := g.holds.HoldFor(cluster, need)
		switch {
		case hold == nil:
			free = true
		case hold.Window == "":
			return hold
		case closed == nil:
			closed = hold
		}
	}
	if free {
		return nil
	}
	return closed
}

// queryHeld answers the query why no new work starts on the named clusters.
func (g *groupUpgrade) queryHeld(clusters []string) (temporal.Held, error) {
	return temporal.Held{Paused: g.status.Paused, Held: g.holds.ForQuery().OfAny(clusters...)}, nil
}

// withHolds adds the holds to the unfinished clusters of a status. A cluster of a later batch shows only a hold of its own, since the rollout shows
// a hold of all clusters. The stored status omits them: with 10,000 clusters it would be too long.
func (g *groupUpgrade) withHolds(status ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	if !g.holds.Any() || status.Status.CompletedAt != nil {
		return status
	}
	holds := g.holds.ForQuery()
	status.Clusters = slices.Clone(status.Clusters)
	for i := range status.Clusters {
		c := &status.Clusters[i]
		hold := holds.Of(c.Name)
		if hold == nil || c.State.Over() {
			continue
		}
		inBatch := g.inBatch(c)
		if inBatch || hold.Scope != drydockv1.HoldAll {
			c.Held = hold
		}
		if inBatch && c.State == ranv1.ClusterPending {
			c.Reason, c.Message, c.Since = emergency.Reason(*hold), hold.String(), &hold.Since
		}
	}
	return status
}

// withPendingWaits adds to the pending clusters of the current batch why they have not started. The stored status omits that, as it does the holds.
func (g *groupUpgrade) withPendingWaits(status ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	if g.batch == nil || status.Status.CompletedAt != nil || status.Paused {
		return status
	}
	reason, message := g.batch.startBudget().PendingWait()
	if reason == "" {
		return status
	}
	status.Clusters = slices.Clone(status.Clusters)
	for i := range status.Clusters {
		if c := &status.Clusters[i]; c.State == ranv1.ClusterPending && c.Reason == "" && g.inBatch(c) {
			c.Reason, c.Message = reason, message
		}
	}
	return status
}

// inBatch reports whether a cluster belongs to the current batch, or to one that runs together with it.
func (g *groupUpgrade) inBatch(c *ranv1.ClusterStatus) bool {
	return g.batch != nil && c.Batch >= g.batch.first && c.Batch <= g.batch.last
}
