package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// clustersAtOnce is how many clusters one run keeps at work at most: the server blocks a run with too many children.
const clustersAtOnce = 300

// endRun ends the run, not the rollout: its history is long enough.
const endRun rollout.End = "ContinueAsNew"

// batch is the clusters that are taken together, within one budget of time.
type batch struct {
	group *groupUpgrade
	// number counts from 1.
	number int32
	time   BatchBudget

	clusters []string
	pending  []string
	running  map[string]*clusterAtWork
	// timer cancels the deadline; nil while there is none.
	timer workflow.CancelFunc
	// withdraw cancels the clusters at work.
	withdraw workflow.CancelFunc
	timedOut bool
	changed  bool
}

// runBatch takes the next batch from start to end, or goes on with one that the run before has begun. It returns why the rollout ends with
// it, endRun, or "" when the next batch is due.
func (g *groupUpgrade) runBatch(ctx workflow.Context) rollout.End {
	if workflow.Await(ctx, func() bool { return !g.status.Paused }) != nil || g.holds.awaitKnown(ctx, g.record.reason) != nil {
		return rollout.EndCancelled
	}
	if mustContinueAsNew(ctx, g.signals) {
		return endRun
	}
	plan := g.status.RemediationPlan
	if g.begun == nil {
		used := g.charged.total(workflow.Now(ctx))
		g.begun = &BatchBudget{Budget: rollout.BatchBudget(g.timeout(), used, len(plan)-g.nextBatch), ChargedBefore: used}
		if g.begun.Budget <= 0 {
			return rollout.EndTimedOut
		}
		g.record.batchStarted(ctx, int32(g.nextBatch+1))
	}
	b := &batch{
		group: g, number: int32(g.nextBatch + 1), time: *g.begun,
		clusters: plan[g.nextBatch], pending: g.record.pending(plan[g.nextBatch]), running: map[string]*clusterAtWork{},
	}
	g.batch = b
	g.runClock(ctx)
	b.dropVanished(ctx, b.pending)
	b.run(ctx)
	b.dropVanished(ctx, b.clusters)
	g.batch = nil
	if len(b.pending) > 0 && !b.timedOut && ctx.Err() == nil {
		return endRun
	}
	g.begun = nil
	g.record.notStarted(ctx, b.pending, b.timedOut)
	return b.end(ctx)
}

// run starts the clusters and waits until all are over. Out of time or cancelled, the clusters at work return their nodes first. It returns
// with clusters pending when the run must continue as new.
func (b *batch) run(ctx workflow.Context) {
	work, withdraw := workflow.WithCancel(ctx)
	b.withdraw = withdraw
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	defer stopWaiting()
	b.group.runClock(ctx)
	for {
		b.changed = false
		stopped := work.Err() != nil
		if stopped {
			b.disarm()
			b.group.record.withdrawing(waiting, b.timedOut)
		} else {
			b.arm(waiting)
		}
		b.startClusters(work)
		if b.over(work) {
			break
		}
		_ = workflow.Await(waiting, func() bool { return b.changed || !stopped && work.Err() != nil || b.over(work) })
	}
	b.disarm()
}

// dropVanished fails those of the clusters that are no ManagedClusters any more: they are not worked on, and what was done to them counts for
// nothing. It does not insist for longer than the batch has time: a hub that cannot be asked until then ends nothing that works.
func (b *batch) dropVanished(ctx workflow.Context, names []string) {
	g := b.group
	if len(names) == 0 || ctx.Err() != nil {
		return
	}
	now := workflow.Now(ctx)
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: g.record.reason.set, giveUpAt: now.Add(b.left(now))}
	var vanished []string
	if insist.effect(ctx, fmt.Sprintf("look which clusters of batch %d have vanished", b.number), g.hub.VanishedClusters, names, &vanished) != nil {
		return
	}
	g.record.vanished(ctx, vanished)
	b.pending = g.record.pending(b.pending)
}

// over: no cluster is at work, and none is to be started.
func (b *batch) over(ctx workflow.Context) bool {
	return len(b.running) == 0 && (len(b.pending) == 0 || ctx.Err() != nil || mustContinueAsNew(ctx, b.group.signals))
}

// startClusters starts the clusters of the batch that are not held, as far as one run can keep them alive.
func (b *batch) startClusters(ctx workflow.Context) {
	for {
		next := b.next(ctx)
		if len(next) == 0 {
			return
		}
		var clusters []*clusterAtWork
		for _, name := range next {
			cluster := &clusterAtWork{name: name, batch: b.group.record.cluster(name).Batch}
			cluster.ctx, cluster.withdraw = workflow.WithCancel(ctx)
			b.running[name] = cluster
			clusters = append(clusters, cluster)
		}
		b.pending = slices.DeleteFunc(b.pending, func(name string) bool { return b.running[name] != nil })
		b.group.remedy.start(b, clusters)
		b.group.record.clustersStarted(ctx, next)
		if len(next) == childrenAtOnce && workflow.Sleep(ctx, time.Millisecond) != nil {
			return // the rest would have come in another task
		}
	}
}

// next are the clusters to start now, as many as one workflow task can take.
func (b *batch) next(ctx workflow.Context) []string {
	g := b.group
	if g.status.Paused || ctx.Err() != nil || mustContinueAsNew(ctx, g.signals) {
		return nil
	}
	free := min(clustersAtOnce-len(b.running), childrenAtOnce)
	var next []string
	for _, cluster := range b.pending {
		if len(next) < free && g.holds.state.Of(cluster) == nil {
			next = append(next, cluster)
		}
	}
	return next
}

// atOnce is how many clusters of the batch may be at work at the same time.
func (b *batch) atOnce() int { return min(len(b.clusters), clustersAtOnce) }

// atWork reports whether the work on a cluster is not over.
func (b *batch) atWork(cluster *clusterAtWork) bool { return b.running[cluster.name] == cluster }

// ended takes over what became of a cluster at work. One that was withdrawn because its time was over is timed out.
func (b *batch) ended(ctx workflow.Context, cluster *clusterAtWork, result ranv1.ClusterStatus) {
	g := b.group
	delete(b.running, cluster.name)
	b.changed = true
	result.Name, result.Batch = cluster.name, cluster.batch
	if result.State == ranv1.ClusterCancelled && (b.timedOut || cluster.timedOut) {
		before := g.record.cluster(cluster.name)
		result.State, result.Reason, result.Message, result.Since = ranv1.ClusterTimedOut, before.Reason, before.Message, before.Since
	}
	g.record.clusterEnded(ctx, result)
	g.runClock(ctx)
}

// end judges the batch: whether the rollout goes on after it.
func (b *batch) end(ctx workflow.Context) rollout.End {
	g := b.group
	canary := slices.ContainsFunc(b.clusters, func(c string) bool {
		return slices.Contains(g.spec.RemediationStrategy.Canaries, c)
	})
	complete := g.record.complete(b.clusters)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled
	case complete:
		return ""
	case canary && b.timedOut:
		return rollout.EndCanaryTimedOut
	case canary:
		return rollout.EndCanaryFailed
	case b.timedOut && g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort:
		return rollout.EndBatchTimedOut
	}
	return ""
}
