package rollout

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// endContinueAsNew ends the run, not the rollout: the run continues as new.
const endContinueAsNew rollout.End = "ContinueAsNew"

// runBatches runs the batches of the plan, one after the other, again those with clusters that have relapsed meanwhile, and last the clusters that were
// offline.
func (g *groupUpgrade) runBatches(ctx workflow.Context) (rollout.End, error) {
	g.followWindows(ctx)
	watching, stop := workflow.WithCancel(ctx)
	defer stop()
	g.watchRelapses(watching)
	for {
		if end, err := g.runPendingBatches(ctx); end != "" || err != nil {
			return end, err
		}
		switch {
		case g.startedBatch == nil && g.retryRelapsed(ctx):
			g.nextBatch = 0
		case !g.catchUpDue(ctx):
			return "", nil
		default:
			if end, err := g.runNextBatch(ctx); end != "" || err != nil {
				return end, err
			}
		}
	}
}

// runPendingBatches runs the planned batches from nextBatch on that have pending clusters.
func (g *groupUpgrade) runPendingBatches(ctx workflow.Context) (rollout.End, error) {
	for g.nextBatch < rollout.PlannedBatches(&g.status) {
		if g.startedBatch == nil && len(g.record.notStarted(g.nextClusters())) == 0 {
			g.nextBatch = g.groupEnd()
			continue
		}
		end, err := g.runNextBatch(ctx)
		if end == rollout.EndTimedOut && g.skipToCatchUp(ctx) {
			continue
		}
		if end != "" || err != nil {
			return end, err
		}
	}
	return "", nil
}

// runNextBatch runs nextBatch and those that run together with it, once they may start.
func (g *groupUpgrade) runNextBatch(ctx workflow.Context) (rollout.End, error) {
	g.record.clustersCancelled(ctx)
	end := g.awaitBatchStart(ctx)
	var err error
	if end == "" {
		end, err = g.awaitHealthGate(ctx)
	}
	if end == "" && err == nil {
		end = g.runBatch(ctx)
	}
	if end == endRecheckHealth {
		end = ""
	}
	return end, err
}

// groupEnd is the index after the last batch that runs together with nextBatch. The catch-up batch runs alone.
func (g *groupUpgrade) groupEnd() int {
	planned := rollout.PlannedBatches(&g.status)
	if g.nextBatch >= planned {
		return len(g.status.RemediationPlan)
	}
	return rollout.BatchGroupEnd(g.status.RemediationPlan[:planned], g.spec.RemediationStrategy, g.nextBatch)
}

// nextClusters are the clusters of nextBatch, and of those that run together with it.
func (g *groupUpgrade) nextClusters() []string {
	return slices.Concat(g.status.RemediationPlan[g.nextBatch:g.groupEnd()]...)
}

// awaitBatchStart waits until the next batch may start: the rollout is not paused, the state of holds is known, and the batch is approved. A batch
// that an earlier run started needs an approval only if no cluster has started yet. No batch starts after the timeout of the rollout.
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
		case g.startedBatch == nil && g.clock.elapsed(workflow.Now(ctx)) >= g.timeLimit():
			return rollout.EndTimedOut
		}
		end := g.awaitApproval(ctx)
		switch {
		case end != "":
			return end
		case g.status.Paused: // during the wait for the approval
		case rollout.ApprovalExpiry(g.spec.Approvals) > 0 && g.nextBatchHold() != nil:
			// Check the approval again after the hold: it may have expired by then.
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

// runBatch runs nextBatch and those that run together with it, or resumes them after continue-as-new. It returns "" when the next batch is due,
// endContinueAsNew, endRecheckHealth, or why the rollout ends.
func (g *groupUpgrade) runBatch(ctx workflow.Context) rollout.End {
	if g.startedBatch == nil {
		used := g.clock.elapsed(workflow.Now(ctx))
		g.startedBatch = &StartedBatch{
			Timeout: rollout.BatchTimeout(g.timeLimit(), used, g.batchesLeft()), UsedBefore: used, PreviousBatch: g.status.Status.CurrentBatch,
		}
		g.record.batchStarted(ctx, int32(g.nextBatch+1))
	}
	clusters := g.nextClusters()
	b := &batch{
		group: g, first: int32(g.nextBatch + 1), last: int32(g.groupEnd()), catchUp: g.catchesUp(), started: *g.startedBatch,
		clusters: clusters, pending: g.record.notStarted(clusters), active: map[string]*activeCluster{}, reportRetry: g.record.retries.Add(),
	}
	g.batch = b
	g.updateClock(ctx)
	b.run(ctx)
	if b.decide(ctx).Step == rollout.BatchRecheck {
		g.batch = nil
		g.record.setDeadlines(ctx, nil, nil)
		return endRecheckHealth
	}
	if _, err := b.lookUp(ctx, b.retrier(ctx), b.clusters); err != nil && ctx.Err() == nil {
		g.record.note(fmt.Sprintf("could not look up the clusters of batch %d: %s", b.first, temporal.ErrorMessage(err)))
	}
	g.batch = nil
	decision := b.decide(ctx)
	if decision.Step != rollout.BatchEnd {
		return endContinueAsNew
	}
	g.startedBatch, g.nextBatch = nil, int(b.last)
	if b.timedOut {
		g.record.timedOutBeforeStart(ctx, b.pending)
	}
	g.record.batchEnded(ctx, max(b.first, b.last), decision.Reason)
	return b.end(ctx)
}

// batchesLeft is the number of batches that share the remaining time, including the next or running one. The catch-up batch has the time that the others
// leave.
func (g *groupUpgrade) batchesLeft() int {
	left := 1
	for next := g.groupEnd(); next < rollout.PlannedBatches(&g.status); next++ {
		if len(g.record.notStarted(g.status.RemediationPlan[next])) > 0 {
			left++
		}
	}
	return left
}
