package rollout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func planWithoutClusters(problem string) rollouts.Plan {
	return rollouts.Plan{Plan: rollout.Plan{Conditions: []metav1.Condition{
		{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionFalse, Reason: ranv1.ReasonClusterNotFound, Message: problem},
	}}}
}

func TestCanaryGoesFirstThenBatchAfterBatch(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c3"}, []string{"c1", "c2"}, []string{"c4"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout("c3")})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c3", "-c3", "+c1", "+c2", "-c1", "-c2", "+c4", "-c4"}, clusters.EventsInOrder())
	workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCompleted)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, ranv1.ClusterCounts{Total: 4, Complete: 4}, status.Counts)
	require.Equal(t, int32(100), status.Percentage)
	require.Nil(t, status.Wait)
}

func TestTheFinalStatusIsSavedOnTheHub(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Len(t, w.Inputs["SaveRollout"], 2)
	begun := w.Inputs["SaveRollout"][0].(rollouts.SaveRolloutInput)
	require.Nil(t, meta.FindStatusCondition(begun.Object.Status.Conditions, ranv1.ConditionSucceeded), "other rollouts must not see a success")
	kept := w.Inputs["SaveRollout"][1].(rollouts.SaveRolloutInput)
	require.Equal(t, status, kept.Object.Status)
	require.Equal(t, workflowtest.ARollout().Spec, kept.Object.Spec)
	require.NotEmpty(t, kept.Owner)
}

func TestAFailedSaveIsNotedAndDoesNotChangeTheResult(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["SaveRollout"] = func(int) error { return errors.New("the hub is down") }
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, []string{"the final status is not saved on the hub: the hub is down"}, status.Notes)
}

func TestARolloutWithoutClustersSucceeds(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
}

func TestARolloutThatIsNotEnabledWaitsWithItsPlan(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := workflowtest.ARollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled)
		require.Equal(t, [][]string{{"c1"}}, status.RemediationPlan)
		require.Equal(t, ranv1.ReasonNotEnabled, status.Wait.Reason)
		require.Nil(t, status.Status.StartedAt)
		require.Empty(t, clusters.Events)
		w.Plan = workflowtest.PlanOf([]string{"c1", "c2"})
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 100*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, [][]string{{"c1", "c2"}}, status.RemediationPlan, "it is planned again when it is enabled")
	require.Len(t, clusters.Events, 4)
}

// What the plan lacks may come to the hub before the rollout is enabled, or after.
func TestARolloutWaitsForWhatItsPlanLacks(t *testing.T) {
	for name, test := range map[string]struct{ enabled, enable bool }{
		"enabled from the start":          {enabled: true},
		"enabled while the plan lacks it": {enable: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t)
			w.Plan = planWithoutClusters("cluster c9 not found")
			object := workflowtest.ARollout()
			object.Spec.Enable = &test.enabled
			if test.enable {
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, nil) }, time.Hour)
			}
			w.RegisterDelayedCallback(func() {
				status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
				workflowtest.RequireCondition(t, status, ranv1.ConditionClustersSelected, metav1.ConditionFalse, ranv1.ReasonClusterNotFound)
				workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonInvalidPlan)
				require.Equal(t, "waiting for a valid plan: cluster c9 not found", status.Wait.Message)
				w.ChangePlan(workflowtest.PlanOf([]string{"c9"}))
			}, 2*time.Hour)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

			workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
			require.Equal(t, []string{"+c9", "-c9"}, clusters.EventsInOrder())
		})
	}
}

func TestAnEnabledRolloutMayBeEditedUntilItHasAPlan(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t)
	w.Plan = planWithoutClusters("cluster c8 not found")
	w.RegisterDelayedCallback(func() {
		w.Plan = workflowtest.PlanOf([]string{"c9"})
		w.EditPlanned(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Clusters, spec.Enable = []string{"c9"}, nil })
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c9", "-c9"}, clusters.EventsInOrder())
}

func TestContinueCancelsTimedOutClustersBeforeTheNextBatch(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3", "c4"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	start := w.Now()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2", "+c3", "+c4", "-c3", "-c4"}, clusters.EventsInOrder())
	require.Equal(t, map[string]ranv1.ClusterState{
		"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterTimedOut, "c3": ranv1.ClusterComplete, "c4": ranv1.ClusterComplete,
	}, workflowtest.ClusterStates(status))
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(32*time.Minute), w.Now(), 5*time.Second,
		"half an hour for the batch, a minute for its cleanup, and a minute for the next batch")
}

func TestAbortEndsTheRolloutWhenABatchTimesOut(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	object := workflowtest.ARollout()
	object.Spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, ranv1.ClusterPending, workflowtest.ClusterStates(status)["c3"])
	require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.EventsInOrder())
}

func TestATimedOutCanaryEndsTheRolloutEvenWithContinue(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout("c1")})

	require.Equal(t, ranv1.ClusterTimedOut, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut))["c1"])
	require.NotContains(t, clusters.Events, "+c2")
}

func TestADeletedClusterFailsAndIsNotStarted(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.DeletedClusters = []string{"c2"}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"+c1", "-c1", "+c3", "-c3"}, clusters.EventsInOrder())
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterFailed, "c3": ranv1.ClusterComplete}, workflowtest.ClusterStates(status))
	require.Equal(t, "ClusterDeleted", status.Clusters[0].Reason, "failed clusters come first")
}

func TestAClusterThatIsDeletedWhileItRunsFails(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = func(workflow.Context) error {
		w.DeleteClusterSilently("c1")
		return nil
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterFailed, "c2": ranv1.ClusterComplete}, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)))
}

func TestAFailedCanaryEndsTheRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.ClusterFails
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout("c1")})

	require.Equal(t, ranv1.ClusterFailed, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed))["c1"])
	require.NotContains(t, clusters.Events, "+c2")
}

func TestAFailedClusterDoesNotStopTheOthers(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c1"] = workflowtest.ClusterFails
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Contains(t, clusters.Events, "-c3")
	require.Equal(t, "node w0: exit code 3", status.Clusters[0].Message)
	workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCompleted)
}

func TestEachBatchGetsAnEqualShareOfTheRemainingTime(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"], clusters.Outcomes["c3"] = workflowtest.UntilCancelled, workflowtest.UntilCancelled, workflowtest.UntilCancelled
	start := w.Now()
	var deadlines []time.Duration
	for i := range 3 {
		batch := int32(i + 1)
		w.When(func() bool { return workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatch == batch }, func() {
			deadlines = append(deadlines, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline.Sub(start).Round(10*time.Second))
		})
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	// 3 batches share 60 minutes. After 20 minutes and a minute of cleanup, 2 share 39. After another minute of cleanup, the last has the rest.
	require.Equal(t, []time.Duration{20 * time.Minute, 40*time.Minute + 30*time.Second, 60 * time.Minute}, deadlines)
}

func TestAPausedRolloutStartsNoClusterAndUsesNoTime(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Duration = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "ann", Reason: "lunch"}) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "Paused", status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "by ann: lunch")
		require.Nil(t, status.Status.CurrentBatchDeadline)
		require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder(), "running clusters finish")
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, 50*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
}

func TestABatchHasItsRemainingTimeAfterAPause(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 20*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 10*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(10*time.Hour+40*time.Minute+time.Minute), w.Now(), 5*time.Second)
}

func TestAPauseDuringACleanupUsesNoTime(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 30*time.Minute+30*time.Second)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 10*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.Equal(t, ranv1.ClusterComplete, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut))["c2"])
}

func TestPauseAndResumeReachRunningClustersInOrder(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	var received []string
	clusters.Outcomes["c1"] = func(ctx workflow.Context) error {
		for _, signal := range []string{temporal.SignalPause, temporal.SignalResume} {
			workflow.GetSignalChannel(ctx, signal).Receive(ctx, nil)
			received = append(received, signal)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{temporal.SignalPause, temporal.SignalResume}, received)
}

func TestResumeBeforeEnableShowsTheWaitForEnable(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := workflowtest.ARollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.ReasonNotEnabled, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 3*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestACancelledRolloutDoesNotTimeOutWhileNodesAreReturned(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = func(ctx workflow.Context) error {
		err := workflow.Sleep(ctx, 1000*time.Hour)
		cleanUp, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Sleep(cleanUp, 5*time.Hour)
		return err
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, "not today") }, time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, "really") }, time.Hour)
	w.RegisterDelayedCallback(func() {
		wait := workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait
		require.Equal(t, "Cancelling", wait.Reason)
		require.Equal(t, "batch 1 of 1: clusters that return their nodes: 1", wait.Message)
	}, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, ranv1.ClusterCancelled, workflowtest.ClusterStates(status)["c1"])
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "not today")
}

func TestALargeBatchContinuesAsNew(t *testing.T) {
	var batch []string
	for i := range rolloutworkflow.MaxChildren + 10 {
		batch = append(batch, fmt.Sprintf("c%03d", i))
	}
	w, clusters := workflowtest.NewGroupWorld(t, batch)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 30*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, rolloutworkflow.MaxChildren, clusters.MostRunning)
	require.Len(t, clusters.Events, 2*rolloutworkflow.MaxChildren)

	carried := &rolloutworkflow.PreviousRun{Phase: rolloutworkflow.PhaseBatches, Used: time.Minute, StartedBatch: &rolloutworkflow.StartedBatch{Timeout: 10 * time.Minute}, Status: workflowtest.GroupStatus{
		RemediationPlan: [][]string{{"c1", "c2"}}, Status: ranv1.RunStatus{StartedAt: &metav1.Time{Time: w.Now()}, CurrentBatch: 1, CurrentBatchStartedAt: &metav1.Time{Time: w.Now()}},
		Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 1}},
	}}
	second, again := workflowtest.NewGroupWorld(t)
	again.Outcomes["c2"] = workflowtest.UntilCancelled
	start := second.Now()
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout(), PreviousRun: carried})
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterTimedOut}, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](second, ranv1.ReasonTimedOut)))
	require.WithinDuration(t, start.Add(10*time.Minute), second.Now(), 5*time.Second, "the batch has 9 more minutes, and one for its cleanup")
}

func TestCancelCancelsRunningClustersAndStartsNoOthers(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run(by, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.Outcomes["c1"] = workflowtest.UntilCancelled
			w.RegisterDelayedCallback(func() {
				if by == "signal" {
					w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
				} else {
					w.CancelWorkflow()
				}
			}, time.Minute)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

			status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
			require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterCancelled, "c2": ranv1.ClusterPending}, workflowtest.ClusterStates(status))
			workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonCancelled)
			if by == "signal" {
				require.Equal(t, "Cancelled by ann; cancelled: c1; not started: c2", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
			}
		})
	}
}

func TestCancelBeforeEnableOrDuringAPauseEndsTheRollout(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := workflowtest.ARollout()
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)

	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Second)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
}

func TestATimedOutClusterKeepsItsLastWait(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalClusterProgress, ranv1.ClusterStatus{Name: "c1", Step: "w2: Draining", Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3"})
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		wait := workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait
		require.Equal(t, []drydockv1.Blocker{{Kind: "ManagedCluster", Name: "c1", Reason: "DisruptionBudget", Message: "w2: Draining: budget shop/web allows 0 of 3"}}, wait.Blockers)
	}, 2*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	c1 := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut).Clusters[0]
	require.Equal(t, "BatchTimedOut", c1.Reason)
	require.Contains(t, c1.Message, "w2: Draining: DisruptionBudget: budget shop/web allows 0 of 3")
}

func TestALongRolloutContinuesAsNewBetweenBatches(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())

	carried := &rolloutworkflow.PreviousRun{Phase: rolloutworkflow.PhaseBatches, NextBatch: 1, Used: 50 * time.Minute, Status: workflowtest.GroupStatus{
		RemediationPlan: [][]string{{"c1"}, {"c2"}},
		Clusters:        []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 2}},
	}}
	second, again := workflowtest.NewGroupWorld(t)
	again.Outcomes["c2"] = workflowtest.UntilCancelled
	start := second.Now()
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout(), PreviousRun: carried})
	require.Equal(t, []string{"+c2", "-c2"}, again.EventsInOrder())
	require.Equal(t, ranv1.ClusterTimedOut, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](second, ranv1.ReasonTimedOut))["c2"])
	require.WithinDuration(t, start.Add(11*time.Minute), second.Now(), 5*time.Second, "only the rest of the timeout")
	require.NotContains(t, second.Called(), "PlanRollout", "the plan is frozen")
}

func TestTheResultAccountsForEveryCluster(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w, clusters := workflowtest.NewGroupWorld(t)
		ways := []func(workflow.Context) error{nil, workflowtest.UntilCancelled, workflowtest.ClusterFails}
		wants := []ranv1.ClusterState{ranv1.ClusterComplete, ranv1.ClusterTimedOut, ranv1.ClusterFailed}
		var batches [][]string
		want := map[string]ranv1.ClusterState{}
		for b := range rapid.IntRange(1, 4).Draw(r, "batches") {
			var batch []string
			for c := range rapid.IntRange(1, 3).Draw(r, "size") {
				name := fmt.Sprintf("c%d-%d", b, c)
				way := rapid.IntRange(0, 2).Draw(r, name)
				clusters.Outcomes[name], want[name] = ways[way], wants[way]
				batch = append(batch, name)
			}
			batches = append(batches, batch)
		}
		w.Plan = workflowtest.PlanOf(batches...)
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

		var status workflowtest.GroupStatus
		if w.GetWorkflowError() == nil {
			require.NoError(r, w.GetWorkflowResult(&status))
		} else {
			require.True(r, kit.DetailsOf(w.GetWorkflowError(), &status))
		}
		require.Equal(r, want, workflowtest.ClusterStates(status))
		require.LessOrEqual(r, clusters.MostRunning, 3)
		require.Zero(r, clusters.Running)
	})
}
