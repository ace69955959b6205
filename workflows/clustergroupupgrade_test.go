package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

type groupStatus = ranv1.ClusterGroupUpgradeStatus

// aRollout rolls node maintenance over the batches, with a timeout of 60 minutes.
func aRollout(canaries ...string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "june"},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:            []string{"c1"},
			NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{},
			RemediationStrategy: ranv1.RemediationStrategy{Canaries: canaries, MaxConcurrency: intstr.FromInt32(2), Timeout: 60},
			BatchTimeoutAction:  ranv1.BatchTimeoutContinue,
		},
	}
}

func planOf(batches ...[]string) activities.RolloutPlan {
	return activities.RolloutPlan{Plan: rollout.Plan{
		ComputedMaxConcurrency: 2, RemediationPlan: batches,
		Conditions: []metav1.Condition{
			{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionTrue, Reason: ranv1.ReasonClusterSelectionCompleted},
			{Type: ranv1.ConditionValidated, Status: metav1.ConditionTrue, Reason: ranv1.ReasonValidationCompleted},
		},
	}}
}

func planWithoutClusters(problem string) activities.RolloutPlan {
	return activities.RolloutPlan{Plan: rollout.Plan{Conditions: []metav1.Condition{
		{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionFalse, Reason: ranv1.ReasonClusterNotFound, Message: problem},
	}}}
}

// newGroupWorld registers a ClusterUpgrade that only takes its time.
func newGroupWorld(t *testing.T, batches ...[]string) (*world, *children) {
	w := newWorld(t)
	w.plan = planOf(batches...)
	c := newChildren()
	w.registerAs(temporal.ClusterUpgrade, func(ctx workflow.Context, in ClusterUpgradeInput) (ranv1.ClusterStatus, error) {
		err := c.run(ctx, in.Cluster)
		result := ranv1.ClusterStatus{Name: in.Cluster, Batch: in.Batch, State: ranv1.ClusterComplete}
		if sdktemporal.IsCanceledError(err) {
			result.State = ranv1.ClusterCancelled
			return result, sdktemporal.NewCanceledError(result)
		}
		return result, err
	})
	return w, c
}

// never ends a cluster only when it is cancelled, and takes a while to return its nodes.
func never(ctx workflow.Context) error {
	err := workflow.Sleep(ctx, 1000*time.Hour)
	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Sleep(cleanUp, time.Minute)
	return err
}

func clusterFails(workflow.Context) error {
	result := ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: temporal.ErrJobFailed, Message: "node w0: exit code 3"}
	return sdktemporal.NewApplicationErrorWithOptions(result.Message, result.Reason, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
}

func clusterStates(s groupStatus) map[string]ranv1.ClusterState {
	states := map[string]ranv1.ClusterState{}
	for _, c := range s.Clusters {
		states[c.Name] = c.State
	}
	return states
}

func requireCondition(t *testing.T, s groupStatus, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	condition := meta.FindStatusCondition(s.Conditions, conditionType)
	require.NotNil(t, condition, conditionType)
	require.Equal(t, status, condition.Status, condition.Message)
	require.Equal(t, reason, condition.Reason, condition.Message)
}

func TestCanaryGoesFirstThenBatchAfterBatch(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c3"}, []string{"c1", "c2"}, []string{"c4"})
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout("c3")})

	status := requireResult[groupStatus](w)
	require.Equal(t, []string{"+c3", "-c3", "+c1", "+c2", "-c1", "-c2", "+c4", "-c4"}, clusters.story())
	requireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCompleted)
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, ranv1.ClusterCounts{Total: 4, Complete: 4}, status.Counts)
	require.Equal(t, int32(100), status.Percentage)
	require.Nil(t, status.Wait)
}

func TestTheFinalStatusIsKeptOnTheHub(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireResult[groupStatus](w)
	require.Len(t, w.inputs["SaveRollout"], 2)
	begun := w.inputs["SaveRollout"][0].(activities.SaveRolloutInput)
	require.Nil(t, meta.FindStatusCondition(begun.Object.Status.Conditions, ranv1.ConditionSucceeded), "others are to know that it has not succeeded yet")
	kept := w.inputs["SaveRollout"][1].(activities.SaveRolloutInput)
	require.Equal(t, status, kept.Object.Status)
	require.Equal(t, aRollout().Spec, kept.Object.Spec)
	require.NotEmpty(t, kept.Owner)
}

func TestARolloutWhoseStatusCannotBeKeptEndsAsItWouldAndSaysSo(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	w.fail["SaveRollout"] = func(int) error { return errors.New("the hub is down") }
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireResult[groupStatus](w)
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, []string{"the final status is not saved on the hub: the hub is down"}, status.Notes)
}

func TestARolloutWithoutClustersSucceeds(t *testing.T) {
	w, _ := newGroupWorld(t)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	requireCondition(t, requireResult[groupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
}

func TestARolloutThatIsNotEnabledIsPlannedAndWaits(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	object := aRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		requireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled)
		require.Equal(t, [][]string{{"c1"}}, status.RemediationPlan)
		require.Equal(t, ranv1.ReasonNotEnabled, status.Wait.Reason)
		require.Nil(t, status.Status.StartedAt)
		require.Empty(t, clusters.events)
		w.plan = planOf([]string{"c1", "c2"})
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 100*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})

	status := requireResult[groupStatus](w)
	require.Equal(t, [][]string{{"c1", "c2"}}, status.RemediationPlan, "the plan is made anew when it is enabled")
	require.Len(t, clusters.events, 4)
}

func TestEnablingAPlanThatCannotBeCarriedOutLeavesItNotEnabled(t *testing.T) {
	w, clusters := newGroupWorld(t)
	w.plan = planWithoutClusters("cluster c9 not found")
	object := aRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, nil) }, time.Hour)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		requireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled)
		require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionProgressing).Message, "cluster c9 not found")
		w.plan = planOf([]string{"c9"})
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})

	requireCondition(t, requireResult[groupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, []string{"+c9", "-c9"}, clusters.story())
}

func TestAPlanThatCannotBeCarriedOutEndsAnEnabledRollout(t *testing.T) {
	w, clusters := newGroupWorld(t)
	w.plan = planWithoutClusters("cluster c9 not found")
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireFailure[groupStatus](w, ranv1.ReasonFailed)
	requireCondition(t, status, ranv1.ConditionClustersSelected, metav1.ConditionFalse, ranv1.ReasonClusterNotFound)
	require.Equal(t, "cluster c9 not found", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
	require.Empty(t, clusters.events)
}

func TestContinueWithdrawsWhatTimedOutBeforeTheNextBatch(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3", "c4"})
	clusters.ends["c2"] = never
	start := w.Now()
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2", "+c3", "+c4", "-c3", "-c4"}, clusters.story())
	require.Equal(t, map[string]ranv1.ClusterState{
		"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterTimedOut, "c3": ranv1.ClusterComplete, "c4": ranv1.ClusterComplete,
	}, clusterStates(status))
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(32*time.Minute), w.Now(), 5*time.Second,
		"the batch has half of the hour, the withdrawal takes a minute, the next batch another; then it ends")
}

func TestAbortEndsWithTheBatchThatTimedOut(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.ends["c2"] = never
	object := aRollout()
	object.Spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})

	status := requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, ranv1.ClusterPending, clusterStates(status)["c3"])
	require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.story())
}

func TestACanaryThatTimesOutEndsTheRolloutEvenWithContinue(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = never
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout("c1")})

	require.Equal(t, ranv1.ClusterTimedOut, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonTimedOut))["c1"])
	require.NotContains(t, clusters.events, "+c2")
}

func TestAClusterThatHasVanishedIsFailedAndNotWorkedOn(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.vanished = []string{"c2"}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireFailure[groupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"+c1", "-c1", "+c3", "-c3"}, clusters.story())
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterFailed, "c3": ranv1.ClusterComplete}, clusterStates(status))
	require.Equal(t, "ClusterVanished", status.Clusters[0].Reason, "what failed comes first")
}

func TestAClusterThatVanishesWhileItIsWorkedOnIsNotComplete(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = func(workflow.Context) error {
		w.lose("c1")
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterFailed, "c2": ranv1.ClusterComplete}, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonFailed)))
}

func TestACanaryThatFailsEndsTheRollout(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = clusterFails
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout("c1")})

	require.Equal(t, ranv1.ClusterFailed, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonFailed))["c1"])
	require.NotContains(t, clusters.events, "+c2")
}

func TestAFailedClusterDoesNotKeepTheOthersFromTheirTurn(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.ends["c1"] = clusterFails
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireFailure[groupStatus](w, ranv1.ReasonFailed)
	require.Contains(t, clusters.events, "-c3")
	require.Equal(t, "node w0: exit code 3", status.Clusters[0].Message)
	requireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCompleted)
}

func TestEachBatchGetsAnEqualShareOfTheTimeThatIsLeft(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	clusters.ends["c1"], clusters.ends["c2"], clusters.ends["c3"] = never, never, never
	start := w.Now()
	var deadlines []time.Duration
	for i := range 3 {
		batch := int32(i + 1)
		w.when(func() bool { return statusOf[groupStatus](w).Status.CurrentBatch == batch }, func() {
			deadlines = append(deadlines, statusOf[groupStatus](w).Status.CurrentBatchDeadline.Sub(start).Round(10*time.Second))
		})
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	// 60 minutes for 3; one minute of withdrawal is charged; 39 minutes for 2; again a minute; the last gets all that is left.
	require.Equal(t, []time.Duration{20 * time.Minute, 40*time.Minute + 30*time.Second, 60 * time.Minute}, deadlines)
}

func TestPausedTimeIsNotChargedAndNothingNewStarts(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.takes = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "ann", Reason: "lunch"}) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		require.Equal(t, "Paused", status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "by ann: lunch")
		require.Nil(t, status.Status.CurrentBatchDeadline)
		require.Equal(t, []string{"+c1", "-c1"}, clusters.story(), "what was at work has finished")
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, 50*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
}

func TestThePausedDeadlineOfABatchGoesOnWithWhatWasLeft(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	clusters.ends["c1"] = never
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 20*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 10*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(10*time.Hour+40*time.Minute+time.Minute), w.Now(), 5*time.Second)
}

func TestPauseDuringAWithdrawalIsNotCharged(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = never
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 30*time.Minute+30*time.Second)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 10*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, ranv1.ClusterComplete, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonTimedOut))["c2"])
}

func TestPauseAndResumeReachTheClustersAtWorkInOrder(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	var heard []string
	clusters.ends["c1"] = func(ctx workflow.Context) error {
		for _, signal := range []string{temporal.SignalPause, temporal.SignalResume} {
			workflow.GetSignalChannel(ctx, signal).Receive(ctx, nil)
			heard = append(heard, signal)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	requireResult[groupStatus](w)
	require.Equal(t, []string{temporal.SignalPause, temporal.SignalResume}, heard)
}

func TestResumeBeforeEnableSaysAgainWhatIsWaitedFor(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	object := aRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.ReasonNotEnabled, statusOf[groupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 3*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireResult[groupStatus](w)
}

func TestACancelledRolloutSaysSoWhileNodesAreReturnedAndDoesNotTimeOut(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	clusters.ends["c1"] = func(ctx workflow.Context) error {
		err := workflow.Sleep(ctx, 1000*time.Hour)
		cleanUp, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Sleep(cleanUp, 5*time.Hour)
		return err
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, "not today") }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, "really") }, time.Hour)
	w.RegisterDelayedCallback(func() {
		wait := statusOf[groupStatus](w).Wait
		require.Equal(t, "Cancelling", wait.Reason)
		require.Equal(t, "batch 1 of 1: clusters that return their nodes: 1", wait.Message)
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireCancelled[groupStatus](w)
	require.Equal(t, ranv1.ClusterCancelled, clusterStates(status)["c1"])
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "not today")
}

func TestALargeBatchContinuesAsNewInItsMidst(t *testing.T) {
	var batch []string
	for i := range clustersAtOnce + 10 {
		batch = append(batch, fmt.Sprintf("c%03d", i))
	}
	w, clusters := newGroupWorld(t, batch)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 30*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, clustersAtOnce, clusters.most)
	require.Len(t, clusters.events, 2*clustersAtOnce)

	carried := &ClusterGroupUpgradeCarried{Phase: phaseBatches, Used: time.Minute, Begun: &BatchBudget{Budget: 10 * time.Minute}, Status: groupStatus{
		RemediationPlan: [][]string{{"c1", "c2"}}, Status: ranv1.RunStatus{StartedAt: &metav1.Time{Time: w.Now()}, CurrentBatch: 1, CurrentBatchStartedAt: &metav1.Time{Time: w.Now()}},
		Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 1}},
	}}
	second, again := newGroupWorld(t)
	again.ends["c2"] = never
	start := second.Now()
	second.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout(), Carried: carried})
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterTimedOut}, clusterStates(requireFailure[groupStatus](second, ranv1.ReasonTimedOut)))
	require.WithinDuration(t, start.Add(10*time.Minute), second.Now(), 5*time.Second, "9 minutes of the batch's ten are left, and one for the withdrawal")
}

func TestCancelWithdrawsTheClustersAtWorkAndStartsNoOther(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run(by, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.ends["c1"] = never
			w.RegisterDelayedCallback(func() {
				if by == "signal" {
					w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
				} else {
					w.CancelWorkflow()
				}
			}, time.Minute)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

			status := requireCancelled[groupStatus](w)
			require.Equal(t, []string{"+c1", "-c1"}, clusters.story())
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterCancelled, "c2": ranv1.ClusterPending}, clusterStates(status))
			requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonCancelled)
			if by == "signal" {
				require.Equal(t, "Cancelled by ann; cancelled: c1; not started: c2", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
			}
		})
	}
}

func TestCancelBeforeEnableAndWhilePausedEndsAtOnce(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	object := aRollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireCancelled[groupStatus](w)

	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Second)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	requireCancelled[groupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.story())
}

func TestWhatATimedOutClusterWaitedForIsKept(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	clusters.ends["c1"] = never
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalClusterProgress, ranv1.ClusterStatus{Name: "c1", Step: "w2: Draining", Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3"})
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		wait := statusOf[groupStatus](w).Wait
		require.Equal(t, []drydockv1.Blocker{{Kind: "ManagedCluster", Name: "c1", Reason: "DisruptionBudget", Message: "w2: Draining: budget shop/web allows 0 of 3"}}, wait.Blockers)
	}, 2*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	c1 := requireFailure[groupStatus](w, ranv1.ReasonTimedOut).Clusters[0]
	require.Equal(t, "BatchTimedOut", c1.Reason)
	require.Contains(t, c1.Message, "w2: Draining: DisruptionBudget: budget shop/web allows 0 of 3")
}

func TestALongRolloutContinuesAsNewBetweenBatchesAndForgetsNothing(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.story())

	carried := &ClusterGroupUpgradeCarried{Phase: phaseBatches, NextBatch: 1, Used: 50 * time.Minute, Status: groupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2"}},
		Clusters:        []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 2}},
	}}
	second, again := newGroupWorld(t)
	again.ends["c2"] = never
	start := second.Now()
	second.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout(), Carried: carried})
	require.Equal(t, []string{"+c2", "-c2"}, again.story())
	require.Equal(t, ranv1.ClusterTimedOut, clusterStates(requireFailure[groupStatus](second, ranv1.ReasonTimedOut))["c2"])
	require.WithinDuration(t, start.Add(11*time.Minute), second.Now(), 5*time.Second, "only what is left of the timeout")
	require.NotContains(t, second.called(), "PlanRollout", "the plan is frozen")
}

func TestWhateverEachClusterDoesTheRolloutAccountsForAllOfThem(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w, clusters := newGroupWorld(t)
		ways := []func(workflow.Context) error{nil, never, clusterFails}
		wants := []ranv1.ClusterState{ranv1.ClusterComplete, ranv1.ClusterTimedOut, ranv1.ClusterFailed}
		var batches [][]string
		want := map[string]ranv1.ClusterState{}
		for b := range rapid.IntRange(1, 4).Draw(r, "batches") {
			var batch []string
			for c := range rapid.IntRange(1, 3).Draw(r, "size") {
				name := fmt.Sprintf("c%d-%d", b, c)
				way := rapid.IntRange(0, 2).Draw(r, name)
				clusters.ends[name], want[name] = ways[way], wants[way]
				batch = append(batch, name)
			}
			batches = append(batches, batch)
		}
		w.plan = planOf(batches...)
		w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

		var status groupStatus
		if w.GetWorkflowError() == nil {
			require.NoError(r, w.GetWorkflowResult(&status))
		} else {
			require.True(r, detailsOf(w.GetWorkflowError(), &status))
		}
		require.Equal(r, want, clusterStates(status))
		require.LessOrEqual(r, clusters.most, 3)
		require.Zero(r, clusters.atWork)
	})
}
