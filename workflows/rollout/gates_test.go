package rollout_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

func progressMessage(s workflowtest.GroupStatus) string {
	return meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing).Message
}

// approvedRollout needs an approval after its canary c1.
func approvedRollout() ranv1.ClusterGroupUpgrade {
	object := workflowtest.ARollout("c1")
	object.Spec.Approvals = &ranv1.Approvals{AfterCanaries: true, SeparateDuties: true}
	return object
}

func TestARolloutWaitsForAnApprovalAndRecordsIt(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	early := workflowtest.SendUpdateWhen(w, func(s workflowtest.GroupStatus) bool { return s.Counts.Running > 0 }, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	var waiting workflowtest.GroupStatus
	var own, otherBatch, granted, second *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() {
		waiting = workflowtest.StatusOf[workflowtest.GroupStatus](w)
		own = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "ann"})
		otherBatch = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob", Batch: 3})
		granted = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob", Comment: "CHG-7"})
		second = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
	}, 100*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: approvedRollout(), StartedBy: "ann"})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2", "+c3", "-c3"}, clusters.Events)
	require.ErrorContains(t, early.Rejected, "does not wait for an approval: BatchInProgress")
	require.ErrorContains(t, own.Rejected, "ann has started, edited, enabled or retried the rollout")
	require.ErrorContains(t, otherBatch.Rejected, "batch 2, not 3")
	require.NoError(t, granted.Err)
	require.Equal(t, "bob", granted.Result.(ranv1.Approval).By)
	require.True(t, second.Rejected != nil || second.Err != nil, "there is one approval")
	require.True(t, workflowtest.AwaitsApproval(waiting))
	require.Contains(t, waiting.Wait.Message, "an approver must approve afterCanaries (batch 2)")
	require.Equal(t, "WaitingForApproval; Maintaining nodes", progressMessage(waiting))
	require.Nil(t, waiting.Status.Estimate, "the time of the approval is unknown")
	require.Nil(t, waiting.Status.CurrentBatchDeadline)
	require.Len(t, status.Approvals, 1)
	require.Equal(t, "CHG-7", status.Approvals[0].Comment)
}

func TestAStarterMayNotApproveWithSeparateDuties(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, temporal.SignalRequest{Actor: "bob"}) }, time.Minute)
	own := workflowtest.SendUpdateWhen(w, workflowtest.AwaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	w.RegisterDelayedCallback(func() { w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"}) }, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann"})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.ErrorContains(t, own.Rejected, "bob has started, edited, enabled or retried")
}

func TestSeparateDutiesNeedAKnownStarter(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: approvedRollout()})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrInvalidSpec)
	require.ErrorContains(t, w.GetWorkflowError(), "spec.approvals.separateDuties: it is not known who started")
	require.Empty(t, clusters.Events)
}

func TestAMissingApprovalAbortsTheRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Approvals.Expiry = 120
	start := w.Now()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann"})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonAborted)
	require.WithinDuration(t, start.Add(2*time.Hour+time.Minute), w.Now(), time.Second)
	require.Equal(t, "Aborted because an approval was not given in time; not started: c2", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
	require.NotContains(t, clusters.Events, "+c2")
}

func TestAnApprovalThatExpiresDuringAPauseIsRequiredAgain(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Approvals.Expiry = 60
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalPause, nil)
		w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		require.True(t, workflowtest.AwaitsApproval(workflowtest.StatusOf[workflowtest.GroupStatus](w)))
		w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
	}, 150*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann"})
	require.Len(t, workflowtest.RequireResult[workflowtest.GroupStatus](w).Approvals, 2)
}

func TestResumeShowsTheWaitForTheApprovalAgain(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		require.True(t, workflowtest.AwaitsApproval(workflowtest.StatusOf[workflowtest.GroupStatus](w)))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 3*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: approvedRollout(), StartedBy: "ann"})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

func TestAnEditBeforeEnablePlansAgain(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	before := workflowtest.ARollout()
	before.Spec.Enable = new(bool)
	after := before.DeepCopy().Spec
	after.Clusters, after.RemediationStrategy.Timeout = []string{"c2"}, 90
	var edited *workflowtest.UpdateResult
	var planned workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() {
		w.Plan = workflowtest.PlanOf([]string{"c2"})
		edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: after})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		planned = workflowtest.StatusOf[workflowtest.GroupStatus](w)
		enabled := *after.DeepCopy()
		enabled.Enable = nil
		w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: enabled})
	}, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: before})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"spec.clusters", "spec.remediationStrategy.timeout"}, edited.Result.(edits.Answer).Changed)
	require.Equal(t, [][]string{{"c2"}}, planned.RemediationPlan)
	require.Equal(t, ranv1.ReasonNotEnabled, planned.Wait.Reason)
	require.Equal(t, []string{"+c2", "-c2"}, clusters.Events, "the second edit enables it")
	require.Equal(t, int32(1), status.Counts.Total)
	saved := w.Inputs["SaveRollout"]
	require.Equal(t, []string{"c2"}, saved[len(saved)-1].(rollouts.SaveRolloutInput).Object.Spec.Clusters)
}

func TestAnInvalidEditChangesNothing(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	before := workflowtest.ARollout()
	before.Spec.Enable = new(bool)
	backup := before.DeepCopy().Spec
	backup.ManagedPolicies, backup.NodeMaintenance = []string{"p"}, nil
	other := before.DeepCopy().Spec
	other.RemediationStrategy.MaxConcurrency = intstr.FromInt32(7)
	w.Fail["CheckRollout"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "spec.clusterSelector[0]: bad", nil))
	var unable, invalid *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() {
		unable = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: ranv1.ClusterGroupUpgradeSpec{PreCaching: true, Backup: true, Approvals: &ranv1.Approvals{SeparateDuties: true}}})
		invalid = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: other})
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: before})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Error(t, unable.Rejected)
	require.ErrorContains(t, invalid.Err, "spec.clusterSelector[0]: bad")
	require.Len(t, w.Inputs["PlanRollout"], 1, "it is not planned again")
}

func TestAfterEnableOnlyTimeoutsCanBeEdited(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	start := w.Now()
	longer := workflowtest.ARollout().Spec
	longer.RemediationStrategy.Timeout, longer.BatchTimeoutAction = 100, ranv1.BatchTimeoutAbort
	other := workflowtest.ARollout().Spec
	other.Clusters = []string{"c9"}
	short := workflowtest.ARollout().Spec
	short.RemediationStrategy.Timeout = 5
	var refusedOther, refusedShort, granted *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() {
		refusedOther = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: other})
		refusedShort = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: short})
		granted = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer})
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.WithinDuration(t, start.Add(50*time.Minute), workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline.Time, 2*time.Second)
	}, 11*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.ErrorContains(t, refusedOther.Err, "spec.clusters: cannot be changed once the rollout is enabled")
	require.ErrorContains(t, refusedShort.Err, "10m0s have been used already")
	require.NoError(t, granted.Err)
	require.NotContains(t, clusters.Events, "+c2", "it aborts")
	require.WithinDuration(t, start.Add(51*time.Minute), w.Now(), 5*time.Second)
}

// blockedRollout is blocked by rollout base.
func blockedRollout() ranv1.ClusterGroupUpgrade {
	object := workflowtest.ARollout()
	object.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "base"}}
	return object
}

func TestABlockedRolloutNamesItsBlockersAndUsesNoTime(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Blocked["AwaitBlockers"] = true
	var blocked, resumed workflowtest.GroupStatus
	blocking := rollout.Blocking{Missing: []types.NamespacedName{{Namespace: "ops", Name: "base"}}}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitBlockers", Wait: blocking.Wait()})
	}, time.Minute)
	w.RegisterDelayedCallback(func() { blocked = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 3*time.Hour)
	w.RegisterDelayedCallback(func() {
		resumed = workflowtest.StatusOf[workflowtest.GroupStatus](w)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: blockedRollout()})

	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Empty(t, clusters.Events)
	workflowtest.RequireCondition(t, blocked, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonMissingBlockingCR)
	require.Equal(t, "Missing blocking CRs: [base]; waiting for ops/base", progressMessage(blocked))
	require.Equal(t, []drydockv1.Blocker{{Kind: "ClusterGroupUpgrade", Namespace: "ops", Name: "base", Reason: "Missing"}}, blocked.Wait.Blockers)
	require.Equal(t, ranv1.ReasonMissingBlockingCR, resumed.Wait.Reason, "the wait is shown again after the pause")
	require.Nil(t, blocked.Status.StartedAt)
	workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCancelled)
}

func TestARolloutStartsAfterItsBlockersSucceeded(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := blockedRollout()
	object.Annotations = map[string]string{ranv1.AnnotationBlockingMode: ranv1.BlockingPartial}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.Events)
	input := w.Inputs["AwaitBlockers"][0].(ranv1.ClusterGroupUpgrade)
	require.Equal(t, "june", input.Name, "the activity detects cycles through it")
	require.Equal(t, object.Annotations, input.Annotations, "they say whether a blocker must have succeeded")
	require.Equal(t, blockedRollout().Spec.BlockingCRs, input.Spec.BlockingCRs)
}

// filteringRollout works only on clusters that are complete in rollout base.
func filteringRollout() ranv1.ClusterGroupUpgrade {
	object := blockedRollout()
	object.Annotations = map[string]string{ranv1.AnnotationBlockingMode: ranv1.BlockingPartial, ranv1.AnnotationBlockingFiltering: "true"}
	object.Spec.Actions.BeforeEnable = &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"before": ""}}
	object.Spec.Actions.AfterCompletion = &ranv1.AfterCompletion{AddClusterLabels: map[string]string{"after": ""}}
	return object
}

func TestOnlyClustersThatAreCompleteInTheBlockersAreUpgradedAndLabelled(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3", "c4"})
	w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c5", Reason: rollout.ReasonAlreadyCompliant}, {Cluster: "c6", Reason: rollout.ReasonAlreadyCompliant}}
	w.Plan.ComputedMaxConcurrency = 2
	w.Unblocked.Complete = []string{"c2", "c4", "c6"}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: filteringRollout()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.ElementsMatch(t, []string{"+c2", "-c2", "+c4", "-c4"}, clusters.Events)
	require.Equal(t, [][]string{{"c2", "c4"}}, status.RemediationPlan)
	changed := map[string][]string{}
	for _, input := range w.Inputs["ChangeClusters"] {
		change := input.(rollouts.ChangeClustersInput)
		for label := range change.Change.Labels {
			changed[label] = append(changed[label], change.Clusters...)
		}
	}
	require.ElementsMatch(t, []string{"c2", "c4"}, changed["before"])
	require.ElementsMatch(t, []string{"c2", "c4", "c6"}, changed["after"])
	require.Contains(t, status.Notes, "left out, because they are not complete in every rollout of spec.blockingCRs: c1, c3, c5 (3 clusters)")
	for _, cluster := range status.Clusters {
		if slices.Contains([]string{"c1", "c3", "c5"}, cluster.Name) {
			require.Equal(t, ranv1.ClusterStatus{
				Name: cluster.Name, State: ranv1.ClusterSkipped, Reason: rollout.ReasonNotCompleteInBlockers,
				Message: "the cluster is not complete in every rollout of spec.blockingCRs",
			}, cluster)
		}
	}
}

func TestARolloutWithoutACompleteClusterInTheBlockersFails(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: filteringRollout()})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonFailed)
	require.Empty(t, clusters.Events)
	require.Empty(t, w.Inputs["ChangeClusters"])
}

func TestACycleFoundLaterFailsTheRolloutAndIsSaved(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["AwaitBlockers"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "these rollouts wait for each other", nil))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: blockedRollout()})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrInvalidSpec)
	saved := w.Inputs["SaveRollout"]
	require.Len(t, saved, 2)
	workflowtest.RequireCondition(t, saved[1].(rollouts.SaveRolloutInput).Object.Status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonFailed)
}

func TestARetryRunsFailedClustersWithTheSavedPlan(t *testing.T) {
	over := workflowtest.GroupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2", "c3"}, {"c4"}, {"c5"}},
		Conditions:      append(workflowtest.PlanOf().Conditions, metav1.Condition{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonTimedOut}),
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", Batch: 1, State: ranv1.ClusterComplete},
			{Name: "c2", Batch: 2, State: ranv1.ClusterFailed},
			{Name: "c3", Batch: 2, State: ranv1.ClusterComplete},
			{Name: "c4", Batch: 3, State: ranv1.ClusterComplete},
			{Name: "c5", Batch: 4, State: ranv1.ClusterTimedOut},
		},
	}
	next, err := rollout.Retry(over, []string{"c1"}, rollout.RetryRequest{})
	require.NoError(t, err)
	w, clusters := workflowtest.NewGroupWorld(t)
	w.LoadedRollout = rollouts.LoadedRollout{Object: workflowtest.WithActions(workflowtest.ARollout("c1"))}
	w.LoadedRollout.Object.Status = next
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: workflowtest.ARollout().ObjectMeta}
	start := w.Now()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, []string{"+c2", "-c2", "+c5", "-c5"}, clusters.Events)
	require.Equal(t, over.RemediationPlan, status.RemediationPlan)
	require.Equal(t, map[string][]string{"begun": {"c2", "c5"}, "done": {"c5"}}, w.LabelledClusters(), "complete clusters are not changed")
	require.Equal(t, ranv1.ClusterCounts{Total: 5, Complete: 4, TimedOut: 1}, status.Counts)
	require.NotContains(t, w.Called(), "PlanRollout", "the plan is pinned")
	require.WithinDuration(t, start.Add(32*time.Minute), w.Now(), 5*time.Second, "c2 has half of the time: complete batches have no share")
	saved := w.Inputs["SaveRollout"]
	require.Len(t, saved, 1, "the saved rollout is overwritten only at the end")
	require.Equal(t, workflowtest.WithActions(workflowtest.ARollout("c1")).Spec, saved[0].(rollouts.SaveRolloutInput).Object.Spec)
}

func TestARetryWithoutFailedClustersEndsWithTheReason(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	w.Fail["LoadRollout"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "rollout ops/june is not saved on the hub", nil))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout(), Retry: &rollout.RetryRequest{}})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrNotFound)
	require.Empty(t, w.Inputs["SaveRollout"])
}

// Other rollouts wait for the saved status, and a retry reads it.
func TestARolloutWithoutAPlanKeepsTheSavedStatusOfTheLastOne(t *testing.T) {
	retry := rolloutworkflow.Input{Object: workflowtest.ARollout(), StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}}
	start := rolloutworkflow.Input{Object: workflowtest.ARollout(), StartedBy: "ann"}
	cancelled := func(w *workflowtest.World) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	}
	for _, tt := range []struct {
		name string
		in   rolloutworkflow.Input
		play func(*workflowtest.World)
		// saved: the end is saved on the hub.
		saved bool
	}{
		{"a retry that is cancelled while the hub does not answer", retry, func(w *workflowtest.World) {
			w.Fail["LoadRollout"] = workflowtest.Always(errors.New("the hub is unreachable"))
			cancelled(w)
		}, false},
		{"a retry by an unknown person with separate duties", rolloutworkflow.Input{Object: workflowtest.ARollout(), Retry: &rollout.RetryRequest{}}, func(w *workflowtest.World) {
			w.LoadedRollout = rollouts.LoadedRollout{Object: approvedRollout()}
		}, false},
		{"a cluster that does not exist", start, func(w *workflowtest.World) { w.Plan = planWithoutClusters("cluster c9 not found") }, false},
		{"a start that is cancelled while the hub does not answer", start, func(w *workflowtest.World) {
			w.Fail["PlanRollout"] = workflowtest.Always(errors.New("the hub is unreachable"))
			cancelled(w)
		}, false},
		{"a registered plan is saved with its end", rolloutworkflow.Input{Object: workflowtest.PlannedOnly()}, func(w *workflowtest.World) {
			w.Plan.Precaching = &ranv1.PrecachingSpec{}
			cancelled(w)
		}, true},
		{"a plan that may be registered is saved with its end", rolloutworkflow.Input{Object: workflowtest.PlannedOnly()}, func(w *workflowtest.World) {
			w.Plan.Precaching = &ranv1.PrecachingSpec{}
			recovers := w.Now().Add(time.Hour / 2)
			w.Fail["SaveRollout"] = func(int) error {
				if w.Now().Before(recovers) {
					return errors.New("the reply was lost")
				}
				return nil
			}
			cancelled(w)
		}, true},
		{"a retry with a loaded plan is saved with its end", retry, func(w *workflowtest.World) {
			w.LoadedRollout = rollouts.LoadedRollout{Object: prepared(workflowtest.ARollout())}
			w.LoadedRollout.Object.Status = workflowtest.GroupStatus{
				RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterPending, Batch: 1}},
				Precaching: &ranv1.PrecachingStatus{},
			}
			w.Blocked["RunClusterJob"] = true
			cancelled(w)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
			tt.play(w)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, tt.in)
			require.Error(t, w.GetWorkflowError())
			require.Empty(t, clusters.EventsInOrder())
			require.Equal(t, tt.saved, slices.ContainsFunc(w.InputsOf("SaveRollout"), func(in any) bool {
				return in.(rollouts.SaveRolloutInput).Object.Status.Status.CompletedAt != nil
			}))
		})
	}
}

// slowRemediator needs a minute to settle.
type slowRemediator struct{ policy.Remediator }

func (slowRemediator) Settle(ctx workflow.Context) { _ = workflow.Sleep(ctx, time.Minute) }

func TestAnEditBeforeContinueAsNewIsAnswered(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterAs("slow", func(ctx workflow.Context, in rolloutworkflow.Input) (workflowtest.GroupStatus, error) {
		return rolloutworkflow.RunWithRemediator(ctx, in, func(r policy.Remediator) policy.Remediator { return slowRemediator{r} })
	})
	w.OnActivity("CheckRollout", mock.Anything, mock.Anything).After(5 * time.Second).Return(
		func(_ context.Context, object ranv1.ClusterGroupUpgrade) (any, error) { return object, nil })
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
	longer := workflowtest.ARollout().Spec
	longer.RemediationStrategy.Timeout = 90
	var edited *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() { edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer}) }, time.Minute+58*time.Second)
	w.ExecuteWorkflow("slow", rolloutworkflow.Input{Object: workflowtest.ARollout()})
	next := workflowtest.NextRunInput[rolloutworkflow.Input](w)
	require.NotNil(t, next, "%v", w.GetWorkflowError())
	require.NoError(t, edited.Err)
	require.Equal(t, edits.Answer{Changed: []string{"spec.remediationStrategy.timeout"}}, edited.Result)
	require.EqualValues(t, 90, next.Object.Spec.RemediationStrategy.Timeout)
}

func TestARetryAfterTheCanariesNeedsOneApproval(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t)
	w.LoadedRollout = rollouts.LoadedRollout{Object: approvedRollout()}
	w.LoadedRollout.Object.Status = workflowtest.GroupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2"}, {"c3"}, {"c4"}},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", Batch: 1, State: ranv1.ClusterComplete},
			{Name: "c2", Batch: 2, State: ranv1.ClusterComplete},
			{Name: "c3", Batch: 3, State: ranv1.ClusterPending},
			{Name: "c4", Batch: 4, State: ranv1.ClusterPending},
		},
	}
	workflowtest.SendUpdateWhen(w, workflowtest.AwaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: workflowtest.ARollout().ObjectMeta}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})
	approvals := workflowtest.RequireResult[workflowtest.GroupStatus](w).Approvals
	require.Len(t, approvals, 1)
	require.Equal(t, []any{ranv1.AfterCanaries, int32(3)}, []any{approvals[0].Point, approvals[0].Batch})
	require.Equal(t, []string{"+c3", "-c3", "+c4", "-c4"}, clusters.EventsInOrder())
}
