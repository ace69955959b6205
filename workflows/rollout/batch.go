package rollout

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// maxChildren is the maximum number of running clusters with a child workflow each. The server blocks a run with too many children.
const maxChildren = 300

// endContinueAsNew ends the run, not the rollout: the run continues as new.
const endContinueAsNew rollout.End = "ContinueAsNew"

// batch is the clusters that share one time budget: one batch of the plan, or in a rolling rollout all batches after the canaries.
type batch struct {
	group *groupUpgrade
	// first and last batch of the plan, counted from 1.
	first, last int32
	started     StartedBatch

	clusters []string
	pending  []string
	// running are the running clusters and those that soak.
	running map[string]*activeCluster
	// timer cancels the deadline; nil: there is none. It fires next at wake. While clusters only soak it is the deadline of the rollout.
	timer        workflow.CancelFunc
	wake         time.Time
	rolloutTimer bool
	// work is the context of running clusters and of those that soak; withdraw cancels it. stopStarting cancels what starts others.
	work                   workflow.Context
	withdraw, stopStarting workflow.CancelFunc
	timedOut               bool
	changed                bool
	// existing are pending clusters that were ManagedClusters at existingAt.
	existing   map[string]bool
	existingAt time.Time
	// hubUnavailable: the hub did not answer, and is asked again after retryPause; 0: it answered. trouble shows that.
	hubUnavailable bool
	retryPause     time.Duration
	reportRetry    kit.Report
	// deletions watches whether ManagedClusters are deleted.
	deletions deletionWatch
}

// runBatches runs batch after batch.
func (g *groupUpgrade) runBatches(ctx workflow.Context) (rollout.End, error) {
	plan := g.status.RemediationPlan
	g.followWindows(ctx)
	for g.nextBatch < len(plan) {
		next := rollout.BatchGroupEnd(plan, g.spec.RemediationStrategy, g.nextBatch)
		if g.startedBatch != nil || len(g.record.pending(slices.Concat(plan[g.nextBatch:next]...))) > 0 {
			g.record.withdrawalEnded(ctx)
			if end := g.awaitBatchStart(ctx); end != "" {
				return end, nil
			}
			end, err := g.awaitHealthGate(ctx)
			if end == "" && err == nil {
				end = g.runBatch(ctx, next)
			}
			switch {
			case end == endRecheckHealth:
				continue
			case end != "" || err != nil:
				return end, err
			}
		}
		g.nextBatch = next
	}
	return "", nil
}

// runBatch runs the batches up to next, or resumes what the previous run began. It returns why the rollout ends, endContinueAsNew, endRecheckHealth, or ""
// when the next batch is due.
func (g *groupUpgrade) runBatch(ctx workflow.Context, next int) rollout.End {
	if g.startedBatch == nil {
		used := g.clock.elapsed(workflow.Now(ctx))
		g.startedBatch = &StartedBatch{
			Timeout: rollout.BatchTimeout(g.timeout(), used, g.batchesLeft()), UsedBefore: used, PreviousBatch: g.status.Status.CurrentBatch,
		}
		g.record.batchStarted(ctx, int32(g.nextBatch+1))
	}
	clusters := slices.Concat(g.status.RemediationPlan[g.nextBatch:next]...)
	b := &batch{
		group: g, first: int32(g.nextBatch + 1), last: int32(next), started: *g.startedBatch,
		clusters: clusters, pending: g.record.pending(clusters), running: map[string]*activeCluster{}, reportRetry: g.record.retries.Add(),
	}
	g.batch = b
	g.updateClock(ctx)
	b.run(ctx)
	if b.decide(ctx).Step == rollout.BatchRecheck {
		g.batch = nil
		g.record.setDeadlines(ctx, nil, nil)
		return endRecheckHealth
	}
	if err := b.failDeletedNow(ctx, b.retrier(ctx), b.clusters); err != nil && ctx.Err() == nil {
		g.record.note(fmt.Sprintf("could not check for deleted clusters of batch %d: %s", b.first, temporal.ErrorMessage(err)))
	}
	g.batch = nil
	if b.decide(ctx).Step != rollout.BatchEnd {
		return endContinueAsNew
	}
	g.startedBatch = nil
	g.record.notStarted(ctx, b.pending, b.timedOut)
	return b.end(ctx)
}

// awaitBatchStart waits until a batch may begin, or resume in a new run: the rollout is not paused, the holds are known, and the batch is
// approved. A resumed batch needs an approval only if no cluster was started yet. Without time left, no batch begins.
func (g *groupUpgrade) awaitBatchStart(ctx workflow.Context) rollout.End {
	for {
		if workflow.Await(ctx, func() bool { return !g.status.Paused }) != nil || g.holds.AwaitKnown(ctx, g.record.holdsUnknown) != nil {
			return rollout.EndCancelled
		}
		if kit.ShouldContinueAsNew(ctx, g.signals) {
			return endContinueAsNew
		}
		switch {
		case g.startedBatch != nil && !g.gateClosed():
			return ""
		case g.startedBatch == nil && g.clock.elapsed(workflow.Now(ctx)) >= g.timeout():
			return rollout.EndTimedOut
		}
		end := g.awaitApproval(ctx)
		switch {
		case end != "":
			return end
		case g.status.Paused: // meanwhile
		case rollout.ApprovalExpiry(g.spec.Approvals) > 0 && g.nextBatchHold() != nil:
			// The approval may have expired when a cluster can be started.
			g.gate.waiting = true
			err := g.awaitStartable(ctx)
			g.gate.waiting = false
			if err != nil {
				return rollout.EndCancelled
			}
		default:
			return ""
		}
	}
}

// batchesLeft is the number of batches that share the time that is left.
func (g *groupUpgrade) batchesLeft() int {
	plan := g.status.RemediationPlan
	if rollout.BatchGroupEnd(plan, g.spec.RemediationStrategy, g.nextBatch) == len(plan) {
		return 1
	}
	left := 1 // the next, or the running one
	for _, clusters := range plan[g.nextBatch+1:] {
		if len(g.record.pending(clusters)) > 0 {
			left++
		}
	}
	return left
}

// run starts the clusters and waits until all are over. After a timeout or a cancellation, running clusters are withdrawn first. It
// returns with pending clusters when the batch timed out, the run must continue as new, or too many clusters failed.
func (b *batch) run(ctx workflow.Context) {
	work, withdraw := workflow.WithCancel(ctx)
	starting, stopStarting := workflow.WithCancel(work)
	b.work, b.withdraw, b.stopStarting = work, withdraw, stopStarting
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	b.group.updateClock(ctx)
	for {
		b.changed = false
		stopped := work.Err() != nil
		if stopped || b.timedOut && b.busy() > 0 {
			b.stopTimer()
			if b.busy() > 0 {
				b.group.record.withdrawing(b.timedOut)
			}
			b.group.record.setDeadlines(waiting, nil, nil)
		} else {
			b.startTimer(waiting)
			b.startClusters(starting)
		}
		over := func() bool {
			step := b.decide(work).Step
			return step != rollout.BatchStart && step != rollout.BatchWait
		}
		if over() {
			break
		}
		_ = workflow.Await(waiting, func() bool { return b.changed || !stopped && work.Err() != nil || over() })
	}
	b.stopTimer()
	b.stopStarting()
	b.reportRetry(waiting, "", "")
	b.deletions.stopWatching()
	b.endSoak(waiting)
}

// busy is the number of running clusters.
func (b *batch) busy() int {
	busy := 0
	//workflowcheck:ignore what is counted has no order
	for _, cluster := range b.running {
		if cluster.state.Busy() {
			busy++
		}
	}
	return busy
}

// clustersRemain reports whether clusters still wait, in this batch or a later one.
func (b *batch) clustersRemain() bool {
	g := b.group
	return !b.timedOut && len(b.pending) > 0 || len(g.record.pending(slices.Concat(g.status.RemediationPlan[b.last:]...))) > 0
}

// clusterEnded records the end of the work on a cluster, or of the health checks that follow it.
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
	delete(b.running, cluster.name)
	b.changed = true
	result.Name, result.Batch = cluster.name, cluster.batch
	if before := g.record.cluster(cluster.name); keepsReason(state, before) {
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

// keepsReason reports whether the record of a cluster says already why it was withdrawn: it timed out, or its ManagedCluster is gone.
func keepsReason(state ranv1.ClusterState, before *ranv1.ClusterStatus) bool {
	return state == ranv1.ClusterTimedOut || state == ranv1.ClusterFailed && before.State == ranv1.ClusterFailed
}

// currentBatch is the first batch of the plan that is not over. A rolling rollout shows its progress by it.
func (b *batch) currentBatch() int32 {
	for number := max(b.first, b.group.status.Status.CurrentBatch); number < b.last; number++ { // batches that are over stay so
		if !b.group.record.allOver(b.group.status.RemediationPlan[number-1]) {
			return number
		}
	}
	return b.last
}

// end returns why the rollout ends after this batch; "": it continues.
func (b *batch) end(ctx workflow.Context) rollout.End {
	g := b.group
	canary := slices.ContainsFunc(b.clusters, func(c string) bool {
		return b.first == b.last && slices.Contains(g.spec.RemediationStrategy.Canaries, c)
	})
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled
	case g.record.allComplete(b.clusters): // those that soak are
		return ""
	case canary && (b.timedOut || g.record.cluster(b.clusters[0]).State == ranv1.ClusterTimedOut):
		return rollout.EndCanaryTimedOut
	case canary:
		return rollout.EndCanaryFailed
	case b.startBudget().Exhausted() && (len(b.pending) > 0 || b.clustersRemain()):
		return rollout.EndAborted
	case b.timedOut && g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort:
		return rollout.EndBatchTimedOut
	}
	return ""
}
