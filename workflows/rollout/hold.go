package rollout

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// updateClock starts or stops the clock of the rollout, and records what is held. It is called whenever that may change: at a pause, a hold,
// the beginning of a batch, the end of a cluster.
func (g *groupUpgrade) updateClock(ctx workflow.Context) {
	run := g.status.Status
	if run.CompletedAt != nil {
		return
	}
	g.invalidateHealth()
	g.record.setHold(g.hold())
	switch {
	case run.StartedAt == nil && g.batch == nil: // nothing has begun
	case g.clockPaused():
		g.clock.stop(workflow.Now(ctx))
	default:
		g.clock.start(workflow.Now(ctx))
	}
	if g.batch != nil {
		g.batch.changed = true
	}
}

// waitsForRelease reports whether the clock of the rollout is stopped: during a pause or a hold, while an approval is missing, while it is not
// known what is held, and during the health checks before the first cluster, which have their own time.
func (g *groupUpgrade) clockPaused() bool {
	return g.status.Paused || !g.holds.Known() || g.missingApproval != nil || g.gate.waiting || g.batch != nil && g.batch.hold() != nil
}

// hold is the hold that stops the rollout; nil: none does.
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

// hold is the hold on clusters of the batch that are not over; nil: none is held. A closed window holds only its own clusters: it holds the
// batch if it holds all of them. A pending cluster is held, too, if it would not finish before its window closes.
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
		if b.running[cluster] != nil {
			need = 0
		}
		hold := g.holds.UnlessFits(cluster, need)
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

// queryHeld answers the query why no new work starts on clusters.
func (g *groupUpgrade) queryHeld(clusters []string) (temporal.Held, error) {
	return temporal.Held{Paused: g.status.Paused, Held: g.holds.ForQuery().OfAny(clusters...)}, nil
}

// withHolds adds their holds to the clusters that are not over. A cluster of a later batch shows only a hold of its own: the rollout itself
// shows a hold of all clusters. The status in memory does not have them: with 10,000 clusters it would be too long.
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
		itsTurn := g.batch != nil && c.Batch >= g.batch.first && c.Batch <= g.batch.last
		if itsTurn || hold.Scope != drydockv1.HoldAll {
			c.Held = hold
		}
		if itsTurn && c.State == ranv1.ClusterPending {
			c.Reason, c.Message, c.Since = emergency.Reason(*hold), hold.String(), &hold.Since
		}
	}
	return status
}
