package rollout

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Which clusters of a batch are started, and when.

// startClusters starts clusters of the batch that are not held, as many as may be running.
func (b *batch) startClusters(ctx workflow.Context) {
	for {
		next := b.nextExisting(ctx)
		if len(next) == 0 {
			return
		}
		charged := b.group.clock.elapsed(workflow.Now(ctx))
		var clusters []*activeCluster
		for _, name := range next {
			cluster := &activeCluster{name: name, batch: b.group.record.cluster(name).Batch, usedBefore: charged, state: rollout.WorkRunning}
			cluster.ctx, cluster.withdraw = workflow.WithCancel(b.work)
			b.running[name] = cluster
			clusters = append(clusters, cluster)
		}
		b.pending = slices.DeleteFunc(b.pending, func(name string) bool { return b.running[name] != nil })
		b.group.openGate()
		b.group.remediator.Start(b.workOn(clusters))
		b.group.record.clustersStarted(ctx, next)
		b.changed = true // a cluster may have less time than the batch
		if len(next) == b.group.remediator.MaxStartsPerTask() && workflow.Sleep(ctx, time.Millisecond) != nil {
			return // the rest starts in another workflow task
		}
	}
}

// workOn describes the work on clusters for the remediator.
func (b *batch) workOn(clusters []*activeCluster) []*policy.ClusterWork {
	work := make([]*policy.ClusterWork, len(clusters))
	for i, cluster := range clusters {
		work[i] = &policy.ClusterWork{
			Cluster: cluster.name, Batch: cluster.batch, Ctx: cluster.ctx,
			Ended: func(ctx workflow.Context, result ranv1.ClusterStatus) { b.clusterEnded(ctx, cluster, result) },
		}
	}
	return work
}

// next are the clusters to start now, no more than one workflow task can start.
func (b *batch) next(ctx workflow.Context) []string {
	return b.startable(min(b.decide(ctx).Start, b.group.remediator.MaxStartsPerTask()))
}

// decide is the one place that decides whether more clusters are started and whether the batch is over.
func (b *batch) decide(ctx workflow.Context) rollout.BatchDecision {
	g := b.group
	state := rollout.BatchState{
		Budget: b.startBudget(), Pending: len(b.pending), Busy: b.busy(),
		Cancelled: ctx.Err() != nil, TimedOut: b.timedOut, Paused: g.status.Paused,
		HealthUnknown: g.healthStale(), HistoryLong: kit.ShouldContinueAsNew(ctx, g.signals),
	}
	if soaking := len(b.running) - state.Busy; soaking > 0 && state.Busy == 0 {
		state.SoakCounts = b.clustersRemain() && b.end(ctx) == ""
	}
	return state.Decide()
}

// startable are the first pending clusters that are not held and would finish before their maintenance windows close.
func (b *batch) startable(most int) []string {
	var waiting []string
	for _, cluster := range b.pending {
		if len(waiting) == most {
			break
		}
		if b.group.holds.UnlessFits(cluster, b.group.slowest) == nil {
			waiting = append(waiting, cluster)
		}
	}
	return waiting
}

const (
	// existenceValidity is how long a pending cluster counts as a ManagedCluster after it was seen to be one.
	existenceValidity = 10 * time.Second
	// lookupAhead is the minimum number of clusters that are looked up together.
	lookupAhead = 50
)

// nextExisting are the clusters to start now whose ManagedClusters exist. A rolling rollout or a large batch may reach a cluster hours after it was
// planned: a cluster that vanished since then fails. While the hub does not answer, no cluster is started, and everything else continues.
func (b *batch) nextExisting(ctx workflow.Context) []string {
	for {
		next, now := b.next(ctx), workflow.Now(ctx)
		unseen := func(name string) bool { return !b.existing[name] || now.Sub(b.existingAt) >= existenceValidity }
		if !slices.ContainsFunc(next, unseen) {
			return next
		}
		if b.hubUnavailable {
			return nil
		}
		asked := b.startable(max(b.startBudget().Free(), lookupAhead))
		retrier := b.group.retrier().Until(now.Add(-time.Nanosecond))
		retrier.Attempts = 2
		if err := b.failDeletedNow(ctx, retrier, asked); err != nil {
			b.retryExistenceCheck(ctx, retrier, err)
			return nil
		}
		if b.retryPause > 0 {
			long := b.retryPause == policy.MaxRetryPause
			b.retryPause = 0
			b.reportRetry(ctx, "", "")
			if long && b.group.gateClosed() { // the health checks are outdated by then
				b.group.gate.stale = true
				return nil
			}
		}
		b.existing, b.existingAt = map[string]bool{}, workflow.Now(ctx)
		for _, name := range asked {
			b.existing[name] = true
		}
	}
}

// retryExistenceCheck shows that the hub does not answer which clusters vanished, and retries with a growing pause.
func (b *batch) retryExistenceCheck(ctx workflow.Context, retrier kit.Retrier, err error) {
	if ctx.Err() != nil {
		return
	}
	why := retrier.Explain(err, workflow.ActivityOptions{StartToCloseTimeout: kit.EffectTimeout})
	b.reportRetry(ctx, kit.ReasonOf(err), b.deletedSummary()+": "+why)
	b.hubUnavailable, b.retryPause = true, min(max(2*b.retryPause, policy.MinRetryPause), policy.MaxRetryPause)
	workflow.GoNamed(ctx, "retry the check for deleted clusters", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, b.retryPause, workflow.TimerOptions{Summary: "before the check for deleted clusters is retried"})
		if timer.Get(ctx, nil) == nil {
			b.hubUnavailable, b.changed = false, true
		}
	})
}

// startBudget limits how many clusters may be running and may fail.
func (b *batch) startBudget() rollout.StartBudget {
	g := b.group
	return rollout.StartBudget{
		Size: b.maxConcurrency(), Running: len(b.running), MaxFailures: int(g.status.ComputedMaxFailures), Failed: g.record.failed(),
	}
}

// maxConcurrency is the maximum number of clusters of the batch that run at the same time.
func (b *batch) maxConcurrency() int {
	most := min(len(b.clusters), b.group.remediator.MaxConcurrency())
	if b.last > b.first {
		most = min(most, int(b.group.status.ComputedMaxConcurrency))
	}
	return most
}
