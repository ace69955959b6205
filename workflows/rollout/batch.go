package rollout

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit"
)

// maxChildren is the maximum number of ClusterUpgrade children that run at the same time. The server blocks a run with too many children.
const maxChildren = 300

// batch is a group of clusters with one time limit: one batch of the plan or, in a rolling rollout, all batches after the canaries.
type batch struct {
	group *groupUpgrade
	// first and last are the numbers of the batches in the plan, counted from 1. last is first-1 if all clusters were deferred.
	first, last int32
	// catchUp: it is the catch-up batch.
	catchUp bool
	started StartedBatch

	clusters []string
	// pending are to be started. offline are the clusters that start when they are back.
	pending, offline []string
	// active are the clusters that run or soak.
	active map[string]*activeCluster
	// timer cancels the timer of the deadlines; nil: it is not set. It fires at wake. rolloutTimer: it is for the deadline of the rollout, because
	// all active clusters soak.
	timer        workflow.CancelFunc
	wake         time.Time
	rolloutTimer bool
	// work is the context of active clusters, and cancel cancels it. stopStarting cancels only the start of more clusters.
	work                 workflow.Context
	cancel, stopStarting workflow.CancelFunc
	timedOut             bool
	// changed wakes the loop of run.
	changed bool
	// reason is the logged reason why no more clusters start.
	reason rollout.BatchReason
	// available has the pending clusters that were looked up at lookedUpAt, and whether their ManagedClusters were Available.
	available  map[string]bool
	lookedUpAt time.Time
	// hubUnavailable: the lookup of ManagedClusters failed, and is retried after retryPause. reportRetry shows the error.
	hubUnavailable bool
	retryPause     time.Duration
	reportRetry    kit.Report
	// deletions watches for deleted ManagedClusters.
	deletions deletionWatch
	// returns watches the offline clusters.
	returns returnWatch
}

// run starts clusters until decide ends the batch, and waits for the running ones. After a timeout or a cancellation it waits until cancelled
// clusters have ended. Clusters stay pending if the batch timed out, too many clusters failed, or the run must continue as new.
func (b *batch) run(ctx workflow.Context) {
	work, cancel := workflow.WithCancel(ctx)
	starting, stopStarting := workflow.WithCancel(work)
	b.work, b.cancel, b.stopStarting = work, cancel, stopStarting
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	b.group.updateClock(ctx)
	for {
		b.changed = false
		stopped := work.Err() != nil
		if stopped || b.timedOut && b.busy() > 0 {
			b.stopTimer()
			if b.busy() > 0 {
				b.group.record.cancellingClusters(b.timedOut)
			}
			b.group.record.setDeadlines(waiting, nil, nil)
		} else {
			b.startTimer(waiting)
			b.startClusters(starting)
			b.watchReturns()
		}
		b.logReason(b.decide(work).Reason)
		ended := func() bool {
			step := b.decide(work).Step
			return step != rollout.BatchStart && step != rollout.BatchWait
		}
		if ended() {
			break
		}
		_ = workflow.Await(waiting, func() bool { return b.changed || !stopped && work.Err() != nil || ended() })
	}
	b.stopTimer()
	b.stopStarting()
	b.reportRetry(waiting, "", "")
	b.deletions.stopWatching()
	b.returns.stopWatching()
	b.endSoak(waiting)
}

// logReason logs a changed reason why no more clusters start; "": they may.
func (b *batch) logReason(reason rollout.BatchReason) {
	if b.reason == reason {
		return
	}
	b.reason = reason
	if reason == "" {
		b.group.record.log.Info("Batch starts clusters again", "batch", b.currentBatch())
	} else {
		b.group.record.log.Info("Batch starts no more clusters", "batch", b.currentBatch(), "reason", reason)
	}
}

// busy is the number of active clusters that do not only soak.
func (b *batch) busy() int {
	busy := 0
	//workflowcheck:ignore the order does not affect a count
	for _, cluster := range b.active {
		if cluster.state.Busy() {
			busy++
		}
	}
	return busy
}

// clustersRemain reports whether clusters are still to be started, in this batch or a later one.
func (b *batch) clustersRemain() bool {
	g := b.group
	return !b.timedOut && len(b.pending)+len(b.offline) > 0 || len(g.record.notStarted(slices.Concat(g.status.RemediationPlan[b.last:]...))) > 0
}

// clusterEnded handles the result of a cluster: of the remediator, or of the health checks after it.
func (b *batch) clusterEnded(ctx workflow.Context, cluster *activeCluster, result ranv1.ClusterStatus) {
	g := b.group
	soaks := b.work.Err() == nil && g.soak() > 0 && b.clustersRemain()
	next, state := cluster.state.End(rollout.WorkResult{State: result.State, HealthChecks: len(g.spec.HealthChecks) > 0, Soaks: soaks})
	complete := result.State == ranv1.ClusterComplete
	cluster.state, result.State = next, state
	if next == rollout.WorkChecking {
		b.checkHealth(cluster, result)
		return
	}
	delete(b.active, cluster.name)
	b.changed = true
	before := g.record.cluster(cluster.name)
	result.Name, result.Batch = cluster.name, before.Batch
	if keepsReason(state, before) {
		result.Reason, result.Message, result.Since = before.Reason, before.Message, before.Since
	}
	if complete && state != ranv1.ClusterTimedOut && state != ranv1.ClusterFailed {
		g.slowest = max(g.slowest, g.clock.elapsed(workflow.Now(ctx))-cluster.usedBefore)
	}
	g.record.clusterEnded(ctx, result)
	if next == rollout.WorkSoaking {
		b.soak(cluster, g.soak())
	}
	g.record.batchReached(ctx, b.currentBatch())
	g.updateClock(ctx)
}

// keepsReason reports whether the status has the reason already: the cluster timed out, or its ManagedCluster was deleted.
func keepsReason(state ranv1.ClusterState, before *ranv1.ClusterStatus) bool {
	return state == ranv1.ClusterTimedOut || state == ranv1.ClusterFailed && before.State == ranv1.ClusterFailed
}

// currentBatch is the number of the first batch that is not complete. A rolling rollout shows it as its progress.
func (b *batch) currentBatch() int32 {
	for number := max(b.first, b.group.status.Status.CurrentBatch); number < b.last; number++ { // it never decreases
		if !b.group.record.allOver(b.group.status.RemediationPlan[number-1]) {
			return number
		}
	}
	return max(b.first, b.last)
}

// isCanary reports whether the batch is that of a canary.
func (b *batch) isCanary() bool {
	canaries := b.group.spec.RemediationStrategy.Canaries
	return b.first == b.last && slices.ContainsFunc(b.clusters, func(c string) bool { return slices.Contains(canaries, c) })
}

// end returns why the rollout ends after this batch; "": it continues with the next batch.
func (b *batch) end(ctx workflow.Context) rollout.End {
	g := b.group
	canary := b.isCanary()
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled
	case g.record.allComplete(b.clusters): // soaking clusters count as complete
		return ""
	case canary && (b.timedOut || g.record.cluster(b.clusters[0]).State == ranv1.ClusterTimedOut):
		return rollout.EndCanaryTimedOut
	case canary:
		return rollout.EndCanaryFailed
	case b.startBudget().Exhausted() && (len(b.pending)+len(b.offline) > 0 || b.clustersRemain()):
		return rollout.EndAborted
	case b.timedOut && g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort:
		return rollout.EndBatchTimedOut
	}
	return ""
}
