package rollout

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Clusters that are offline when their batch comes move to the catch-up batch, the last of the plan. It runs after the others: each of its clusters starts
// when it is back.

// catchesUp reports whether the running batch or, between batches, the next one is the catch-up batch.
func (g *groupUpgrade) catchesUp() bool {
	if g.batch != nil {
		return g.batch.catchUp // the number of the catch-up batch changes while another one runs
	}
	return g.status.Status.CatchUpBatch > 0 && g.nextBatch+1 == int(g.status.Status.CatchUpBatch)
}

// timeLimit is the timeout of the rollout and, for the catch-up batch, the time to catch up.
func (g *groupUpgrade) timeLimit() time.Duration {
	if g.catchesUp() {
		return g.lastLimit()
	}
	return g.timeout()
}

// lastLimit is the time after which the rollout ends at the latest.
func (g *groupUpgrade) lastLimit() time.Duration {
	if g.status.Status.CatchUpBatch > 0 {
		return g.timeout() + rollout.CatchUp(&g.spec)
	}
	return g.timeout()
}

// catchUpDue reports whether clusters of the catch-up batch are to be started, and time is left. That batch is then the next one.
func (g *groupUpgrade) catchUpDue(ctx workflow.Context) bool {
	if g.status.Status.CatchUpBatch == 0 || ctx.Err() != nil {
		return false
	}
	g.nextBatch = int(g.status.Status.CatchUpBatch) - 1
	return g.startedBatch != nil || len(g.record.notStarted(g.nextClusters())) > 0 && g.clock.elapsed(workflow.Now(ctx)) < g.timeLimit()
}

// skipToCatchUp skips planned batches that could not start before the timeout of the rollout, if time is left to catch up. It reports whether it did. The
// clusters of these batches time out. A canary among them, which has relapsed, ends the rollout: nothing proves that the others are safe.
func (g *groupUpgrade) skipToCatchUp(ctx workflow.Context) bool {
	if g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort || g.clock.elapsed(workflow.Now(ctx)) >= g.lastLimit() {
		return false
	}
	planned := rollout.PlannedBatches(&g.status)
	skipped := g.record.notStarted(slices.Concat(g.status.RemediationPlan[g.nextBatch:planned]...))
	if slices.ContainsFunc(skipped, func(name string) bool { return slices.Contains(g.spec.RemediationStrategy.Canaries, name) }) {
		return false
	}
	g.record.timedOutBeforeStart(ctx, skipped)
	g.nextBatch = planned
	return true
}

// deferOffline decides about clusters that are offline and should start now. A canary and the clusters of the catch-up batch are waited for. The place of
// another one goes to the next cluster, unless each batch needs an approval.
func (b *batch) deferOffline(ctx workflow.Context, names []string) {
	g := b.group
	g.record.offline(ctx, names, g.spec.RemediationStrategy.OfflineAction)
	switch {
	case g.spec.RemediationStrategy.OfflineAction == ranv1.OfflineFail:
	case b.isCanary(), b.catchUp:
		b.offline, b.returns.outdated = append(b.offline, names...), true
	default:
		last := int32(rollout.PlannedBatches(&g.status))
		if approvals := g.spec.Approvals; approvals != nil && approvals.BeforeEachBatch {
			last = b.last // clusters of other batches are not approved
		}
		b.last = min(b.last, rollout.Defer(&g.status, b.first, last, names))
		g.record.setClusters(g.status.Clusters)
		b.clusters = slices.Concat(g.status.RemediationPlan[b.first-1 : b.last]...)
		b.extend()
	}
	b.updatePending()
	g.record.show()
}

// updatePending sets the pending clusters of the batch: those that have not started and are not known to be offline.
func (b *batch) updatePending() {
	offline := map[string]bool{}
	for _, name := range b.offline {
		offline[name] = true
	}
	b.pending = slices.DeleteFunc(b.group.record.notStarted(b.clusters), func(name string) bool { return offline[name] })
	b.changed = true
}

// extend gives the batch a longer share of the remaining time if fewer batches follow now.
func (b *batch) extend() {
	g := b.group
	if longer := rollout.BatchTimeout(g.timeLimit(), g.startedBatch.UsedBefore, g.batchesLeft()); longer > g.startedBatch.Timeout {
		g.startedBatch.Timeout = longer
		b.started = *g.startedBatch
		b.stopTimer()
	}
}

// returnWatch watches offline clusters.
type returnWatch struct {
	watched []string
	// outdated: clusters are offline that are not watched.
	outdated bool
	stop     workflow.CancelFunc
}

func (v *returnWatch) stopWatching() {
	if v.stop != nil {
		v.stop()
	}
}

// watchReturns watches the offline clusters of the batch. One activity watches them all.
func (b *batch) watchReturns() {
	v := &b.returns
	if !v.outdated {
		return
	}
	v.stopWatching()
	watching, stop := workflow.WithCancel(b.work)
	v.stop, v.watched, v.outdated = stop, slices.Clone(b.offline), false
	retrier := b.group.retrier()
	retrier.Abandon = true
	workflow.GoNamed(watching, "watch offline clusters", func(ctx workflow.Context) {
		for len(v.watched) > 0 {
			var seen rollouts.SeenClusters
			err := retrier.Watch(ctx, fmt.Sprintf("watch %d offline clusters", len(v.watched)), b.group.hub.AwaitClustersBack, v.watched, &seen)
			switch {
			case ctx.Err() != nil, b.timedOut:
				return
			case err != nil:
				b.group.record.note("could not watch offline clusters: " + temporal.ErrorMessage(err))
				if workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before offline clusters are watched again"}).Get(ctx, nil) != nil {
					return
				}
			case seen.WorkersAway != nil:
				b.group.workersAway(ctx, *seen.WorkersAway)
			default:
				b.back(seen.Back)
			}
		}
	})
}

// back makes clusters pending that are no longer offline.
func (b *batch) back(names []string) {
	isBack := func(name string) bool { return slices.Contains(names, name) }
	b.offline, b.returns.watched = slices.DeleteFunc(b.offline, isBack), slices.DeleteFunc(b.returns.watched, isBack)
	for _, name := range names {
		delete(b.available, name)
	}
	b.group.record.back(names)
	b.updatePending()
}

// offline records clusters that are offline although they should start, and whether they fail.
func (r *groupRecord) offline(ctx workflow.Context, names []string, action ranv1.OfflineAction) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State != ranv1.ClusterOffline {
			c.Since = r.now(ctx)
		}
		c.State, c.Reason, c.Message = ranv1.ClusterOffline, ranv1.ReasonClusterOffline, rollout.MessageOffline
		if action == ranv1.OfflineFail {
			c.State = ranv1.ClusterFailed
		}
		r.log.Info("Cluster is offline", "cluster", name, "batch", c.Batch, "state", c.State)
	}
}

// back records clusters that are no longer offline.
func (r *groupRecord) back(names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State != ranv1.ClusterOffline {
			continue // it was deleted, and has failed
		}
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterPending, "", "", nil
		r.log.Info("Cluster is back", "cluster", name, "batch", c.Batch)
	}
	r.show()
}
