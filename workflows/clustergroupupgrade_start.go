package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// Which clusters of a batch are started, and when.

// startClusters starts the clusters of the batch that are not held, as far as the window is open.
func (b *batch) startClusters(ctx workflow.Context) {
	for {
		next := b.seenNext(ctx)
		if len(next) == 0 {
			return
		}
		charged := b.group.charged.total(workflow.Now(ctx))
		var clusters []*clusterAtWork
		for _, name := range next {
			cluster := &clusterAtWork{name: name, batch: b.group.record.cluster(name).Batch, chargedBefore: charged, state: rollout.WorkRunning}
			cluster.ctx, cluster.withdraw = workflow.WithCancel(b.work)
			b.running[name] = cluster
			clusters = append(clusters, cluster)
		}
		b.pending = slices.DeleteFunc(b.pending, func(name string) bool { return b.running[name] != nil })
		b.group.passGate()
		b.group.remediator.Start(b.workOn(clusters))
		b.group.record.clustersStarted(ctx, next)
		b.changed = true // some may have less time than the batch
		if len(next) == b.group.remediator.StartedTogether() && workflow.Sleep(ctx, time.Millisecond) != nil {
			return // the rest would have come in another task
		}
	}
}

// workOn describes to the remediator the work on clusters.
func (b *batch) workOn(clusters []*clusterAtWork) []*ClusterWork {
	work := make([]*ClusterWork, len(clusters))
	for i, cluster := range clusters {
		work[i] = &ClusterWork{
			Cluster: cluster.name, Batch: cluster.batch, Ctx: cluster.ctx,
			Ended: func(ctx workflow.Context, result ranv1.ClusterStatus) { b.ended(ctx, cluster, result) },
		}
	}
	return work
}

// next are the clusters to start now, as many as one workflow task can take.
func (b *batch) next(ctx workflow.Context) []string {
	return b.waiting(min(b.decide(ctx).Start, b.group.remediator.StartedTogether()))
}

// decide is the one place that says whether more clusters are started, and whether the batch is over.
func (b *batch) decide(ctx workflow.Context) rollout.BatchDecision {
	g := b.group
	state := rollout.BatchState{
		Window: b.window(), Pending: len(b.pending), Busy: b.busy(),
		Cancelled: ctx.Err() != nil, TimedOut: b.timedOut, Paused: g.status.Paused,
		HealthUnknown: g.mustLookAgain(), HistoryLong: mustContinueAsNew(ctx, g.signals),
	}
	if soaking := len(b.running) - state.Busy; soaking > 0 && state.Busy == 0 {
		state.SoakCounts = b.othersFollow() && b.end(ctx) == ""
	}
	return state.Decide()
}

// waiting are the first clusters that wait for their turn, are not held, and would be done before their maintenance windows close.
func (b *batch) waiting(most int) []string {
	var waiting []string
	for _, cluster := range b.pending {
		if len(waiting) == most {
			break
		}
		if b.group.holds.unlessFits(cluster, b.group.slowest) == nil {
			waiting = append(waiting, cluster)
		}
	}
	return waiting
}

const (
	// seenHolds is how long a cluster that waits is taken for a ManagedCluster once it was seen to be one.
	seenHolds = 10 * time.Second
	// askedAhead is how many clusters are asked for together at least.
	askedAhead = 50
)

// seenNext are the clusters to start now. Those that have vanished since they were planned have failed: a rolling rollout, or what is left of a large
// batch, may come to them hours later. There are none while nobody can say: nothing is known to be wrong with them, and what else there is to decide does not
// wait for it.
func (b *batch) seenNext(ctx workflow.Context) []string {
	for {
		next, now := b.next(ctx), workflow.Now(ctx)
		unseen := func(name string) bool { return !b.seen[name] || now.Sub(b.seenAt) >= seenHolds }
		if !slices.ContainsFunc(next, unseen) {
			return next
		}
		if b.blind {
			return nil
		}
		asked := b.waiting(max(b.window().Free(), askedAhead))
		insist := b.group.insist().until(now.Add(-time.Nanosecond))
		insist.attempts = 2
		if err := b.dropVanished(ctx, insist, asked); err != nil {
			b.askAgain(ctx, insist, err)
			return nil
		}
		if b.askPause > 0 {
			long := b.askPause == longestPause
			b.askPause = 0
			b.trouble(ctx, "", "")
			if long && b.group.hasGate() { // what the health checks have seen is as old as that
				b.group.gate.stale = true
				return nil
			}
		}
		b.seen, b.seenAt = map[string]bool{}, workflow.Now(ctx)
		for _, name := range asked {
			b.seen[name] = true
		}
	}
}

// askAgain says why it is not known which clusters have vanished, and has that asked once more after a while, at longer and longer intervals.
func (b *batch) askAgain(ctx workflow.Context, insist insistence, err error) {
	if ctx.Err() != nil {
		return
	}
	why := insist.explain(err, workflow.ActivityOptions{StartToCloseTimeout: effectTimeout})
	b.trouble(ctx, reasonOf(err), b.vanishedSummary()+": "+why)
	b.blind, b.askPause = true, min(max(2*b.askPause, shortestPause), longestPause)
	workflow.GoNamed(ctx, "ask again which clusters have vanished", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, b.askPause, workflow.TimerOptions{Summary: "before it is asked again which clusters have vanished"})
		if timer.Get(ctx, nil) == nil {
			b.blind, b.changed = false, true
		}
	})
}

// window says how many clusters may be at work, and fail.
func (b *batch) window() rollout.Window {
	g := b.group
	return rollout.Window{
		Size: b.atOnce(), AtWork: len(b.running), MaxFailures: int(g.status.ComputedMaxFailures), Failed: g.record.failed(),
	}
}

// atOnce is how many clusters of the batch may be at work at the same time.
func (b *batch) atOnce() int {
	most := min(len(b.clusters), b.group.remediator.AtOnce())
	if b.last > b.first {
		most = min(most, int(b.group.status.ComputedMaxConcurrency))
	}
	return most
}
