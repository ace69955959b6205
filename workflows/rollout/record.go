package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/conditions"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// groupRecord is the status of a rollout. It shows every change in the query, the conditions, the search attributes, the current details of the Web
// UI, and the log.
type groupRecord struct {
	ctx workflow.Context
	// name is the namespace and the name of the rollout.
	name        string
	status      *ranv1.ClusterGroupUpgradeStatus
	remediation rollout.Remediation
	// soak is how long a complete cluster soaks before others start.
	soak   time.Duration
	reason kit.CurrentReason
	// attributes are the search attributes.
	attributes *kit.SearchAttributes
	log        log.Logger
	// waits are all waits of the rollout, except the retries of activities.
	waits   rollout.Waits
	retries kit.Retries
	// index is the position of a cluster in the status.
	index map[string]int
	// lastProblems are those of the last plan.
	lastProblems string
	// failures is the number of started clusters that failed.
	failures int
	// muted: show does nothing, until a change of many clusters is complete.
	muted bool
	// publisher shows the status on the object from which the rollout was started.
	publisher kit.Publisher
	// notifier notifies the receivers of the rollout.
	notifier kit.Notifier
	// completed is called with clusters that are complete.
	completed func(clusters ...string)
}

func newGroupRecord(ctx workflow.Context, status *ranv1.ClusterGroupUpgradeStatus, name string, remediation rollout.Remediation) *groupRecord {
	r := &groupRecord{ctx: ctx, name: name, status: status, remediation: remediation, log: log.With(workflow.GetLogger(ctx), "rollout", name)}
	r.attributes = &kit.SearchAttributes{Ctx: ctx, Log: r.log}
	r.attributes.Gather()
	r.reason = kit.CurrentReason{Wait: &status.Wait, Show: func() {}} // show shows it
	r.retries.Show = r.show
	r.setClusters(status.Clusters)
	return r
}

// setClusters replaces the clusters of the status.
func (r *groupRecord) setClusters(clusters []ranv1.ClusterStatus) {
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

// conditionLimit is the maximum length of the message of a condition, in bytes. The API sets it.
const conditionLimit = 32 << 10

func (r *groupRecord) condition(ctx workflow.Context, conditionType string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(&r.status.Conditions, conditionType, status, reason, temporal.Cut(message, conditionLimit), workflow.Now(ctx))
}

// planned replaces the plan.
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
	s.ManagedPoliciesForUpgrade = plan.ManagedPolicies()
	s.PolicyEnforcement = plan.PolicyEnforcement
	s.ManagedPoliciesCompliantBeforeUpgrade = plan.ManagedPoliciesCompliantBeforeUpgrade
	s.ComputedMaxFailures = plan.ComputedMaxFailures
	offline := map[string]bool{}
	for _, name := range plan.Offline {
		offline[name] = true
	}
	var clusters []ranv1.ClusterStatus
	for i, names := range plan.RemediationPlan {
		for _, name := range names {
			cluster := ranv1.ClusterStatus{Name: name, State: ranv1.ClusterPending, Batch: int32(i + 1)}
			if offline[name] {
				cluster.Reason, cluster.Message = ranv1.ReasonClusterOffline, rollout.MessageOffline
			}
			if first, known := plan.StartPolicyIndex[name]; known {
				cluster.CurrentPolicy = &ranv1.PolicyStatus{Name: plan.ManagedPoliciesForUpgrade[first]}
			}
			clusters = append(clusters, cluster)
		}
	}
	for _, skipped := range plan.Skipped {
		clusters = append(clusters, ranv1.ClusterStatus{Name: skipped.Cluster, State: ranv1.ClusterSkipped, Reason: skipped.Reason, Message: skipped.Message})
	}
	r.setClusters(clusters)
	if problems := r.problems(); problems != "" && problems != r.lastProblems {
		r.publisher.Event(ctx, true, ranv1.EventValidationFailure, problems)
	}
	r.lastProblems = r.problems()
	r.log.Info("Rollout planned", "valid", r.valid(), "batches", len(plan.RemediationPlan), "clusters", len(clusters), "skipped", len(plan.Skipped), "message", r.problems())
	r.show()
}

// leaveOut leaves the clusters out of the rollout that are not complete in its blockers.
func (r *groupRecord) leaveOut(strategy *ranv1.RemediationStrategy, complete []string) {
	left := rollout.LeaveOut(r.status, strategy, complete)
	if len(left) == 0 {
		return
	}
	r.setClusters(r.status.Clusters)
	r.note(fmt.Sprintf("left out, because they are not complete in every rollout of spec.blockingCRs: %s (%d clusters)", kit.JoinNames(left), len(left)))
}

// planLoaded replaces the status by the saved one of a retry, except a pause or hold of this rollout.
func (r *groupRecord) planLoaded(status ranv1.ClusterGroupUpgradeStatus) {
	paused, held, wait := r.status.Paused, r.status.Held, r.status.Wait
	*r.status = rollout.Expand(status)
	r.status.Paused, r.status.Held, r.status.Wait = paused, held, wait
	r.log.Info("Rollout retries with the saved plan", "batches", len(r.status.RemediationPlan), "clusters", len(r.status.Clusters))
	r.setClusters(r.status.Clusters)
	r.show()
}

func (r *groupRecord) valid() bool { return r.problems() == "" }

// problems joins the messages of the failed conditions of the plan; "": the plan is valid.
func (r *groupRecord) problems() string {
	var problems []string
	for _, t := range rollout.PlanConditions() {
		if c := meta.FindStatusCondition(r.status.Conditions, t); c != nil && c.Status != metav1.ConditionTrue {
			problems = append(problems, c.Message)
		}
	}
	return strings.Join(problems, "; ")
}

// started records that remediation starts.
func (r *groupRecord) started(ctx workflow.Context) {
	r.waits.Before = nil
	r.status.Status.StartedAt = r.now(ctx)
	for i := range r.status.Clusters { // whether clusters are offline was known when the plan was made
		if c := &r.status.Clusters[i]; c.State == ranv1.ClusterPending && c.Reason == ranv1.ReasonClusterOffline {
			c.Reason, c.Message = "", ""
		}
	}
	r.phase(ranv1.ReasonInProgress)
	r.publisher.Event(ctx, false, ranv1.EventStarted, fmt.Sprintf("ClusterGroupUpgrade remediation started: %d clusters in %d batches", len(slices.Concat(r.status.RemediationPlan...)), len(r.status.RemediationPlan)))
	r.notifier.Tell(ctx, drydockv1.EventStarted, "", fmt.Sprintf("%d clusters in %d batches", len(slices.Concat(r.status.RemediationPlan...)), len(r.status.RemediationPlan)))
	r.show()
}

// approvalsKept is the maximum number of approvals in a status.
const approvalsKept = 100

func (r *groupRecord) approved(approval ranv1.Approval) {
	approvals := append(r.status.Approvals, approval)
	r.status.Approvals = approvals[max(0, len(approvals)-approvalsKept):]
	r.log.Info("Rollout approved", "point", approval.Point, "batch", approval.Batch, "actor", approval.By)
	r.show()
}

func (r *groupRecord) batchStarted(ctx workflow.Context, number int32) {
	r.status.Wait = nil // the wait for this batch starts now
	r.status.Status.CurrentBatchStartedAt = r.now(ctx)
	r.status.Status.CurrentBatch = 0
	r.batchReached(ctx, number)
}

// batchReached records the number of the first batch that is not complete. In a rolling rollout later batches may have started.
func (r *groupRecord) batchReached(ctx workflow.Context, number int32) {
	if r.status.Status.CurrentBatch == number {
		return
	}
	r.status.Status.CurrentBatch = number
	r.attributes.Set(temporal.AttributeBatch.ValueSet(int64(number)))
	r.log.Info("Batch is in progress", "batch", number, "batches", len(r.status.RemediationPlan))
	r.publisher.Event(ctx, false, ranv1.EventStarted, fmt.Sprintf("Batch %d of %d started", number, len(r.status.RemediationPlan)))
	r.show()
}

// batchEnded logs the end of a batch and why it started no more clusters. In a rolling rollout, number is the last batch.
func (r *groupRecord) batchEnded(ctx workflow.Context, number int32, reason rollout.BatchReason) {
	r.log.Info("Batch ended", "batch", number, "batches", len(r.status.RemediationPlan), "reason", reason, "failedClusters", r.failures)
	if reason == rollout.BatchTimedOut {
		r.publisher.Event(ctx, true, ranv1.EventTimedOut, fmt.Sprintf("Batch %d of %d timed out", number, len(r.status.RemediationPlan)))
		return
	}
	message := fmt.Sprintf("Batch %d of %d ended", number, len(r.status.RemediationPlan))
	if r.failures > 0 {
		message += fmt.Sprintf("; %d clusters have failed so far", r.failures)
	}
	r.publisher.Event(ctx, r.failures > 0, ranv1.EventSuccess, message)
}

// setDeadlines records when the batch and the rollout time out; nil: the clock is paused. A batch whose active clusters all soak has no deadline.
func (r *groupRecord) setDeadlines(ctx workflow.Context, batch, rollout *time.Time) {
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
	r.attributes.Set(update)
	r.show()
}

const (
	// notesKept is the maximum number of notes in a status, noteLimit the maximum length of each, in bytes.
	notesKept = 100
	noteLimit = 2 << 10
)

// note records a message for the operator.
func (r *groupRecord) note(text string) {
	notes := append(r.status.Notes, temporal.Cut(text, noteLimit))
	r.status.Notes = notes[max(0, len(notes)-notesKept):]
	r.log.Info("Rollout has a note", "note", text)
	r.show()
}

// cleanupStarted records that the rollout removes its objects on the hub.
func (r *groupRecord) cleanupStarted() { r.log.Info("Rollout cleans up") }

// finished records the result of the rollout.
func (r *groupRecord) finished(ctx workflow.Context, result rollout.Result) {
	s := r.status
	s.Status.CompletedAt = r.now(ctx)
	s.Status.CurrentBatchDeadline, s.Status.Deadline, s.Held = nil, nil, nil
	if meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing) != nil {
		r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, progressingReason(result.Reason), result.Message)
	}
	r.condition(ctx, ranv1.ConditionSucceeded, result.Succeeded, result.Reason, result.Message)
	r.phase(result.Reason)
	r.publisher.Event(ctx, result.Succeeded != metav1.ConditionTrue, eventOf(result), result.Message)
	end := drydockv1.EventFailed
	if result.Succeeded == metav1.ConditionTrue {
		end = drydockv1.EventCompleted
	}
	r.notifier.End(ctx, end, result.Reason, result.Message)
	r.log.Info("Rollout ended", "succeeded", result.Succeeded, "reason", result.Reason, "message", result.Message)
	r.show()
}

// eventOf returns the reason of the Event for a result.
func eventOf(result rollout.Result) string {
	switch {
	case result.Succeeded == metav1.ConditionTrue:
		return ranv1.EventSuccess
	case result.Reason == ranv1.ReasonTimedOut, result.Reason == ranv1.ReasonClustersOffline:
		return ranv1.EventTimedOut
	}
	return ranv1.EventFailed
}

// progressingReason is the reason of Progressing=False for a reason of Succeeded. A rollout with failed clusters, or with clusters that were offline, is
// completed, too.
func progressingReason(reason string) string {
	if reason == ranv1.ReasonFailed || reason == ranv1.ReasonClustersOffline {
		return ranv1.ReasonCompleted
	}
	return reason
}

func (r *groupRecord) phase(phase string) {
	r.attributes.Set(temporal.AttributePhase.ValueSet(phase))
}

// showOnce calls change, and then shows all its changes together: each show reads all clusters. change must not block.
func (r *groupRecord) showOnce(change func()) {
	r.muted = true
	change()
	r.muted = false
	r.show()
}

// show updates everything that is computed from the status, and what users see.
func (r *groupRecord) show() {
	if r.muted {
		return
	}
	s := r.status
	s.Counts = rollout.Count(s.Clusters)
	r.failures = rollout.Failures(s.Clusters)
	s.Percentage = rollout.Percentage(s.Clusters)
	r.showWait()
	s.Status.Estimate = rollout.Estimate(s, r.soak, workflow.Now(r.ctx)) // it depends on the current wait
	kit.ShowDetails(r.ctx, groupDetails(r.name, s))
	r.publisher.Change()
}
