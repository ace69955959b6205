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

// runBatches runs the batches of the plan, one after the other, and again those with clusters that have relapsed meanwhile.
func (g *groupUpgrade) runBatches(ctx workflow.Context) (rollout.End, error) {
	g.followWindows(ctx)
	watching, stop := workflow.WithCancel(ctx)
	defer stop()
	g.watchRelapses(watching)
	for {
		if end, err := g.runPendingBatches(ctx); end != "" || err != nil {
			return end, err
		}
		if !g.retryRelapsed(ctx) {
			return "", nil
		}
		g.nextBatch = 0
	}
}

// runPendingBatches runs the batches from nextBatch on that have pending clusters.
func (g *groupUpgrade) runPendingBatches(ctx workflow.Context) (rollout.End, error) {
	plan := g.status.RemediationPlan
	for g.nextBatch < len(plan) {
		groupEnd := rollout.BatchGroupEnd(plan, g.spec.RemediationStrategy, g.nextBatch)
		if g.startedBatch == nil && len(g.record.pending(slices.Concat(plan[g.nextBatch:groupEnd]...))) == 0 {
			g.nextBatch = groupEnd
			continue
		}
		g.record.clustersCancelled(ctx)
		end := g.awaitBatchStart(ctx)
		var err error
		if end == "" {
			end, err = g.awaitHealthGate(ctx)
		}
		if end == "" && err == nil {
			end = g.runBatch(ctx, groupEnd)
		}
		switch {
		case end == endRecheckHealth:
		case end != "" || err != nil:
			return end, err
		default:
			g.nextBatch = groupEnd
		}
	}
	return "", nil
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
		case g.startedBatch == nil && g.clock.elapsed(workflow.Now(ctx)) >= g.timeout():
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

// runBatch runs the batches from nextBatch up to groupEnd, or resumes them after continue-as-new. It returns "" when the next batch is due,
// endContinueAsNew, endRecheckHealth, or why the rollout ends.
func (g *groupUpgrade) runBatch(ctx workflow.Context, groupEnd int) rollout.End {
	if g.startedBatch == nil {
		used := g.clock.elapsed(workflow.Now(ctx))
		g.startedBatch = &StartedBatch{
			Timeout: rollout.BatchTimeout(g.timeout(), used, g.batchesLeft()), UsedBefore: used, PreviousBatch: g.status.Status.CurrentBatch,
		}
		g.record.batchStarted(ctx, int32(g.nextBatch+1))
	}
	clusters := slices.Concat(g.status.RemediationPlan[g.nextBatch:groupEnd]...)
	b := &batch{
		group: g, first: int32(g.nextBatch + 1), last: int32(groupEnd), started: *g.startedBatch,
		clusters: clusters, pending: g.record.pending(clusters), active: map[string]*activeCluster{}, reportRetry: g.record.retries.Add(),
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
	decision := b.decide(ctx)
	if decision.Step != rollout.BatchEnd {
		return endContinueAsNew
	}
	g.startedBatch = nil
	g.record.notStarted(ctx, b.pending, b.timedOut)
	g.record.batchEnded(ctx, b.last, decision.Reason)
	return b.end(ctx)
}

// batchesLeft is the number of batches that share the remaining time, including the next or running one.
func (g *groupUpgrade) batchesLeft() int {
	plan := g.status.RemediationPlan
	if rollout.BatchGroupEnd(plan, g.spec.RemediationStrategy, g.nextBatch) == len(plan) {
		return 1
	}
	left := 1
	for _, clusters := range plan[g.nextBatch+1:] {
		if len(g.record.pending(clusters)) > 0 {
			left++
		}
	}
	return left
}
