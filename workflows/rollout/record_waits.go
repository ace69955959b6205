package rollout

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Each method here records one wait of the rollout. rollout.Waits computes from all of them the one that the status shows.

// showWait shows the current wait, and its deepest reason as a search attribute. The condition Progressing says why no cluster starts at the moment, or
// what blocks the clusters.
func (r *groupRecord) showWait() {
	s := r.status
	r.waits.Retry = r.retries.Oldest()
	wait, idleReason := r.waits.Current(r.remediation, s, *r.now(r.ctx))
	before := s.Wait
	r.reason.Replace(wait)
	deepest := rollout.DeepestWait(s)
	r.notifier.Waits(deepest)
	r.attributes.SetReason(before, deepest)
	if s.Status.StartedAt != nil && s.Status.CompletedAt == nil {
		message := r.remediation.InProgress()
		if idleReason == "" && deepest != nil && deepest.Reason != ranv1.ReasonBatchInProgress {
			idleReason = deepest.Reason
		}
		if idleReason != "" {
			message = idleReason + "; " + message
		}
		r.condition(r.ctx, ranv1.ConditionProgressing, metav1.ConditionTrue, ranv1.ReasonInProgress, message)
	}
}

// notPlanned records why the rollout could not be planned.
func (r *groupRecord) notPlanned(ctx workflow.Context, err error) {
	failure := kit.FailureOf(err)
	r.condition(ctx, ranv1.ConditionValidated, metav1.ConditionFalse, failure.Reason, failure.Message)
	r.notStartedYet(ctx, "the rollout cannot be planned: "+failure.Message, &drydockv1.Wait{Reason: failure.Reason, Message: failure.Message, Since: *r.now(ctx)})
}

// notStarting records why a planned rollout does not start.
func (r *groupRecord) notStarting(ctx workflow.Context, enabled, valid bool) {
	if !enabled {
		r.notEnabled(ctx, valid)
		return
	}
	reason := ranv1.ReasonInvalidPlan
	if c := meta.FindStatusCondition(r.status.Conditions, ranv1.ConditionValidated); c != nil && c.Reason == ranv1.ReasonWaitingForPlacement {
		reason = c.Reason
	}
	r.notStartedYet(ctx, "the plan has errors: "+r.problems(), &drydockv1.Wait{Reason: reason, Message: "waiting for a valid plan: " + r.problems(), Since: *r.now(ctx)})
}

// notEnabled records that the rollout is planned, and waits for enable.
func (r *groupRecord) notEnabled(ctx workflow.Context, valid bool) {
	message := "Not enabled"
	if !valid {
		message += "; the plan has errors: " + r.problems()
	}
	r.notStartedYet(ctx, message, &drydockv1.Wait{Reason: ranv1.ReasonNotEnabled, Message: "planned; waiting for enable", Since: *r.now(ctx)})
}

// blocked records which rollouts must succeed before this one starts.
func (r *groupRecord) blocked(ctx workflow.Context, wait *drydockv1.Wait) {
	r.notStartedYet(ctx, wait.Message, wait)
}

// notStartedYet records why remediation does not start.
func (r *groupRecord) notStartedYet(ctx workflow.Context, message string, wait *drydockv1.Wait) {
	if before := r.waits.Before; before == nil || before.Reason != wait.Reason || before.Message != wait.Message {
		r.log.Info("Rollout does not start yet", "reason", wait.Reason, "message", message)
	}
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, wait.Reason, message)
	r.phase(wait.Reason)
	r.waits.Before = wait
	r.show()
}

// awaitingApproval records the approval that the rollout waits for; nil: none.
func (r *groupRecord) awaitingApproval(ctx workflow.Context, awaited *rollout.AwaitedApproval, until *time.Time) {
	r.waits.Approval = nil
	if awaited != nil {
		r.waits.Approval = &drydockv1.Wait{
			Reason: ranv1.ReasonWaitingForApproval, Since: *r.now(ctx),
			Message: fmt.Sprintf("an approver must approve %s; batch %d of %d then starts", awaited, awaited.Batch, len(r.status.RemediationPlan)),
		}
		if until != nil {
			r.waits.Approval.Until = &metav1.Time{Time: *until}
		}
		r.log.Info("Rollout waits for an approval", "point", awaited.Point, "batch", awaited.Batch)
		r.notifier.Begins(ctx, drydockv1.EventWaitingForApproval, "", r.waits.Approval.Message, workflow.Now(ctx))
	} else {
		r.notifier.Ends(ctx, drydockv1.EventWaitingForApproval)
	}
	r.show()
}

// setPaused records that the rollout was paused or resumed.
func (r *groupRecord) setPaused(ctx workflow.Context, paused bool, who temporal.SignalRequest) {
	r.status.Paused = paused
	r.waits.Pause = nil
	if paused {
		r.waits.Pause = &drydockv1.Wait{
			Reason: policy.ReasonPaused, Message: "paused" + kit.ActorSuffix(who) + "; running clusters finish; waiting for resume", Since: *r.now(ctx),
		}
	}
	r.attributes.Set(temporal.AttributePaused.ValueSet(paused))
	r.log.Info("Rollout paused or resumed", "paused", paused, "actor", who.Actor, "reason", who.Reason)
	r.show()
}

// setHold records the hold or the closed window that holds the rollout; nil: none does.
func (r *groupRecord) setHold(hold *drydockv1.Hold) {
	before := r.status.Held
	r.status.Held = hold
	if before == nil && hold == nil {
		return
	}
	if (before == nil) != (hold == nil) {
		r.log.Info("Rollout held or released", "held", hold != nil, "hold", holdText(hold))
	}
	r.notifier.Hold(r.ctx, hold)
	r.show()
}

func holdText(hold *drydockv1.Hold) string {
	if hold == nil {
		return ""
	}
	return hold.String()
}

// cancelling records who cancelled the rollout.
func (r *groupRecord) cancelling(who temporal.SignalRequest) {
	if r.waits.Cancellation == rollout.ReasonCancelling {
		return
	}
	r.waits.Cancellation, r.waits.CancelledBy = rollout.ReasonCancelling, kit.ActorSuffix(who)
	r.log.Info("Rollout is being cancelled", "actor", who.Actor, "reason", who.Reason)
	r.show()
}

// cancellingClusters records that the rollout waits until cancelled clusters have ended.
func (r *groupRecord) cancellingClusters(timedOut bool) {
	reason := rollout.ReasonCancelling
	if timedOut {
		reason = rollout.ReasonCancellingTimedOut
	}
	if r.waits.Cancellation != reason {
		r.waits.Cancellation = reason
		r.log.Info("Running clusters are cancelled", "reason", reason)
	}
}

// clustersCancelled records that all cancelled clusters have ended, and the next batch is due. A cancelled rollout keeps the reason until its end.
func (r *groupRecord) clustersCancelled(ctx workflow.Context) {
	if ctx.Err() == nil && r.waits.Cancellation != "" {
		r.waits.Cancellation = ""
		r.show()
	}
}

// holdsUnknown records why the state of holds is unknown; an empty reason: it is known.
func (r *groupRecord) holdsUnknown(ctx workflow.Context, reason, message string) {
	r.waits.Unknown = kit.NewWait(ctx, r.waits.Unknown, reason, message)
	r.show()
}

// awaitingHealth records the wait of the health gate; nil: none.
func (r *groupRecord) awaitingHealth(wait *drydockv1.Wait) {
	r.waits.Health = wait
	r.show()
}
