package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// notEnabled records that the rollout is planned, and waits to be enabled.
func (r *groupRecord) notEnabled(ctx workflow.Context, valid bool) {
	message := "Not enabled"
	if !valid {
		message += "; it could not be: " + r.problems()
	}
	r.notStartedYet(ctx, message, &drydockv1.Wait{Reason: ranv1.ReasonNotEnabled, Message: "planned; waiting for enable", Since: *r.now(ctx)})
}

// blocked records which rollouts must have succeeded before this one starts.
func (r *groupRecord) blocked(ctx workflow.Context, wait *drydockv1.Wait) {
	r.notStartedYet(ctx, wait.Message, wait)
}

// notStartedYet records why remediation does not begin. After a pause that is said again.
func (r *groupRecord) notStartedYet(ctx workflow.Context, message string, wait *drydockv1.Wait) {
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, wait.Reason, message)
	r.phase(wait.Reason)
	r.before = wait
	if r.status.Paused {
		r.show()
		return
	}
	r.reason.replace(new(*wait))
	r.show()
}

// progressing records that the rollout is at work, or why it starts nothing more at the moment.
func (r *groupRecord) progressing(ctx workflow.Context) {
	r.inProgress(ctx)
	r.phase(ranv1.ReasonInProgress)
	r.explain(ctx)
}

func (r *groupRecord) inProgress(ctx workflow.Context) {
	message := r.remediation.InProgress()
	switch {
	case r.status.Paused:
		message = "Paused; " + message
	case r.status.Held != nil:
		message = emergency.Reason(*r.status.Held) + "; " + message
	case r.lead != "":
		message = r.lead + "; " + message
	}
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionTrue, ranv1.ReasonInProgress, message)
}

// leads records why the rollout starts nothing more at the moment; "": it does.
func (r *groupRecord) leads(ctx workflow.Context, reason string) {
	if r.lead != reason {
		r.lead = reason
		r.inProgress(ctx)
	}
}

// awaitingApproval records what somebody has to approve before the rollout goes on; nil: nothing, or nothing more.
func (r *groupRecord) awaitingApproval(ctx workflow.Context, awaited *rollout.AwaitedApproval, until *time.Time) {
	if awaited == nil {
		r.approval = nil
		r.leads(ctx, "")
		r.reason.set(ctx, "", "")
		return
	}
	r.approval = &drydockv1.Wait{
		Reason: ranv1.ReasonWaitingForApproval, Since: *r.now(ctx),
		Message: fmt.Sprintf("somebody must approve %s; batch %d of %d then starts", awaited, awaited.Batch, len(r.status.RemediationPlan)),
	}
	if until != nil {
		r.approval.Until = &metav1.Time{Time: *until}
	}
	r.leads(ctx, ranv1.ReasonWaitingForApproval)
	r.explain(ctx)
}

// paused records that the rollout is paused, or not any more. A pause that lasts stays that of who has paused first.
func (r *groupRecord) paused(ctx workflow.Context, paused bool, who temporal.SignalRequest) {
	r.status.Paused = paused
	if !paused {
		r.pause = nil
	}
	_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributePaused.ValueSet(paused))
	if r.status.Status.StartedAt != nil {
		r.progressing(ctx)
	}
	switch {
	case paused:
		if r.pause == nil {
			r.pause = &drydockv1.Wait{
				Reason: reasonPaused, Message: "paused" + byWhom(who) + "; what is at work finishes; waiting for resume", Since: *r.now(ctx),
			}
		}
		r.reason.replace(r.pause.DeepCopy())
	case r.unknown != nil:
		r.reason.replace(new(*r.unknown))
	case r.before != nil:
		r.reason.replace(new(*r.before))
	case r.status.Status.StartedAt == nil:
		r.reason.set(ctx, "", "")
	}
}

// held records what keeps the rollout from going on; nil: nothing does.
func (r *groupRecord) held(ctx workflow.Context, hold *drydockv1.Hold) {
	before := r.status.Held
	r.status.Held = hold
	switch {
	case before == nil && hold == nil:
	case r.status.Status.StartedAt != nil:
		r.progressing(ctx)
	default:
		r.show()
	}
}

// cancelling records that the rollout is being taken back. When that is what is waited for already, it is said how far it has come.
func (r *groupRecord) cancelling(ctx workflow.Context, who temporal.SignalRequest) {
	if r.withdrawal == "Cancelling" && r.saysWithdrawal() {
		return
	}
	r.withdrawal = "Cancelling"
	r.reason.set(ctx, r.withdrawal, "cancelled"+byWhom(who)+"; what is at work is withdrawn")
}

// saysWithdrawal reports whether the one current reason is that work is withdrawn.
func (r *groupRecord) saysWithdrawal() bool {
	return r.withdrawal != "" && r.status.Wait != nil && r.status.Wait.Reason == r.withdrawal
}

// withdrawing records that the clusters at work are withdrawn.
func (r *groupRecord) withdrawing(timedOut bool) {
	r.withdrawal = "Cancelling"
	if timedOut {
		r.withdrawal = "WithdrawingTimedOut"
	}
}

// withdrawn records that what was withdrawn is not at work any more, and that the next batch is due. A rollout that is cancelled says so to its end.
func (r *groupRecord) withdrawn(ctx workflow.Context) {
	if ctx.Err() != nil || r.withdrawal == "" {
		return
	}
	r.withdrawal = ""
	if stands := r.stands(); stands != nil {
		r.reason.replace(stands)
	}
}

// stands is why the rollout starts nothing more until somebody has said so; nil: nobody needs to.
func (r *groupRecord) stands() *drydockv1.Wait {
	return cmp.Or(r.pause, r.approval, r.unknown).DeepCopy()
}

// notTold records that it is not known what is held, and why; without a reason it is.
func (r *groupRecord) notTold(ctx workflow.Context, reason, message string) {
	r.unknown = nil
	if reason != "" {
		r.unknown = &drydockv1.Wait{Reason: reason, Message: message, Since: *r.now(ctx)}
	}
	r.troubled(ctx, reason, message)
}

// troubled records why something does not succeed yet; without a reason it does now, or is not tried any more, and what stands is said again.
func (r *groupRecord) troubled(ctx workflow.Context, reason, message string) {
	stands := r.stands()
	switch {
	case reason != "":
		r.reason.set(ctx, reason, message)
	case !r.reason.says(message): // it is not what is shown any more
	case r.saysWithdrawal():
	case r.withdrawal != "" && r.status.Status.CurrentBatchStartedAt != nil:
		r.explainBatch(ctx)
	case r.withdrawal != "":
		r.reason.set(ctx, r.withdrawal, "what is at work is withdrawn")
	case stands != nil:
		r.reason.replace(stands)
	case r.status.Held != nil && r.status.Status.CurrentBatch == 0:
		r.reason.hold(ctx, *r.status.Held)
	case r.status.Held != nil, slices.ContainsFunc(r.status.Clusters, func(c ranv1.ClusterStatus) bool { return working(&c) || c.State == ranv1.ClusterSoaking }):
		r.explainBatch(ctx)
	default:
		r.reason.set(ctx, "", "")
	}
}

// explain keeps the rollout's one current reason: the approval that is missing, or the batch at work, with the clusters that wait as its blockers.
func (r *groupRecord) explain(ctx workflow.Context) {
	s := r.status
	switch {
	case r.gathering:
	case s.Paused && r.withdrawal == "":
		r.show()
	case r.approval != nil && r.withdrawal == "":
		r.reason.replace(new(*r.approval))
	case s.Status.CurrentBatch == 0:
		r.show()
	default:
		r.explainBatch(ctx)
	}
}

func (r *groupRecord) explainBatch(ctx workflow.Context) {
	s := r.status
	var blockers []drydockv1.Blocker
	atWork, soaking := 0, 0
	for i := range s.Clusters {
		c := &s.Clusters[i]
		switch {
		case working(c):
			atWork++
			if c.Reason != "" && len(blockers) < 5 {
				blockers = append(blockers, drydockv1.Blocker{Kind: "ManagedCluster", Name: c.Name, Reason: c.Reason, Message: strings.TrimPrefix(c.Step+": "+c.Message, ": "), Since: c.Since})
			}
		case c.State == ranv1.ClusterSoaking:
			soaking++
		}
	}
	batch := fmt.Sprintf("batch %d of %d: ", s.Status.CurrentBatch, len(s.RemediationPlan))
	wait := &drydockv1.Wait{
		Reason: ranv1.ReasonBatchInProgress, Since: *s.Status.CurrentBatchStartedAt, Until: s.Status.CurrentBatchDeadline, Blockers: blockers,
		Message: fmt.Sprintf("%sclusters at work: %d", batch, atWork),
	}
	if s.ComputedMaxFailures > 0 {
		wait.Message += fmt.Sprintf("; failed: %d, at most %d may", r.failures, s.ComputedMaxFailures)
	}
	lead := ""
	if atWork == 0 && soaking > 0 {
		lead = ranv1.ReasonSoaking
		wait.Reason, wait.Since = lead, *r.now(ctx)
		wait.Message = fmt.Sprintf("%sclusters that soak before others start: %d", batch, soaking)
	}
	if s.Held != nil {
		wait.Reason, wait.Since, wait.Until = emergency.Reason(*s.Held), *r.now(ctx), s.Held.Until
		wait.Message = emergency.Message(*s.Held) + "; the clock of the rollout stands still"
	}
	if r.withdrawal != "" && lead == "" {
		wait.Reason, wait.Since = r.withdrawal, *r.now(ctx)
		wait.Message = batch + "what was at work is taken back"
		if atWork > 0 {
			wait.Message = fmt.Sprintf("%s%s: %d", batch, r.remediation.Withdrawing(), atWork)
		}
	}
	r.leads(ctx, lead)
	r.reason.replace(wait)
}
