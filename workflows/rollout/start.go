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

// startClusters starts as many pending clusters as the batch may start now. It skips held clusters.
func (b *batch) startClusters(ctx workflow.Context) {
	for {
		next := b.nextReady(ctx)
		if len(next) == 0 {
			return
		}
		charged := b.group.clock.elapsed(workflow.Now(ctx))
		var clusters []*activeCluster
		for _, name := range next {
			cluster := &activeCluster{name: name, usedBefore: charged, state: rollout.WorkRunning}
			cluster.ctx, cluster.cancel = workflow.WithCancel(b.work)
			b.active[name] = cluster
			clusters = append(clusters, cluster)
		}
		b.pending = slices.DeleteFunc(b.pending, func(name string) bool { return b.active[name] != nil })
		b.group.openGate()
		b.group.record.clustersStarted(ctx, next)
		b.start(clusters)
		b.changed = true // the deadline of a cluster may be earlier than that of the batch
		if len(next) == b.group.remediator.MaxStartsPerTask() && workflow.Sleep(ctx, time.Millisecond) != nil {
			return // start the others in another workflow task
		}
	}
}

// start starts the work on clusters. Those that are not prepared are prepared first.
func (b *batch) start(clusters []*activeCluster) {
	var prepared []*activeCluster
	for _, cluster := range clusters {
		if b.group.prepared(cluster) {
			prepared = append(prepared, cluster)
		} else {
			b.prepareFirst(cluster)
		}
	}
	if len(prepared) > 0 {
		b.group.remediator.Start(b.workOn(prepared))
	}
}

// workOn describes the work on clusters for the remediator.
func (b *batch) workOn(clusters []*activeCluster) []*policy.ClusterWork {
	work := make([]*policy.ClusterWork, len(clusters))
	for i, cluster := range clusters {
		work[i] = &policy.ClusterWork{
			Cluster: cluster.name, Batch: b.group.record.cluster(cluster.name).Batch, Ctx: cluster.ctx,
			Ended: func(ctx workflow.Context, result ranv1.ClusterStatus) { b.clusterEnded(ctx, cluster, result) },
		}
	}
	return work
}

// next are the clusters to start now, at most as many as one workflow task can start.
func (b *batch) next(ctx workflow.Context) []string {
	return b.startable(min(b.decide(ctx).Start, b.group.remediator.MaxStartsPerTask()))
}

// decide returns the next step of the batch. Beside it, run starts no cluster after a cancellation or timeout, and nextReady none whose ManagedCluster
// may be deleted or offline.
func (b *batch) decide(ctx workflow.Context) rollout.BatchDecision {
	g := b.group
	state := rollout.BatchState{
		Budget: b.startBudget(), Pending: len(b.pending), Offline: len(b.offline), Busy: b.busy(),
		Cancelled: ctx.Err() != nil, TimedOut: b.timedOut, Paused: g.status.Paused,
		Relapses: b.relapsesDue(ctx), HealthUnknown: g.healthStale(), HistoryLong: kit.ShouldContinueAsNew(ctx, g.signals),
	}
	if soaking := len(b.active) - state.Busy; soaking > 0 && state.Busy == 0 {
		state.SoakCounts = b.clustersRemain() && b.end(ctx) == ""
	}
	return state.Decide()
}

// startable are the first pending clusters, at most limit, that are not held and would finish before their maintenance windows close.
func (b *batch) startable(limit int) []string {
	var startable []string
	for _, cluster := range b.pending {
		if len(startable) == limit {
			break
		}
		if b.group.holds.HoldFor(cluster, b.group.slowest) == nil {
			startable = append(startable, cluster)
		}
	}
	return startable
}

const (
	// lookupValidity is how long the lookup of a ManagedCluster is valid.
	lookupValidity = 10 * time.Second
	// lookupAhead is the minimum number of pending clusters that one activity looks up.
	lookupAhead = 50
)

// nextReady are the clusters to start now whose ManagedClusters exist and are Available. A cluster may start hours after the plan was made; if its
// ManagedCluster was deleted since then, the cluster fails, and if it is offline when it is the next to start, deferOffline decides. While the hub is
// unavailable, no cluster starts, and running clusters continue.
func (b *batch) nextReady(ctx workflow.Context) []string {
	for {
		kit.HandlePendingSignals(ctx)
		next, now := b.next(ctx), workflow.Now(ctx)
		unknown := func(name string) bool {
			_, known := b.available[name]
			return !known || now.Sub(b.lookedUpAt) >= lookupValidity
		}
		if !slices.ContainsFunc(next, unknown) {
			offline := slices.DeleteFunc(slices.Clone(next), func(name string) bool { return b.available[name] })
			if len(offline) == 0 {
				return next
			}
			b.deferOffline(ctx, offline)
			continue
		}
		if b.hubUnavailable {
			return nil
		}
		lookup := b.startable(max(b.startBudget().Free(), lookupAhead))
		retrier := b.group.retrier().Until(now.Add(-time.Nanosecond))
		retrier.Attempts = 2
		seen, err := b.lookUp(ctx, retrier, lookup)
		if err != nil {
			b.retryLookup(ctx, retrier, err)
			return nil
		}
		if b.retryPause > 0 {
			long := b.retryPause == policy.MaxRetryPause
			b.retryPause = 0
			b.reportRetry(ctx, "", "")
			if long && b.group.gateClosed() { // the health checks are outdated
				b.group.gate.expire()
				return nil
			}
		}
		b.available, b.lookedUpAt = map[string]bool{}, workflow.Now(ctx)
		for _, name := range lookup {
			b.available[name] = true
		}
		for _, name := range seen.Offline {
			b.available[name] = false
		}
	}
}

// retryLookup shows that the lookup of ManagedClusters failed, and retries it with a growing pause.
func (b *batch) retryLookup(ctx workflow.Context, retrier kit.Retrier, err error) {
	if ctx.Err() != nil {
		return
	}
	why := retrier.Explain(err, workflow.ActivityOptions{StartToCloseTimeout: kit.EffectTimeout})
	b.reportRetry(ctx, kit.ReasonOf(err), b.lookupSummary()+": "+why)
	b.hubUnavailable, b.retryPause = true, min(max(2*b.retryPause, policy.MinRetryPause), policy.MaxRetryPause)
	workflow.GoNamed(ctx, "retry the lookup of clusters", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, b.retryPause, workflow.TimerOptions{Summary: "before the lookup of clusters is retried"})
		if timer.Get(ctx, nil) == nil {
			b.hubUnavailable, b.changed = false, true
		}
	})
}

// startBudget limits how many clusters may run, and how many may fail.
func (b *batch) startBudget() rollout.StartBudget {
	g := b.group
	return rollout.StartBudget{
		Size: b.maxConcurrency(), Running: len(b.active), MaxFailures: int(g.status.ComputedMaxFailures), Failed: g.record.failed(),
	}
}

// maxConcurrency is the maximum number of active clusters of the batch.
func (b *batch) maxConcurrency() int {
	most := min(len(b.clusters), b.group.remediator.MaxConcurrency())
	if b.last > b.first || b.catchUp {
		most = min(most, int(b.group.status.ComputedMaxConcurrency))
	}
	return most
}
