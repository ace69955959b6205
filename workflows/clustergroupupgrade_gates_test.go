package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// asked is what became of an update.
type asked struct {
	result  any
	refused error
	err     error
}

// ask sends an update to the workflow.
func (w *world) ask(update string, request any) *asked {
	a := &asked{}
	w.askInto(a, update, request)
	return a
}

func (w *world) askInto(a *asked, update string, request any) {
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept:   func() {},
		OnReject:   func(err error) { a.refused = err },
		OnComplete: func(result any, err error) { a.result, a.err = result, err },
	}, request)
}

// askWhen sends it as soon as the condition holds.
func askWhen(w *world, condition func(groupStatus) bool, update string, request any) *asked {
	a := &asked{}
	w.when(func() bool { return condition(statusOf[groupStatus](w)) }, func() { w.askInto(a, update, request) })
	return a
}

func awaitsApproval(s groupStatus) bool {
	return s.Wait != nil && s.Wait.Reason == ranv1.ReasonWaitingForApproval
}

func progressMessage(s groupStatus) string {
	return meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing).Message
}

// approved is a rollout after whose canary c1 somebody has to approve.
func approvedRollout() ranv1.ClusterGroupUpgrade {
	object := aRollout("c1")
	object.Spec.Approvals = &ranv1.Approvals{AfterCanaries: true, SeparateDuties: true}
	return object
}

func TestARolloutWaitsForAnApprovalForAsLongAsItTakesAndKeepsIt(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	early := askWhen(w, func(s groupStatus) bool { return s.Counts.Running > 0 }, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	var waiting groupStatus
	var own, otherBatch, granted, second *asked
	w.RegisterDelayedCallback(func() {
		waiting = statusOf[groupStatus](w)
		own = w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "ann"})
		otherBatch = w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob", Batch: 3})
		granted = w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob", Comment: "CHG-7"})
		second = w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
	}, 100*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: approvedRollout(), StartedBy: "ann"})

	status := requireResult[groupStatus](w)
	require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2", "+c3", "-c3"}, clusters.events)
	require.ErrorContains(t, early.refused, "does not wait for an approval: BatchInProgress")
	require.ErrorContains(t, own.refused, "ann has started, edited, enabled or retried the rollout")
	require.ErrorContains(t, otherBatch.refused, "batch 2, not 3")
	require.NoError(t, granted.err)
	require.Equal(t, "bob", granted.result.(ranv1.Approval).By)
	require.True(t, second.refused != nil || second.err != nil, "there is one approval")
	require.True(t, awaitsApproval(waiting))
	require.Contains(t, waiting.Wait.Message, "somebody must approve afterCanaries (batch 2)")
	require.Equal(t, "WaitingForApproval; Maintaining nodes", progressMessage(waiting))
	require.Nil(t, waiting.Status.CurrentBatchDeadline)
	require.Len(t, status.Approvals, 1)
	require.Equal(t, "CHG-7", status.Approvals[0].Comment)
}

func TestWhoEnablesARolloutMayNotApproveIt(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, temporal.SignalRequest{Actor: "bob"}) }, time.Minute)
	own := askWhen(w, awaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	w.RegisterDelayedCallback(func() { w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"}) }, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann"})
	requireResult[groupStatus](w)
	require.ErrorContains(t, own.refused, "bob has started, edited, enabled or retried")
}

func TestDutiesAreNotSeparatedWhenNobodyKnowsWhoStarted(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: approvedRollout()})
	requireFailure[groupStatus](w, temporal.ErrInvalidSpec)
	require.ErrorContains(t, w.GetWorkflowError(), "spec.approvals.separateDuties: it is not known who started")
	require.Empty(t, clusters.events)
}

func TestAnApprovalThatNobodyGivesInTimeAbortsTheRollout(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Approvals.Expiry = 120
	start := w.Now()
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann"})
	status := requireFailure[groupStatus](w, ranv1.ReasonAborted)
	require.WithinDuration(t, start.Add(2*time.Hour+time.Minute), w.Now(), time.Second)
	require.Equal(t, "Aborted because an approval was not given in time; not started: c2", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
	require.NotContains(t, clusters.events, "+c2")
}

func TestAnApprovalThatGrewOldWhileThePauseLastedIsAskedForAgain(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := approvedRollout()
	object.Spec.Approvals.Expiry = 60
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalPause, nil)
		w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		require.True(t, awaitsApproval(statusOf[groupStatus](w)))
		w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
	}, 150*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann"})
	require.Len(t, requireResult[groupStatus](w).Approvals, 2)
}

func TestResumeDuringAnApprovalSaysAgainWhatIsWaitedFor(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		require.True(t, awaitsApproval(statusOf[groupStatus](w)))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 3*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: approvedRollout(), StartedBy: "ann"})
	requireCancelled[groupStatus](w)
}

func TestARolloutThatIsNotEnabledCanBeEditedAndIsPlannedAnew(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	before := aRollout()
	before.Spec.Enable = new(bool)
	after := before.DeepCopy().Spec
	after.Clusters, after.RemediationStrategy.Timeout = []string{"c2"}, 90
	var edited *asked
	var planned groupStatus
	w.RegisterDelayedCallback(func() {
		w.plan = planOf([]string{"c2"})
		edited = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: after})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		planned = statusOf[groupStatus](w)
		enabled := *after.DeepCopy()
		enabled.Enable = nil
		w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: enabled})
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: before})

	status := requireResult[groupStatus](w)
	require.Equal(t, []string{"spec.clusters", "spec.remediationStrategy.timeout"}, edited.result.(EditAnswer).Changed)
	require.Equal(t, [][]string{{"c2"}}, planned.RemediationPlan)
	require.Equal(t, ranv1.ReasonNotEnabled, planned.Wait.Reason)
	require.Equal(t, []string{"+c2", "-c2"}, clusters.events, "the second edit has enabled it")
	require.Equal(t, int32(1), status.Counts.Total)
	kept := w.inputs["SaveRollout"]
	require.Equal(t, []string{"c2"}, kept[len(kept)-1].(activities.SaveRolloutInput).Object.Spec.Clusters)
}

func TestAnEditThatIsWrongChangesNothing(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	before := aRollout()
	before.Spec.Enable = new(bool)
	backup := before.DeepCopy().Spec
	backup.ManagedPolicies, backup.NodeMaintenance = []string{"p"}, nil
	other := before.DeepCopy().Spec
	other.RemediationStrategy.MaxConcurrency = intstr.FromInt32(7)
	w.fail["CheckRollout"] = always(temporal.Error(temporal.ErrInvalidSpec, "spec.clusterSelector[0]: bad", nil))
	var unable, invalid *asked
	w.RegisterDelayedCallback(func() {
		unable = w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: ranv1.ClusterGroupUpgradeSpec{PreCaching: true, Backup: true, Approvals: &ranv1.Approvals{SeparateDuties: true}}})
		invalid = w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: other})
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: before})
	requireCancelled[groupStatus](w)
	require.Error(t, unable.refused)
	require.ErrorContains(t, invalid.err, "spec.clusterSelector[0]: bad")
	require.Len(t, w.inputs["PlanRollout"], 1, "it was not planned anew")
}

func TestOnceEnabledOnlyTheTimesCanBeEdited(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = never
	start := w.Now()
	longer := aRollout().Spec
	longer.RemediationStrategy.Timeout, longer.BatchTimeoutAction = 100, ranv1.BatchTimeoutAbort
	other := aRollout().Spec
	other.Clusters = []string{"c9"}
	short := aRollout().Spec
	short.RemediationStrategy.Timeout = 5
	var refusedOther, refusedShort, granted *asked
	w.RegisterDelayedCallback(func() {
		refusedOther = w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: other})
		refusedShort = w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: short})
		granted = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer})
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.WithinDuration(t, start.Add(50*time.Minute), statusOf[groupStatus](w).Status.CurrentBatchDeadline.Time, 2*time.Second)
	}, 11*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.ErrorContains(t, refusedOther.err, "spec.clusters: cannot be changed once the rollout is enabled")
	require.ErrorContains(t, refusedShort.err, "10m0s have been used already")
	require.NoError(t, granted.err)
	require.NotContains(t, clusters.events, "+c2", "it aborts now")
	require.WithinDuration(t, start.Add(51*time.Minute), w.Now(), 5*time.Second)
}

// blockedRollout is blocked by base.
func blockedRollout() ranv1.ClusterGroupUpgrade {
	object := aRollout()
	object.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "base"}}
	return object
}

func TestABlockedRolloutSaysByWhatAndIsChargedNothing(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	w.blocked["AwaitBlockers"] = true
	var blocked, resumed groupStatus
	blocking := rollout.Blocking{Missing: []types.NamespacedName{{Namespace: "ops", Name: "base"}}}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitBlockers", Wait: blocking.Wait()})
	}, time.Minute)
	w.RegisterDelayedCallback(func() { blocked = statusOf[groupStatus](w) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 3*time.Hour)
	w.RegisterDelayedCallback(func() {
		resumed = statusOf[groupStatus](w)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: blockedRollout()})

	status := requireCancelled[groupStatus](w)
	require.Empty(t, clusters.events)
	requireCondition(t, blocked, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonMissingBlockingCR)
	require.Equal(t, "Missing blocking CRs: [base]; waiting for ops/base", progressMessage(blocked))
	require.Equal(t, []drydockv1.Blocker{{Kind: "ClusterGroupUpgrade", Namespace: "ops", Name: "base", Reason: "Missing"}}, blocked.Wait.Blockers)
	require.Equal(t, ranv1.ReasonMissingBlockingCR, resumed.Wait.Reason, "said again after the pause")
	require.Nil(t, blocked.Status.StartedAt)
	requireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCancelled)
}

func TestARolloutStartsWhenNothingBlocksItAnyMore(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: blockedRollout()})
	requireResult[groupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.events)
	asked := w.inputs["AwaitBlockers"][0].(ranv1.ClusterGroupUpgrade)
	require.Equal(t, "june", asked.Name, "of whom it must know whether they wait for it")
	require.Equal(t, blockedRollout().Spec.BlockingCRs, asked.Spec.BlockingCRs)
}

func TestACycleThatComesToLightLaterEndsTheRolloutAndIsKept(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	w.fail["AwaitBlockers"] = always(temporal.Error(temporal.ErrInvalidSpec, "these rollouts wait for each other", nil))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: blockedRollout()})
	requireFailure[groupStatus](w, temporal.ErrInvalidSpec)
	kept := w.inputs["SaveRollout"]
	require.Len(t, kept, 2)
	requireCondition(t, kept[1].(activities.SaveRolloutInput).Object.Status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonFailed)
}

func TestARetryTakesThePlanThatWasKeptForWhatFailedOnly(t *testing.T) {
	over := groupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2", "c3"}, {"c4"}, {"c5"}},
		Conditions:      append(planOf().Conditions, metav1.Condition{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonTimedOut}),
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
	w, clusters := newGroupWorld(t)
	w.recalledRollout = activities.LoadedRollout{Object: withActions(aRollout("c1"))}
	w.recalledRollout.Object.Status = next
	clusters.ends["c2"] = never
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: aRollout().ObjectMeta}
	start := w.Now()
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})

	status := requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, []string{"+c2", "-c2", "+c5", "-c5"}, clusters.events)
	require.Equal(t, over.RemediationPlan, status.RemediationPlan)
	require.Equal(t, map[string][]string{"begun": {"c2", "c5"}, "done": {"c5"}}, w.changed(), "those that are complete are not touched")
	require.Equal(t, ranv1.ClusterCounts{Total: 5, Complete: 4, TimedOut: 1}, status.Counts)
	require.NotContains(t, w.called(), "PlanRollout", "the plan is pinned")
	require.WithinDuration(t, start.Add(32*time.Minute), w.Now(), 5*time.Second, "half of the time is c2's: batches that are done have no share")
	kept := w.inputs["SaveRollout"]
	require.Len(t, kept, 1, "what can be retried is not written over before the end")
	require.Equal(t, withActions(aRollout("c1")).Spec, kept[0].(activities.SaveRolloutInput).Object.Spec)
}

func TestARetryOfNothingEndsAndSaysWhy(t *testing.T) {
	w, _ := newGroupWorld(t)
	w.fail["LoadRollout"] = always(temporal.Error(temporal.ErrNotFound, "rollout ops/june is not saved on the hub", nil))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout(), Retry: &rollout.RetryRequest{}})
	requireFailure[groupStatus](w, temporal.ErrNotFound)
	require.Empty(t, w.inputs["SaveRollout"])
}

// What the hub keeps of the run before is what others wait for, and what can be retried.
func TestARunThatEndsWithoutAPlanLeavesWhatTheHubKeepsOfTheOneBefore(t *testing.T) {
	retry := ClusterGroupUpgradeInput{Object: aRollout(), StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}}
	start := ClusterGroupUpgradeInput{Object: aRollout(), StartedBy: "ann"}
	cancelled := func(w *world) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	}
	for _, tt := range []struct {
		name string
		in   ClusterGroupUpgradeInput
		play func(*world)
		// kept: its end is kept on the hub.
		kept bool
	}{
		{"a retry that is cancelled while the hub does not answer", retry, func(w *world) {
			w.fail["LoadRollout"] = always(errors.New("the hub is away"))
			cancelled(w)
		}, false},
		{"a retry whose starter is not known, where duties are separate", ClusterGroupUpgradeInput{Object: aRollout(), Retry: &rollout.RetryRequest{}}, func(w *world) {
			w.recalledRollout = activities.LoadedRollout{Object: approvedRollout()}
		}, false},
		{"a cluster that does not exist", start, func(w *world) { w.plan = planWithoutClusters("cluster c9 not found") }, false},
		{"a start that is cancelled while the hub does not answer", start, func(w *world) {
			w.fail["PlanRollout"] = always(errors.New("the hub is away"))
			cancelled(w)
		}, false},
		{"a plan that was made known is kept with its end", ClusterGroupUpgradeInput{Object: plannedOnly()}, func(w *world) {
			w.plan.Precaching = &ranv1.PrecachingSpec{}
			cancelled(w)
		}, true},
		{"also if nobody knows whether it was", ClusterGroupUpgradeInput{Object: plannedOnly()}, func(w *world) {
			w.plan.Precaching = &ranv1.PrecachingSpec{}
			back := w.Now().Add(time.Hour / 2)
			w.fail["SaveRollout"] = func(int) error {
				if w.Now().Before(back) {
					return errors.New("the answer was lost")
				}
				return nil
			}
			cancelled(w)
		}, true},
		{"a retry that has its plan is kept with its end", retry, func(w *world) {
			w.recalledRollout = activities.LoadedRollout{Object: prepared(aRollout())}
			w.recalledRollout.Object.Status = groupStatus{
				RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterPending, Batch: 1}},
				Precaching: &ranv1.PrecachingStatus{},
			}
			w.blocked["RunClusterJob"] = true
			cancelled(w)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"})
			tt.play(w)
			w.ExecuteWorkflow(ClusterGroupUpgrade, tt.in)
			require.Error(t, w.GetWorkflowError())
			require.Empty(t, clusters.story())
			require.Equal(t, tt.kept, slices.ContainsFunc(w.inputsOf("SaveRollout"), func(in any) bool {
				return in.(activities.SaveRolloutInput).Object.Status.Status.CompletedAt != nil
			}))
		})
	}
}

// slowRemediator takes its time to settle.
type slowRemediator struct{ Remediator }

func (slowRemediator) Settle(ctx workflow.Context) { _ = workflow.Sleep(ctx, time.Minute) }

func TestAnEditThatArrivesWhileARunSettlesIsAnsweredByThatRun(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.registerAs("slow", func(ctx workflow.Context, in ClusterGroupUpgradeInput) (groupStatus, error) {
		g, err := newGroupUpgrade(ctx, in)
		if err != nil {
			return groupStatus{}, err
		}
		g.remediator = slowRemediator{g.remediator}
		return g.run(ctx)
	})
	w.OnActivity("CheckRollout", mock.Anything, mock.Anything).After(5 * time.Second).Return(
		func(_ context.Context, object ranv1.ClusterGroupUpgrade) (any, error) { return object, nil })
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
	longer := aRollout().Spec
	longer.RemediationStrategy.Timeout = 90
	var edited *asked
	w.RegisterDelayedCallback(func() { edited = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer}) }, time.Minute+58*time.Second)
	w.ExecuteWorkflow("slow", ClusterGroupUpgradeInput{Object: aRollout()})
	next := handedOn[ClusterGroupUpgradeInput](w)
	require.NotNil(t, next, "%v", w.GetWorkflowError())
	require.NoError(t, edited.err)
	require.Equal(t, EditAnswer{Changed: []string{"spec.remediationStrategy.timeout"}}, edited.result)
	require.EqualValues(t, 90, next.Object.Spec.RemediationStrategy.Timeout)
}

func TestARetryOfWhatIsBehindTheCanariesIsApprovedOnce(t *testing.T) {
	w, clusters := newGroupWorld(t)
	w.recalledRollout = activities.LoadedRollout{Object: approvedRollout()}
	w.recalledRollout.Object.Status = groupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2"}, {"c3"}, {"c4"}},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", Batch: 1, State: ranv1.ClusterComplete},
			{Name: "c2", Batch: 2, State: ranv1.ClusterComplete},
			{Name: "c3", Batch: 3, State: ranv1.ClusterPending},
			{Name: "c4", Batch: 4, State: ranv1.ClusterPending},
		},
	}
	askWhen(w, awaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: aRollout().ObjectMeta}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})
	approvals := requireResult[groupStatus](w).Approvals
	require.Len(t, approvals, 1)
	require.Equal(t, []any{ranv1.AfterCanaries, int32(3)}, []any{approvals[0].Point, approvals[0].Batch})
	require.Equal(t, []string{"+c3", "-c3", "+c4", "-c4"}, clusters.story())
}
