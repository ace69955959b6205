package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestContinueAsNewDoesNotChangeTheResult(t *testing.T) {
	for _, r := range workflowtest.AllRemediations() {
		t.Run(r.Name, func(t *testing.T) {
			whole, runs := r.Run(t, false)
			require.Equal(t, 1, runs)
			pieces, runs := r.Run(t, true)
			require.Equal(t, 3, runs, "one run for each batch")
			require.Equal(t, whole, pieces)
		})
	}
}

// The second run is held until it is cancelled.
func TestARunThatStartsNoClusterCleansUpAfterEarlierRuns(t *testing.T) {
	for _, r := range workflowtest.AllRemediations() {
		t.Run(r.Name, func(t *testing.T) {
			first := r.World(t, nil, []string{"c1"}, []string{"c2"})
			first.RegisterDelayedCallback(func() {
				first.SetContinueAsNewSuggested(true)
				first.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldCluster("c2")}}})
			}, time.Second)
			first.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: r.Object()})
			in := workflowtest.NextRunInput[rolloutworkflow.Input](first.World)
			require.NotNil(t, in)

			second := r.World(t, first)
			second.RegisterDelayedCallback(func() { second.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
			second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterPending}, workflowtest.ClusterStates(workflowtest.RequireCancelled[workflowtest.GroupStatus](second.World)))
			for _, activity := range []string{"CleanUpPolicies", "CleanUpManifestWorks"} {
				require.Equal(t, slices.Contains(r.SameCalls, activity), len(second.InputsOf(activity)) == 1, activity)
			}
		})
	}
}

// A failed preparation may have created some objects.
func TestARunCleansUpAFailedPreparationOfAnEarlierRun(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c2"})
	started := metav1.NewTime(w.Now())
	carried := &rolloutworkflow.PreviousRun{Phase: rolloutworkflow.PhaseRecheck, NextBatch: 1, Held: w.Holds, Status: workflowtest.GroupStatus{
		RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterFailed, Batch: 1}},
		PolicyEnforcement: w.Plan.PolicyEnforcement,
		Status:            ranv1.RunStatus{StartedAt: &started, CurrentBatch: 1, CurrentBatchStartedAt: &started},
	}}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PolicyRollout(), PreviousRun: carried})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	require.Len(t, w.InputsOf("CleanUpPolicies"), 1)
}

func TestAnEditOfTheTimeoutAppliesToABatchOfAnEarlierRun(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t)
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	start := w.Now()
	now := &metav1.Time{Time: start}
	carried := &rolloutworkflow.PreviousRun{Phase: rolloutworkflow.PhaseBatches, Used: time.Minute, StartedBatch: &rolloutworkflow.StartedBatch{Timeout: 10 * time.Minute}, Held: w.Holds, Status: workflowtest.GroupStatus{
		Paused: true, RemediationPlan: [][]string{{"c1", "c2"}}, Status: ranv1.RunStatus{StartedAt: now, CurrentBatch: 1, CurrentBatchStartedAt: now},
		Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 1}},
	}}
	w.RegisterDelayedCallback(func() {
		longer := workflowtest.ARollout().Spec
		longer.RemediationStrategy.Timeout = 90
		w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Spec: longer})
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout(), PreviousRun: carried})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.NotNil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded))
	require.WithinDuration(t, start.Add(2*time.Hour+90*time.Minute), w.Now(), 5*time.Second, "the last batch has the rest of the new timeout: 89 minutes, and one for its cleanup")
}
