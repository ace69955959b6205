package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
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
	reason      reasonKeeper
	// before is why remediation does not begin yet.
	before *drydockv1.Wait
	// approval is that which is waited for.
	approval *drydockv1.Wait
	// index is where in the status a cluster is.
	index map[string]int
	// failures is how many clusters have failed on which work was begun.
	failures int
	// lead says in the condition Progressing why the rollout does not start more at the moment; "": it does.
	lead string
	// withdrawal is the reason while the clusters at work are withdrawn; "" while they go on.
	withdrawal string
	// gathering: changes to many clusters are shown together.
	gathering bool
	// completed is told which clusters are complete.
	completed func(clusters ...string)
}

func newGroupRecord(ctx workflow.Context, status *ranv1.ClusterGroupUpgradeStatus, remediation rollout.Remediation) *groupRecord {
	r := &groupRecord{ctx: ctx, status: status, remediation: remediation}
	r.reason = reasonKeeper{attributes: &attributeKeeper{ctx: ctx}, wait: &status.Wait, show: r.show}
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

func (r *groupRecord) condition(ctx workflow.Context, conditionType string, status metav1.ConditionStatus, reason, message string) {
	rollout.SetCondition(&r.status.Conditions, conditionType, status, reason, message, workflow.Now(ctx))
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

// recalled takes over the status with which a rollout begins once more.
func (r *groupRecord) recalled(status ranv1.ClusterGroupUpgradeStatus) {
	paused, held := r.status.Paused, r.status.Held
	*r.status = status
	r.status.Paused, r.status.Held = paused, held
	r.list(status.Clusters)
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
	r.before = nil
	r.status.Status.StartedAt = r.now(ctx)
	r.progressing(ctx)
}

// approvals that a status keeps at most.
const approvalsKept = 100

func (r *groupRecord) approved(approval ranv1.Approval) {
	approvals := append(r.status.Approvals, approval)
	r.status.Approvals = approvals[max(0, len(approvals)-approvalsKept):]
	r.show()
}

func (r *groupRecord) batchStarted(ctx workflow.Context, number int32) {
	r.withdrawal = ""
	r.reason.replace(nil) // the wait for this batch begins now
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
	r.explain(ctx)
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
	r.explain(ctx)
}

// batchTimedOut records what each cluster at work was doing when the time of the batch was over, before it is withdrawn.
func (r *groupRecord) batchTimedOut(ctx workflow.Context, names []string) {
	for _, name := range names {
		if c := r.cluster(name); working(c) && c.Reason != reasonClusterTimedOut {
			r.timedOut(ctx, c, reasonBatchTimedOut, "the time of the batch was over")
		}
	}
	r.explain(ctx)
}

// working reports whether a cluster is at work: also while it soaks with one of several policies, and not while it soaks for the sake of others.
func working(c *ranv1.ClusterStatus) bool {
	return c.State == ranv1.ClusterRunning || c.State == ranv1.ClusterSoaking && c.CompletedAt == nil
}

// clusterTimedOut records what a cluster was doing when its own time was over, before it is withdrawn.
func (r *groupRecord) clusterTimedOut(ctx workflow.Context, name string) {
	r.timedOut(ctx, r.cluster(name), reasonClusterTimedOut, "the time of the cluster was over")
	r.explain(ctx)
}

func (r *groupRecord) timedOut(ctx workflow.Context, c *ranv1.ClusterStatus, reason, message string) {
	doing := strings.Join(slices.DeleteFunc([]string{c.Step, c.Reason, c.Message}, func(s string) bool { return s == "" }), ": ")
	if doing != "" {
		message += "; at that moment: " + doing
	}
	c.Reason, c.Message, c.Since = reason, message, r.now(ctx)
}

// Reasons of a cluster that was withdrawn because its batch, or it alone, ran out of time.
const (
	reasonBatchTimedOut   = "BatchTimedOut"
	reasonClusterTimedOut = "ClusterTimedOut"
)

// clusterSoaks records that the work on a cluster is over, and has to last until then.
func (r *groupRecord) clusterSoaks(ctx workflow.Context, name string, until time.Time) {
	c := r.cluster(name)
	c.Reason, c.Since = ranv1.ReasonSoaking, r.now(ctx)
	c.Message = "complete; soaks until " + until.UTC().Format("15:04:05Z")
	r.explain(ctx)
}

func (r *groupRecord) clusterSoaked(ctx workflow.Context, name string) {
	c := r.cluster(name)
	c.State, c.Reason, c.Message, c.Since = ranv1.ClusterComplete, "", "", nil
	r.completed(name)
	r.explain(ctx)
}

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

// clustersStand takes over how clusters at work stand. One that has been withdrawn keeps its reason.
func (r *groupRecord) clustersStand(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	for _, now := range clusters {
		c := r.cluster(now.Name)
		if c.State.Over() || c.Reason == reasonBatchTimedOut {
			continue
		}
		if c.Reason != now.Reason || c.Step != now.Step {
			c.Since = r.now(ctx)
		}
		c.State, c.Step, c.Reason, c.Message = now.State, now.Step, now.Reason, now.Message
		c.CurrentPolicy, c.CurrentManifestWork = now.CurrentPolicy, now.CurrentManifestWork
	}
	r.explain(ctx)
}

// clusterProgressed takes over what a cluster at work reports. One that has been withdrawn keeps its reason.
func (r *groupRecord) clusterProgressed(ctx workflow.Context, report ranv1.ClusterStatus) {
	c := r.cluster(report.Name)
	if c == nil || c.State.Over() {
		return
	}
	if c.Reason == reasonBatchTimedOut || c.Reason == reasonClusterTimedOut {
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

// messageVanished is the message of a cluster that is no ManagedCluster any more.
const messageVanished = "its ManagedCluster is not on the hub any more"

// vanished records clusters that are no ManagedClusters any more. Those that have failed keep their reason.
func (r *groupRecord) vanished(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State != ranv1.ClusterFailed {
			c.State, c.Reason, c.Message, c.Since = ranv1.ClusterFailed, ranv1.ReasonClusterVanished, messageVanished, r.now(ctx)
		}
	}
	r.explain(ctx)
}

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

// failed is how many clusters have failed, or timed out, on which work was begun.
func (r *groupRecord) failed() int { return r.failures }

// complete reports whether every one of the clusters is complete, or soaks for the sake of others.
func (r *groupRecord) complete(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		c := r.cluster(name)
		return c.State != ranv1.ClusterComplete && (c.State != ranv1.ClusterSoaking || working(c))
	})
}

func (r *groupRecord) cluster(name string) *ranv1.ClusterStatus {
	i, known := r.index[name]
	if !known {
		return nil
	}
	return &r.status.Clusters[i]
}

// over reports whether every one of the clusters is over.
func (r *groupRecord) over(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !r.cluster(name).State.Over() })
}

// finished records how the rollout ended.
func (r *groupRecord) finished(ctx workflow.Context, result rollout.Result) {
	s := r.status
	s.Status.CompletedAt = r.now(ctx)
	s.Status.CurrentBatchDeadline, s.Status.Deadline, s.Held = nil, nil, nil
	r.before, r.approval = nil, nil
	if meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing) != nil {
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

// together makes changes to many clusters and shows them once: each time, all clusters are looked through. Change must not wait for anything.
func (r *groupRecord) together(ctx workflow.Context, change func()) {
	r.gathering = true
	change()
	r.gathering = false
	r.explain(ctx)
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
	s.Status.Estimate = rollout.Estimate(s, workflow.Now(r.ctx))
	workflow.SetCurrentDetails(r.ctx, groupDetails(s))
}
