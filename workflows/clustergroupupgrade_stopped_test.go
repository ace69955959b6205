package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// pausesAndHolds are the stops that come without a window.
func pausesAndHolds() []stop {
	return []stop{everyStop()[0], everyStop()[1]}
}

// The clock stands still: the time that was edited counts from when it goes on.
func TestTheTimesOfARolloutCanBeEditedWhileItIsStopped(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.ends["c1"] = never
			start := w.Now()
			longer, short := aRollout().Spec, aRollout().Spec
			longer.RemediationStrategy.Timeout, short.RemediationStrategy.Timeout = 100, 5
			var tooShort, granted *asked
			w.RegisterDelayedCallback(func() { stop.begin(w) }, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				tooShort = w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: short})
				granted = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer})
			}, time.Hour)
			w.RegisterDelayedCallback(func() { require.Nil(t, statusOf[groupStatus](w).Status.CurrentBatchDeadline) }, 90*time.Minute)
			w.RegisterDelayedCallback(func() { stop.end(w) }, 2*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.WithinDuration(t, start.Add(160*time.Minute), statusOf[groupStatus](w).Status.CurrentBatchDeadline.Time, 2*time.Second, "10 of its 50 minutes are used")
			}, 121*time.Minute)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
			status := requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
			require.ErrorContains(t, tooShort.err, "10m0s have been used already")
			require.NoError(t, granted.err)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterTimedOut, "c2": ranv1.ClusterComplete}, clusterStates(status))
		})
	}
}

func TestWhatIsApprovedWhileARolloutIsStoppedStartsWhenItGoesOn(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
			var granted *asked
			w.RegisterDelayedCallback(func() { stop.begin(w) }, 10*time.Minute)
			w.RegisterDelayedCallback(func() { granted = w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, time.Hour)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, clusters.events, "+c2")
				require.Equal(t, stop.reason, statusOf[groupStatus](w).Wait.Reason)
				stop.end(w)
			}, 20*time.Hour)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: approvedRollout(), StartedBy: "ann"})
			require.Len(t, requireResult[groupStatus](w).Approvals, 1)
			require.NoError(t, granted.err)
			require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.events)
		})
	}
}

func TestAnApprovalThatGrewOldWhileARolloutWasStoppedIsAskedForAgain(t *testing.T) {
	for _, stop := range everyStop()[:3] {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
			object := approvedRollout()
			object.Spec.Approvals.Expiry = 60
			w.RegisterDelayedCallback(func() {
				stop.begin(w)
				w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
			}, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				requireStopped(w, &children{}, stop.reason)
				w.SignalWorkflow(temporal.SignalHeld, heldState(4))
				w.SignalWorkflow(temporal.SignalResume, nil)
			}, 20*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.NotContains(t, clusters.events, "+c2")
				require.True(t, awaitsApproval(statusOf[groupStatus](w)))
				w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
			}, 20*time.Hour+30*time.Minute)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann"})
			require.Len(t, requireResult[groupStatus](w).Approvals, 2)
		})
	}
}

func TestARetryThatIsStoppedAtOnceBeginsNothingUntilItGoesOn(t *testing.T) {
	for _, stop := range pausesAndHolds() {
		t.Run(stop.name, func(t *testing.T) {
			over := groupStatus{
				RemediationPlan: [][]string{{"c1"}, {"c2"}},
				Conditions:      append(planOf().Conditions, metav1.Condition{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonTimedOut}),
				Clusters:        []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterComplete}, {Name: "c2", Batch: 2, State: ranv1.ClusterTimedOut}},
			}
			next, err := rollout.Retry(over, nil, rollout.RetryRequest{})
			require.NoError(t, err)
			w, clusters := newGroupWorld(t)
			w.recalledRollout = activities.LoadedRollout{Object: aRollout()}
			w.recalledRollout.Object.Status = rollout.Compact(next)
			w.fail["LoadRollout"] = func(int) error { stop.begin(w); return nil }
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.events)
				require.Equal(t, stop.reason, statusOf[groupStatus](w).Wait.Reason)
				stop.end(w)
			}, 20*time.Hour)
			object := ranv1.ClusterGroupUpgrade{ObjectMeta: aRollout().ObjectMeta}
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object, StartedBy: "ann", Retry: &rollout.RetryRequest{Actor: "ann"}})
			require.EqualValues(t, 2, requireResult[groupStatus](w).Counts.Complete)
			require.Equal(t, []string{"+c2", "-c2"}, clusters.events)
		})
	}
}
