package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// groupRecord keeps the status of a rollout and shows every change of it: in the query, the conditions, the search attributes and the
// current details of the Web UI.
type groupRecord struct {
	ctx         workflow.Context
	status      *ranv1.ClusterGroupUpgradeStatus
	remediation rollout.Remediation
	reason      reasonKeeper
	// withdrawal is the reason while the clusters at work return their nodes; "" while they go on.
	withdrawal string
	// completed is told which clusters are complete.
	completed func(clusters ...string)
}

func newGroupRecord(ctx workflow.Context, status *ranv1.ClusterGroupUpgradeStatus, remediation rollout.Remediation) *groupRecord {
	r := &groupRecord{ctx: ctx, status: status, remediation: remediation}
	r.reason = reasonKeeper{attributes: &attributeKeeper{ctx: ctx}, wait: &status.Wait, show: r.show}
	return r
}

func (r *groupRecord) now(ctx workflow.Context) *metav1.Time {
	now := metav1.NewTime(workflow.Now(ctx))
	return &now
}

func (r *groupRecord) condition(ctx workflow.Context, conditionType string, status metav1.ConditionStatus, reason, message string) {
	rollout.SetCondition(&r.status.Conditions, conditionType, status, reason, message, workflow.Now(ctx))
}

// planned takes over a plan.
func (r *groupRecord) planned(ctx workflow.Context, plan rollout.Plan) {
	s := r.status
	for _, c := range plan.Conditions {
		r.condition(ctx, c.Type, c.Status, c.Reason, c.Message)
	}
	s.ComputedMaxConcurrency = plan.ComputedMaxConcurrency
	s.RemediationPlan = plan.RemediationPlan
	s.ManagedPoliciesForUpgrade = plan.ManagedPoliciesForUpgrade
	s.ManagedPoliciesCompliantBeforeUpgrade = plan.ManagedPoliciesCompliantBeforeUpgrade
	s.Clusters = nil
	for i, names := range plan.RemediationPlan {
		for _, name := range names {
			s.Clusters = append(s.Clusters, ranv1.ClusterStatus{Name: name, State: ranv1.ClusterPending, Batch: int32(i + 1)})
		}
	}
	for _, skipped := range plan.Skipped {
		s.Clusters = append(s.Clusters, ranv1.ClusterStatus{Name: skipped.Cluster, State: ranv1.ClusterSkipped, Reason: skipped.Reason, Message: skipped.Message})
	}
	r.show()
}

func (r *groupRecord) valid() bool { return r.problems() == "" }

// problems are the messages of what keeps the plan from being carried out.
func (r *groupRecord) problems() string {
	var problems []string
	for _, t := range []string{ranv1.ConditionClustersSelected, ranv1.ConditionValidated} {
		if c := meta.FindStatusCondition(r.status.Conditions, t); c != nil && c.Status != metav1.ConditionTrue {
			problems = append(problems, c.Message)
		}
	}
	return strings.Join(problems, "; ")
}

// notEnabled records that the rollout is planned, and waits to be enabled.
func (r *groupRecord) notEnabled(ctx workflow.Context, valid bool) {
	message := "Not enabled"
	if !valid {
		message += "; it could not be: " + r.problems()
	}
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled, message)
	r.phase(ranv1.ReasonNotEnabled)
	r.reason.set(ctx, ranv1.ReasonNotEnabled, "planned; waiting for enable")
}

// started records that remediation begins: the time of the rollout runs from here.
func (r *groupRecord) started(ctx workflow.Context) {
	r.status.Status.StartedAt = r.now(ctx)
	r.progressing(ctx)
}

// progressing records that the rollout is at work, or that it is paused.
func (r *groupRecord) progressing(ctx workflow.Context) {
	message := r.remediation.InProgress()
	switch {
	case r.status.Paused:
		message = "Paused; " + message
	case r.status.Held != nil:
		message = "Held; " + message
	}
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionTrue, ranv1.ReasonInProgress, message)
	r.phase(ranv1.ReasonInProgress)
	r.explain(ctx)
}

func (r *groupRecord) paused(ctx workflow.Context, paused bool, who temporal.SignalRequest) {
	r.status.Paused = paused
	_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributePaused.ValueSet(paused))
	if r.status.Status.StartedAt != nil {
		r.progressing(ctx)
	}
	switch {
	case paused:
		r.reason.set(ctx, "Paused", "paused"+byWhom(who)+"; what is at work finishes; waiting for resume")
	case r.status.Status.StartedAt == nil:
		r.notEnabled(ctx, r.valid())
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

// cancelling records that the rollout is being taken back.
func (r *groupRecord) cancelling(ctx workflow.Context, who temporal.SignalRequest) {
	r.withdrawal = "Cancelling"
	r.reason.set(ctx, r.withdrawal, "cancelled"+byWhom(who)+"; nodes at work are returned")
}

// withdrawing records that the clusters at work return their nodes.
func (r *groupRecord) withdrawing(ctx workflow.Context, timedOut bool) {
	if timedOut {
		r.withdrawal = "WithdrawingTimedOut"
	} else {
		r.withdrawal = "Cancelling"
	}
	r.deadlines(ctx, nil, nil)
}

func (r *groupRecord) batchStarted(ctx workflow.Context, number int32) {
	r.withdrawal = ""
	r.reason.replace(nil) // the wait for this batch begins now
	s := &r.status.Status
	s.CurrentBatch, s.CurrentBatchStartedAt = number, r.now(ctx)
	_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeBatch.ValueSet(int64(number)))
	r.explain(ctx)
}

// deadlines records when the batch and the rollout time out; nil while the clocks stand still.
func (r *groupRecord) deadlines(ctx workflow.Context, batch, rollout *time.Time) {
	s := &r.status.Status
	update := temporal.AttributeDeadline.ValueUnset()
	s.CurrentBatchDeadline, s.Deadline = nil, nil
	if batch != nil {
		s.CurrentBatchDeadline, s.Deadline = &metav1.Time{Time: *batch}, &metav1.Time{Time: *rollout}
		update = temporal.AttributeDeadline.ValueSet(*batch)
	}
	_ = workflow.UpsertTypedSearchAttributes(ctx, update)
	r.explain(ctx)
}

// batchTimedOut records what each cluster at work was doing when the time was over, before it is withdrawn.
func (r *groupRecord) batchTimedOut(ctx workflow.Context, number int32) {
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.Batch != number || c.State.Over() {
			continue
		}
		doing := strings.Join(slices.DeleteFunc([]string{c.Step, c.Reason, c.Message}, func(s string) bool { return s == "" }), ": ")
		c.Reason, c.Message = reasonBatchTimedOut, strings.TrimSuffix("the time of the batch was over; at that moment: "+doing, "; at that moment: ")
		c.Since = r.now(ctx)
	}
	r.explain(ctx)
}

// reasonBatchTimedOut is the reason of a cluster that was withdrawn because its batch ran out of time.
const reasonBatchTimedOut = "BatchTimedOut"

// note keeps something that a person should know.
func (r *groupRecord) note(text string) {
	r.status.Notes = append(r.status.Notes, text)
	r.show()
}

func (r *groupRecord) clustersStarted(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.StartedAt = ranv1.ClusterRunning, r.now(ctx)
	}
	r.explain(ctx)
}

// clusterProgressed takes over what a cluster at work reports. One that has been withdrawn keeps its reason.
func (r *groupRecord) clusterProgressed(ctx workflow.Context, report ranv1.ClusterStatus) {
	c := r.cluster(report.Name)
	if c == nil || c.State.Over() {
		return
	}
	if c.Reason == reasonBatchTimedOut {
		report.Reason, report.Message, report.Since = c.Reason, c.Message, c.Since
	}
	report.State, report.Batch = c.State, c.Batch
	*c = report
	r.explain(ctx)
}

func (r *groupRecord) clusterEnded(ctx workflow.Context, result ranv1.ClusterStatus) {
	c := r.cluster(result.Name)
	started := c.StartedAt
	*c = result
	c.StartedAt, c.CompletedAt, c.Step = started, r.now(ctx), ""
	if c.State == ranv1.ClusterComplete {
		r.completed(c.Name)
	}
	r.explain(ctx)
}

// pending returns those of the clusters that have not been started.
func (r *groupRecord) pending(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return r.cluster(name).State != ranv1.ClusterPending })
}

// notStarted records that clusters whose turn it was were not started, as the time was over.
func (r *groupRecord) notStarted(ctx workflow.Context, names []string, timedOut bool) {
	if !timedOut {
		return
	}
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterTimedOut, reasonBatchTimedOut, "the time of the batch was over before the cluster's turn came", r.now(ctx)
	}
	r.explain(ctx)
}

// vanished records clusters that are no ManagedClusters any more. Those that have ended in another way than complete keep their reason.
func (r *groupRecord) vanished(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State != ranv1.ClusterPending && c.State != ranv1.ClusterComplete {
			continue
		}
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterFailed, reasonClusterVanished, "its ManagedCluster is not on the hub any more", r.now(ctx)
	}
	r.explain(ctx)
}

// reasonClusterVanished is the reason of a cluster whose ManagedCluster was deleted while the rollout ran.
const reasonClusterVanished = "ClusterVanished"

// inState are the names of the clusters in that state.
func (r *groupRecord) inState(state ranv1.ClusterState) []string {
	var names []string
	for i := range r.status.Clusters {
		if r.status.Clusters[i].State == state {
			names = append(names, r.status.Clusters[i].Name)
		}
	}
	return names
}

// lateComplete records clusters that have timed out and are found complete after all.
func (r *groupRecord) lateComplete(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterComplete, "", "complete after its time was over", nil
	}
	if len(names) > 0 {
		r.completed(names...)
		r.explain(ctx)
	}
}

// complete reports whether every one of the clusters is complete.
func (r *groupRecord) complete(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return r.cluster(name).State != ranv1.ClusterComplete })
}

func (r *groupRecord) cluster(name string) *ranv1.ClusterStatus {
	i := slices.IndexFunc(r.status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.status.Clusters[i]
}

// over records how the rollout ended.
func (r *groupRecord) over(ctx workflow.Context, result rollout.Result) {
	s := r.status
	s.Status.CompletedAt = r.now(ctx)
	s.Status.CurrentBatchDeadline, s.Status.Deadline, s.Held = nil, nil, nil
	if s.Status.StartedAt != nil {
		r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, progressingReason(result.Reason), result.Message)
	}
	r.condition(ctx, ranv1.ConditionSucceeded, result.Succeeded, result.Reason, result.Message)
	r.phase(result.Reason)
	r.reason.set(ctx, "", "")
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

// explain keeps the rollout's one current reason: the batch at work, with the clusters that wait as its blockers.
func (r *groupRecord) explain(ctx workflow.Context) {
	s := r.status
	if s.Paused && r.withdrawal == "" || s.Status.CurrentBatch == 0 {
		r.show()
		return
	}
	var blockers []drydockv1.Blocker
	atWork := 0
	for _, c := range s.Clusters {
		if c.State != ranv1.ClusterRunning {
			continue
		}
		atWork++
		if c.Reason != "" && len(blockers) < 5 {
			blockers = append(blockers, drydockv1.Blocker{Kind: "ManagedCluster", Name: c.Name, Reason: c.Reason, Message: strings.TrimPrefix(c.Step+": "+c.Message, ": "), Since: c.Since})
		}
	}
	wait := &drydockv1.Wait{
		Reason: ranv1.ReasonBatchInProgress, Since: *s.Status.CurrentBatchStartedAt, Until: s.Status.CurrentBatchDeadline, Blockers: blockers,
		Message: fmt.Sprintf("batch %d of %d: clusters at work: %d", s.Status.CurrentBatch, len(s.RemediationPlan), atWork),
	}
	if s.Held != nil {
		wait.Reason, wait.Since = emergency.ReasonHeld, *r.now(ctx)
		wait.Message = emergency.Message(*s.Held) + "; the clock of the rollout stands still"
	}
	if r.withdrawal != "" {
		wait.Reason, wait.Since = r.withdrawal, *r.now(ctx)
		wait.Message = fmt.Sprintf("batch %d of %d: clusters that return their nodes: %d", s.Status.CurrentBatch, len(s.RemediationPlan), atWork)
	}
	r.reason.replace(wait)
}

// show makes the change visible to people.
func (r *groupRecord) show() {
	s := r.status
	s.Counts = rollout.Count(s.Clusters)
	s.Percentage = rollout.Percentage(s.Clusters)
	s.Status.Estimate = rollout.Estimate(s, workflow.Now(r.ctx))
	workflow.SetCurrentDetails(r.ctx, groupDetails(s))
}
