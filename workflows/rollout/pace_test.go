package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

// aRollingRollout runs two clusters at a time after its canaries.
func aRollingRollout(canaries ...string) ranv1.ClusterGroupUpgrade {
	object := workflowtest.ARollout(canaries...)
	object.Spec.RemediationStrategy.Rollout = ranv1.Rolling
	return object
}

func failsLate(ctx workflow.Context) error {
	if err := workflow.Sleep(ctx, time.Minute); err != nil {
		return err
	}
	return workflowtest.ClusterFails(ctx)
}

func startTimes(s workflowtest.GroupStatus) map[string]time.Time {
	times := map[string]time.Time{}
	for _, c := range s.Clusters {
		if c.StartedAt != nil {
			times[c.Name] = c.StartedAt.Time
		}
	}
	return times
}

func TestARollingRolloutUsesItsConcurrency(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2", "c3"}, []string{"c4", "c5"}, []string{"c6"})
	clusters.Outcomes["c2"] = workflowtest.Takes(10 * time.Minute)
	w.When(func() bool { return workflowtest.StatusOf[workflowtest.GroupStatus](w).Counts.Complete == 4 }, func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w).Status
		require.Equal(t, int32(2), status.CurrentBatch, "c2 is still running")
		require.Equal(t, status.Deadline, status.CurrentBatchDeadline, "the remaining clusters share the remaining time")
	})
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: aRollingRollout("c1")})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.Events[:2], "the canary runs alone")
	require.Equal(t, 2, clusters.MostRunning)
	require.Equal(t, "-c2", clusters.Events[len(clusters.Events)-1], "the others do not wait for it: %v", clusters.Events)
	require.Equal(t, int32(4), status.Status.CurrentBatch)
}

func TestADeletedPendingClusterOfARollingRolloutIsNotStarted(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3", "c4"}, []string{"c5"})
	clusters.Outcomes["c1"] = workflowtest.Takes(10 * time.Minute)
	w.RegisterDelayedCallback(func() { w.DeleteClusterSilently("c4") }, 30*time.Second)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: aRollingRollout()})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.NotContains(t, clusters.Events, "+c4")
	require.Equal(t, ranv1.ReasonClusterDeleted, workflowtest.StatusOfCluster(status, "c4").Reason)
	require.Equal(t, ranv1.ClusterCounts{Total: 5, Complete: 4, Failed: 1}, status.Counts)
}

func TestClustersAreLookedUpTogether(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("c%03d", i))
	}
	w.Plan = workflowtest.PlanOf(many)
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.MaxConcurrency.IntVal = 120
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Len(t, w.InputsOf("LookUpClusters"), 2, "before they start, and at the end of the batch")
}

func TestATimedOutRollingRolloutCancelsRunningClusters(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.UntilCancelled, workflowtest.UntilCancelled
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: aRollingRollout()})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, ranv1.ClusterCounts{Total: 3, TimedOut: 3}, status.Counts)
	require.NotContains(t, clusters.Events, "+c3")
}

func TestARollingRolloutContinuesAsNew(t *testing.T) {
	carried := &rollout.PreviousRun{Phase: rollout.PhaseBatches, NextBatch: 0, StartedBatch: &rollout.StartedBatch{Timeout: time.Hour}, Status: workflowtest.GroupStatus{
		ComputedMaxConcurrency: 1, RemediationPlan: [][]string{{"c1"}, {"c2"}, {"c3"}},
		Status: ranv1.RunStatus{CurrentBatch: 1, CurrentBatchStartedAt: new(metav1.Now())},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 2}, {Name: "c3", State: ranv1.ClusterPending, Batch: 3},
		},
	}}
	w, clusters := workflowtest.NewGroupWorld(t)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: aRollingRollout(), PreviousRun: carried})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c2", "-c2", "+c3", "-c3"}, clusters.Events)
}

func TestClusterTimeoutCancelsOnlyThatCluster(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2", "c3"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.UntilCancelled, workflowtest.Takes(15*time.Minute)
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.ClusterTimeout = 10
	object.Spec.RemediationStrategy.MaxConcurrency.IntVal = 3
	start := w.Now()
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterTimedOut, "c2": ranv1.ClusterTimedOut, "c3": ranv1.ClusterComplete}, workflowtest.ClusterStates(status))
	require.Equal(t, "ClusterTimedOut", status.Clusters[0].Reason)
	require.WithinDuration(t, start.Add(11*time.Minute), w.Now(), time.Second, "ten minutes, and one for the cleanup")
}

func TestClusterTimeoutStartsWithTheCluster(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c1"], clusters.Outcomes["c3"] = workflowtest.Takes(3*time.Minute), workflowtest.UntilCancelled
	clusters.Outcomes["c2"] = workflowtest.Takes(9 * time.Minute)
	object := aRollingRollout()
	object.Spec.RemediationStrategy.ClusterTimeout = 10
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, ranv1.ClusterComplete, workflowtest.ClusterStates(status)["c2"])
	c3 := status.Clusters[0]
	require.Equal(t, "c3", c3.Name)
	require.WithinDuration(t, c3.StartedAt.Add(10*time.Minute), c3.Since.Time, time.Second)
}

func TestPausedTimeDoesNotCountForAClusterTimeout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.ClusterTimeout = 10
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 4*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 5*time.Hour)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(5*time.Hour+7*time.Minute), w.Now(), 5*time.Second)
}

func TestATimedOutCanaryClusterEndsTheRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	object := workflowtest.ARollout("c1")
	object.Spec.RemediationStrategy.ClusterTimeout = 10
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "on canary clusters; timed out: c1")
}

func TestTheNextBatchWaitsUntilTheClustersHaveSoaked(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c2"] = workflowtest.Takes(3 * time.Minute)
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.SoakSeconds = 600
	var soaking workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { soaking = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 5*time.Minute)
	start := w.Now()
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})

	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterSoaking, "c2": ranv1.ClusterSoaking, "c3": ranv1.ClusterPending}, workflowtest.ClusterStates(soaking))
	require.Equal(t, ranv1.ReasonSoaking, soaking.Wait.Reason)
	require.Nil(t, soaking.Status.CurrentBatchDeadline, "no running cluster can time out")
	require.Equal(t, "Soaking; Maintaining nodes", meta.FindStatusCondition(soaking.Conditions, ranv1.ConditionProgressing).Message)
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Empty(t, status.Clusters[0].Reason)
	require.WithinDuration(t, start.Add(13*time.Minute), startTimes(status)["c3"], 2*time.Second)
	require.WithinDuration(t, start.Add(14*time.Minute), w.Now(), 2*time.Second, "the last batch does not soak")
}

// When the batch times out, c1 has been complete for five minutes.
func TestATimedOutBatchStillSoaks(t *testing.T) {
	lateComplete := func(ctx workflow.Context) error {
		_ = workflow.Sleep(ctx, 1000*time.Hour)
		return nil // although it was cancelled
	}
	for _, tt := range []struct {
		name   string
		c2     func(workflow.Context) error
		change func(*ranv1.ClusterGroupUpgradeSpec)
		want   ranv1.ClusterState
		// next is when the next batch starts; 0: never. end is when the rollout ends.
		next, end time.Duration
	}{
		{"a complete cluster", workflowtest.UntilCancelled, nil, ranv1.ClusterTimedOut, 35 * time.Minute, 36 * time.Minute},
		{"a cluster that completes at the timeout", lateComplete, nil, ranv1.ClusterComplete, 40 * time.Minute, 41 * time.Minute},
		{"not with Abort", workflowtest.UntilCancelled, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
		}, ranv1.ClusterTimedOut, 0, 31 * time.Minute},
		{"with Abort, if all clusters complete", lateComplete, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
		}, ranv1.ClusterComplete, 40 * time.Minute, 41 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
			clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.Takes(25*time.Minute), tt.c2
			object := workflowtest.ARollout()
			object.Spec.RemediationStrategy.SoakSeconds = 600
			if tt.change != nil {
				tt.change(&object.Spec)
			}
			var soaking workflowtest.GroupStatus
			w.SimulateAfter(33*time.Minute, func() { soaking = workflowtest.StatusOf[workflowtest.GroupStatus](w) })
			start := w.Now()
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})

			var status workflowtest.GroupStatus
			if w.GetWorkflowError() == nil {
				require.NoError(t, w.GetWorkflowResult(&status))
			} else {
				status = workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
			}
			require.WithinDuration(t, start.Add(tt.end), w.Now(), 5*time.Second)
			require.Equal(t, []ranv1.ClusterState{ranv1.ClusterComplete, tt.want}, []ranv1.ClusterState{workflowtest.ClusterStates(status)["c1"], workflowtest.ClusterStates(status)["c2"]})
			if tt.next == 0 {
				require.NotContains(t, clusters.Events, "+c3")
				return
			}
			require.WithinDuration(t, start.Add(tt.next), startTimes(status)["c3"], 5*time.Second)
			require.Equal(t, ranv1.ReasonSoaking, soaking.Wait.Reason)
			require.Equal(t, "Soaking; Maintaining nodes", progressMessage(soaking))
		})
	}
}

func TestARolloutTimesOutDuringASoak(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := workflowtest.ARollout("c1")
	object.Spec.RemediationStrategy.SoakSeconds, object.Spec.RemediationStrategy.Timeout = 3600, 10
	object.Spec.Approvals = &ranv1.Approvals{AfterCanaries: true}
	start := w.Now()
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w).Status
		require.Nil(t, status.CurrentBatchDeadline, "no running cluster can time out")
		require.WithinDuration(t, start.Add(10*time.Minute), status.Deadline.Time, 5*time.Second)
	}, 3*time.Minute)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(10*time.Minute), w.Now(), 5*time.Second, "without a wait for the approval")
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterPending}, workflowtest.ClusterStates(status))
	require.NotContains(t, clusters.Events, "+c2")
}

func TestASoakingClusterKeepsItsPlaceInARollingRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3", "c4"})
	object := aRollingRollout()
	object.Spec.RemediationStrategy.SoakSeconds = 600
	start := w.Now()
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, 2, clusters.MostRunning)
	require.WithinDuration(t, start.Add(11*time.Minute), startTimes(status)["c4"], 2*time.Second)
}

func TestCancelDuringASoakKeepsClustersComplete(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.SoakSeconds = 600
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 5*time.Minute)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterPending}, workflowtest.ClusterStates(status))
	require.NotContains(t, clusters.Events, "+c2")
}

func TestNoClusterStartsAtMaxFailures(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2", "c3", "c4"}, []string{"c5"})
	w.Plan.ComputedMaxFailures = 2
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = failsLate, failsLate
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonAborted)
	require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.EventsInOrder(), "no more clusters run than may fail")
	workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonAborted)
	require.Equal(t, "Aborted because too many clusters failed; failed: c1, c2; not started: c3, c4, c5", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
}

func TestPossibleFailuresLimitTheConcurrency(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2", "c3"})
	w.Plan.ComputedMaxFailures = 2
	clusters.Outcomes["c1"] = workflowtest.ClusterFails
	var early, slow workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { early = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 30*time.Second)
	w.RegisterDelayedCallback(func() { slow = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 90*time.Second)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Contains(t, clusters.Events, "-c3")
	require.Contains(t, slow.Wait.Message, "clusters running: 1; failed: 1 of at most 2")
	require.Equal(t, "MaxFailures", early.Clusters[2].Reason)
	require.Equal(t, "starts when a running cluster has succeeded: 1 running and 1 failed reach maxFailures (2) if all of them fail", early.Clusters[2].Message)
}

func TestFailuresNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w, clusters := workflowtest.NewGroupWorld(t)
		most := rapid.IntRange(1, 3).Draw(r, "max failures")
		object := workflowtest.ARollout()
		if rapid.Bool().Draw(r, "rolling") {
			object = aRollingRollout()
		}
		object.Spec.RemediationStrategy.SoakSeconds = int32(rapid.SampledFrom([]int{0, 30}).Draw(r, "soak"))
		object.Spec.RemediationStrategy.ClusterTimeout = 5
		var batches [][]string
		for b := range rapid.IntRange(1, 4).Draw(r, "batches") {
			var batch []string
			for c := range 2 {
				name := fmt.Sprintf("c%d-%d", b, c)
				clusters.Outcomes[name] = rapid.SampledFrom([]func(workflow.Context) error{nil, workflowtest.Takes(2 * time.Minute), workflowtest.UntilCancelled, workflowtest.ClusterFails}).Draw(r, name)
				batch = append(batch, name)
			}
			batches = append(batches, batch)
		}
		w.Plan = workflowtest.PlanOf(batches...)
		w.Plan.ComputedMaxFailures = int32(most)
		w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})

		var status workflowtest.GroupStatus
		if w.GetWorkflowError() == nil {
			require.NoError(r, w.GetWorkflowResult(&status))
		} else {
			require.True(r, kit.DetailsOf(w.GetWorkflowError(), &status), "%v", w.GetWorkflowError())
		}
		require.LessOrEqual(r, int(status.Counts.Failed+status.Counts.TimedOut), most)
		require.LessOrEqual(r, clusters.MostRunning, min(2, most))
		require.Zero(r, clusters.Running)
		require.Zero(r, status.Counts.Running)
		if status.Counts.Pending > 0 {
			require.Equal(r, most, int(status.Counts.Failed+status.Counts.TimedOut), "only failures prevent the start of a cluster: %v", clusters.Events)
		}
	})
}

func TestTimedOutClustersAreCheckedAgainAtTheEnd(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	late := &lateRemediator{complete: []string{"c1"}}
	w.RegisterAs("late", func(ctx workflow.Context, in rollout.Input) (workflowtest.GroupStatus, error) {
		return rollout.RunWithRemediator(ctx, in, func(r policy.Remediator) policy.Remediator {
			late.Remediator = r
			return late
		})
	})
	w.ExecuteWorkflow("late", rollout.Input{Object: workflowtest.ARollout()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"c1"}, late.checked)
	require.Equal(t, int32(2), status.Counts.Complete)
	require.True(t, slices.Contains(clusters.Events, "+c2"))
}

// lateRemediator finds timed-out clusters that are complete.
type lateRemediator struct {
	policy.Remediator
	complete, checked []string
}

func (l *lateRemediator) FindComplete(_ workflow.Context, clusters []string) ([]string, error) {
	l.checked = clusters
	return l.complete, nil
}
