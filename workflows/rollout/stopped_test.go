package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// pausesAndHolds are stops without a window.
func pausesAndHolds() []stop {
	return []stop{everyStop()[0], everyStop()[1]}
}

// The clock is paused. The edited timeout applies when it resumes.
func TestTimeoutsCanBeEditedDuringAPauseOrHold(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.Outcomes["c1"] = workflowtest.UntilCancelled
			start := w.Now()
			longer, short := workflowtest.ARollout().Spec, workflowtest.ARollout().Spec
			longer.RemediationStrategy.Timeout, short.RemediationStrategy.Timeout = 100, 5
			var tooShort, accepted *workflowtest.UpdateResult
			w.RegisterDelayedCallback(func() { stop.begin(w) }, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				tooShort = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: short})
				accepted = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer})
			}, time.Hour)
			w.RegisterDelayedCallback(func() { require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline) }, 90*time.Minute)
			w.RegisterDelayedCallback(func() { stop.end(w) }, 2*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.WithinDuration(t, start.Add(160*time.Minute), workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline.Time, 2*time.Second, "10 of its 50 minutes are used")
			}, 121*time.Minute)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
			status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
			require.ErrorContains(t, tooShort.Err, "10m0s have been used already")
			require.NoError(t, accepted.Err)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterTimedOut, "c2": ranv1.ClusterComplete}, workflowtest.ClusterStates(status))
		})
	}
}

func TestABatchApprovedDuringAPauseOrHoldStartsAfterIt(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			var accepted *workflowtest.UpdateResult
			w.RegisterDelayedCallback(func() { stop.begin(w) }, 10*time.Minute)
			w.RegisterDelayedCallback(func() { accepted = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, time.Hour)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, clusters.Events, "+c2")
				require.Equal(t, stop.reason, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
				stop.end(w)
			}, 20*time.Hour)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: approvedRollout(), StartedBy: "ann"})
			require.Len(t, workflowtest.RequireResult[workflowtest.GroupStatus](w).Approvals, 1)
			require.NoError(t, accepted.Err)
			require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.Events)
		})
	}
}

func TestAnApprovalThatExpiresDuringAPauseOrHoldIsRequiredAgain(t *testing.T) {
	for _, stop := range everyStop()[:3] {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			object := approvedRollout()
			object.Spec.Approvals.Expiry = 60
			w.RegisterDelayedCallback(func() {
				stop.begin(w)
				w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
			}, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				requireStopped(w, &workflowtest.Children{}, stop.reason)
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(4))
				w.SignalWorkflow(temporal.SignalResume, nil)
			}, 20*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, clusters.Events, "+c2")
				require.True(t, workflowtest.AwaitsApproval(workflowtest.StatusOf[workflowtest.GroupStatus](w)))
				w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
			}, 20*time.Hour+30*time.Minute)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann"})
			require.Len(t, workflowtest.RequireResult[workflowtest.GroupStatus](w).Approvals, 2)
		})
	}
}

func TestAPausedOrHeldRetryStartsNoCluster(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			ended := workflowtest.GroupStatus{
				RemediationPlan: [][]string{{"c1"}, {"c2"}},
				Conditions:      append(workflowtest.PlanOf().Conditions, metav1.Condition{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonTimedOut}),
				Clusters:        []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterComplete}, {Name: "c2", Batch: 2, State: ranv1.ClusterTimedOut}},
			}
			next, err := rollout.Retry(ended, nil, rollout.RetryRequest{})
			require.NoError(t, err)
			w, clusters := workflowtest.NewGroupWorld(t)
			w.LoadedRollout = rollouts.LoadedRollout{Object: workflowtest.ARollout()}
			w.LoadedRollout.Object.Status = rollout.Compact(next)
			w.Fail["LoadRollout"] = func(int) error { stop.begin(w); return nil }
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.Events)
				require.Equal(t, stop.reason, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
				stop.end(w)
			}, 20*time.Hour)
			object := ranv1.ClusterGroupUpgrade{ObjectMeta: workflowtest.ARollout().ObjectMeta}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})
			require.EqualValues(t, 2, workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
			require.Equal(t, []string{"+c2", "-c2"}, clusters.Events)
		})
	}
}
