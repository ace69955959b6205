package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// groupRecord keeps the status of a rollout and shows every change of it: in the query, the conditions, the search attributes and the
// current details of the Web UI.
type groupRecord struct {
	ctx         workflow.Context
	status      *ranv1.ClusterGroupUpgradeStatus
	remediation rollout.Remediation
	// soak is how long clusters that are complete keep others waiting.
	soak   time.Duration
	reason reasonKeeper
	log    log.Logger
	// waits is everything that the rollout waits for, but for its troubles.
	waits    rollout.Waits
	troubles troubles
	// index is where in the status a cluster is.
	index map[string]int
	// failures is how many clusters have failed on which work was begun.
	failures int
	// gathering: changes to many clusters are shown together.
	gathering bool
	// completed is told which clusters are complete.
	completed func(clusters ...string)
}

func newGroupRecord(ctx workflow.Context, status *ranv1.ClusterGroupUpgradeStatus, name string, remediation rollout.Remediation) *groupRecord {
	r := &groupRecord{ctx: ctx, status: status, remediation: remediation, log: log.With(workflow.GetLogger(ctx), "rollout", name)}
	r.reason = reasonKeeper{attributes: &attributeKeeper{ctx: ctx}, wait: &status.Wait, show: func() {}} // it changes only when all is shown
	r.troubles.show = r.show
	r.list(status.Clusters)
	return r
}

// list takes over which clusters there are.
func (r *groupRecord) list(clusters []ranv1.ClusterStatus) {
	r.status.Clusters, r.index = clusters, map[string]int{}
	for i := range clusters {
		r.index[clusters[i].Name] = i
	}
	r.failures = rollout.Failures(clusters)
}

func (r *groupRecord) now(ctx workflow.Context) *metav1.Time {
	now := metav1.NewTime(workflow.Now(ctx))
	return &now
}

// conditionLimit is how many bytes the message of a condition has at most, as the API has it. It may name thousands of clusters.
const conditionLimit = 32 << 10

func (r *groupRecord) condition(ctx workflow.Context, conditionType string, status metav1.ConditionStatus, reason, message string) {
	rollout.SetCondition(&r.status.Conditions, conditionType, status, reason, temporal.Cut(message, conditionLimit), workflow.Now(ctx))
}

// planned takes over a plan. What an earlier one said of itself counts no more.
func (r *groupRecord) planned(ctx workflow.Context, plan rollout.Plan) {
	s := r.status
	for _, t := range rollout.PlanConditions() {
		if meta.FindStatusCondition(plan.Conditions, t) == nil {
			meta.RemoveStatusCondition(&s.Conditions, t)
		}
	}
	for _, c := range plan.Conditions {
		r.condition(ctx, c.Type, c.Status, c.Reason, c.Message)
	}
	s.ComputedMaxConcurrency = plan.ComputedMaxConcurrency
	s.RemediationPlan = plan.RemediationPlan
	s.ManagedPoliciesForUpgrade = plan.ManagedPoliciesForUpgrade
	s.ManagedPoliciesCompliantBeforeUpgrade = plan.ManagedPoliciesCompliantBeforeUpgrade
	s.ComputedMaxFailures = plan.ComputedMaxFailures
	var clusters []ranv1.ClusterStatus
	for i, names := range plan.RemediationPlan {
		for _, name := range names {
			cluster := ranv1.ClusterStatus{Name: name, State: ranv1.ClusterPending, Batch: int32(i + 1)}
			if first, known := plan.StartPolicyIndex[name]; known {
				cluster.CurrentPolicy = &ranv1.PolicyStatus{Name: plan.ManagedPoliciesForUpgrade[first]}
			}
			clusters = append(clusters, cluster)
		}
	}
	for _, skipped := range plan.Skipped {
		clusters = append(clusters, ranv1.ClusterStatus{Name: skipped.Cluster, State: ranv1.ClusterSkipped, Reason: skipped.Reason, Message: skipped.Message})
	}
	r.list(clusters)
	r.show()
}

// recalled takes over the status with which a rollout begins once more. It may have been paused or held meanwhile.
func (r *groupRecord) recalled(status ranv1.ClusterGroupUpgradeStatus) {
	paused, held, wait := r.status.Paused, r.status.Held, r.status.Wait
	*r.status = rollout.Expand(status)
	r.status.Paused, r.status.Held, r.status.Wait = paused, held, wait
	r.log.Info("Rollout retries with the saved plan", "batches", len(r.status.RemediationPlan), "clusters", len(r.status.Clusters))
	r.list(r.status.Clusters)
	r.show()
}

func (r *groupRecord) valid() bool { return r.problems() == "" }

// problems are the messages of what keeps the plan from being carried out.
func (r *groupRecord) problems() string {
	var problems []string
	for _, t := range rollout.PlanConditions() {
		if c := meta.FindStatusCondition(r.status.Conditions, t); c != nil && c.Status != metav1.ConditionTrue {
			problems = append(problems, c.Message)
		}
	}
	return strings.Join(problems, "; ")
}

// started records that remediation begins: the time of the rollout runs from here.
func (r *groupRecord) started(ctx workflow.Context) {
	r.waits.Before = nil
	r.status.Status.StartedAt = r.now(ctx)
	r.phase(ranv1.ReasonInProgress)
	r.show()
}

// approvals that a status keeps at most.
const approvalsKept = 100

func (r *groupRecord) approved(approval ranv1.Approval) {
	approvals := append(r.status.Approvals, approval)
	r.status.Approvals = approvals[max(0, len(approvals)-approvalsKept):]
	r.log.Info("Rollout approved", "point", approval.Point, "batch", approval.Batch, "actor", approval.By)
	r.show()
}

func (r *groupRecord) batchStarted(ctx workflow.Context, number int32) {
	r.status.Wait = nil // the wait for this batch begins now
	r.status.Status.CurrentBatchStartedAt = r.now(ctx)
	r.status.Status.CurrentBatch = 0
	r.batchReached(ctx, number)
}

// batchReached records which batch is not over; those behind it may have begun in a rolling rollout.
func (r *groupRecord) batchReached(ctx workflow.Context, number int32) {
	if r.status.Status.CurrentBatch == number {
		return
	}
	r.status.Status.CurrentBatch = number
	_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeBatch.ValueSet(int64(number)))
	r.log.Info("Batch is in progress", "batch", number, "batches", len(r.status.RemediationPlan))
	r.show()
}

// deadlines records when the batch and the rollout time out; nil while the clocks stand still. A batch of which clusters only soak does not.
func (r *groupRecord) deadlines(ctx workflow.Context, batch, rollout *time.Time) {
	s := &r.status.Status
	update := temporal.AttributeDeadline.ValueUnset()
	s.CurrentBatchDeadline, s.Deadline = nil, nil
	if rollout != nil {
		s.Deadline = &metav1.Time{Time: *rollout}
		update = temporal.AttributeDeadline.ValueSet(*rollout)
	}
	if batch != nil {
		s.CurrentBatchDeadline = &metav1.Time{Time: *batch}
		update = temporal.AttributeDeadline.ValueSet(*batch)
	}
	_ = workflow.UpsertTypedSearchAttributes(ctx, update)
	r.show()
}

const (
	// notesKept is how many notes a status keeps at most, and noteLimit how many bytes of each.
	notesKept = 100
	noteLimit = 2 << 10
)

// note keeps something that a person should know.
func (r *groupRecord) note(text string) {
	notes := append(r.status.Notes, temporal.Cut(text, noteLimit))
	r.status.Notes = notes[max(0, len(notes)-notesKept):]
	r.log.Info("Rollout has a note", "note", text)
	r.show()
}

// finished records how the rollout ended.
func (r *groupRecord) finished(ctx workflow.Context, result rollout.Result) {
	s := r.status
	s.Status.CompletedAt = r.now(ctx)
	s.Status.CurrentBatchDeadline, s.Status.Deadline, s.Held = nil, nil, nil
	if meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing) != nil {
		r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, progressingReason(result.Reason), result.Message)
	}
	r.condition(ctx, ranv1.ConditionSucceeded, result.Succeeded, result.Reason, result.Message)
	r.phase(result.Reason)
	r.log.Info("Rollout ended", "succeeded", result.Succeeded, "reason", result.Reason, "message", result.Message)
	r.show()
}

// progressingReason is the reason of Progressing=False for that of Succeeded: a rollout with failed clusters has run to its end.
func progressingReason(reason string) string {
	if reason == ranv1.ReasonFailed {
		return ranv1.ReasonCompleted
	}
	return reason
}

func (r *groupRecord) phase(phase string) {
	_ = workflow.UpsertTypedSearchAttributes(r.ctx, temporal.AttributePhase.ValueSet(phase))
}

// together makes changes to many clusters and shows them once: each time, all clusters are looked through. Change must not wait for anything.
func (r *groupRecord) together(change func()) {
	r.gathering = true
	change()
	r.gathering = false
	r.show()
}

// show makes the change visible to people.
func (r *groupRecord) show() {
	if r.gathering {
		return
	}
	s := r.status
	s.Counts = rollout.Count(s.Clusters)
	r.failures = rollout.Failures(s.Clusters)
	s.Percentage = rollout.Percentage(s.Clusters)
	s.Status.Estimate = rollout.Estimate(s, r.soak, workflow.Now(r.ctx))
	r.explain()
	workflow.SetCurrentDetails(r.ctx, groupDetails(s))
}
