package rollout

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit"
)

// awaitApproval waits until the next batch is approved, if it needs an approval. Meanwhile the clock of the rollout is paused.
func (g *groupUpgrade) awaitApproval(ctx workflow.Context) rollout.End {
	if !g.mustApprove(ctx) {
		return ""
	}
	awaited := g.nextApproval()
	if g.gate.healthy > 0 { // checks from before this wait are outdated
		g.gate.expire()
	}
	g.missingApproval = &awaited
	g.updateClock(ctx)
	expired := func() bool { return false }
	var until *time.Time
	timing, stop := workflow.WithCancel(ctx)
	if expiry := rollout.ApprovalExpiry(g.spec.Approvals); expiry > 0 {
		until = new(workflow.Now(ctx).Add(expiry))
		expired = workflow.NewTimerWithOptions(timing, expiry, workflow.TimerOptions{Summary: fmt.Sprintf("%s must be approved within %v", awaited, expiry)}).IsReady
	}
	g.record.awaitingApproval(ctx, g.missingApproval, until)
	err := workflow.Await(ctx, func() bool { return g.missingApproval == nil || expired() })
	stop()
	unapproved := g.missingApproval != nil
	g.missingApproval = nil
	g.record.awaitingApproval(ctx, nil, nil)
	g.updateClock(ctx)
	switch {
	case err != nil || ctx.Err() != nil:
		return rollout.EndCancelled
	case unapproved:
		return rollout.EndNotApproved
	}
	return ""
}

// nextApproval is the approval that the next batch needs. Its point is "" if it needs none.
func (g *groupUpgrade) nextApproval() rollout.AwaitedApproval {
	begun := g.status.Status.CurrentBatch
	if g.startedBatch != nil {
		begun = g.startedBatch.PreviousBatch
	}
	point := rollout.ApprovalBefore(g.spec.Approvals, g.status.RemediationPlan, g.spec.RemediationStrategy.Canaries, int(begun), g.nextBatch)
	return rollout.AwaitedApproval{Point: point, Batch: int32(g.nextBatch + 1)}
}

// mustApprove reports whether the next batch needs an approval and does not have a valid one.
func (g *groupUpgrade) mustApprove(ctx workflow.Context) bool {
	awaited := g.nextApproval()
	return awaited.Point != "" && !g.approved(ctx, awaited)
}

// approved reports whether the approval was given and is valid. Each batch needs its own, even if it has the number of one that started before. An approval
// does not expire during the health checks at the gate: if they took longer than it is valid, the rollout would ask for it again and again.
func (g *groupUpgrade) approved(ctx workflow.Context, awaited rollout.AwaitedApproval) bool {
	given := g.status.Approvals
	if len(given) == 0 {
		return false
	}
	last := given[len(given)-1]
	if started := g.status.Status.CurrentBatchStartedAt; g.startedBatch == nil && started != nil && !started.Before(&last.At) {
		return false
	}
	meant := last.Point == awaited.Point && last.Batch == awaited.Batch
	return meant && (g.healthCurrent() || rollout.ApprovalHolds(g.spec.Approvals, last.At.Time, workflow.Now(ctx)))
}

// checkApproval rejects an approval that the rollout does not wait for.
func (g *groupUpgrade) checkApproval(request rollout.ApprovalRequest) error {
	state := "it has ended"
	if g.status.Status.CompletedAt == nil {
		state = "it is running"
		if wait := g.status.Wait; wait != nil {
			state = wait.Reason + ": " + wait.Message
		}
	}
	return kit.InvalidSpec(rollout.CheckApproval(g.spec.Approvals, g.missingApproval, request, g.starters, state))
}

// approve records an approval.
func (g *groupUpgrade) approve(ctx workflow.Context, request rollout.ApprovalRequest) (ranv1.Approval, error) {
	// Check again: of two approvals that arrive together, both pass the validator.
	if err := g.checkApproval(request); err != nil {
		return ranv1.Approval{}, err
	}
	approval := ranv1.Approval{
		Point: g.missingApproval.Point, Batch: g.missingApproval.Batch, By: request.Actor, At: metav1.NewTime(workflow.Now(ctx)), Comment: request.Comment,
	}
	g.missingApproval = nil
	g.record.approved(approval)
	return approval, nil
}
