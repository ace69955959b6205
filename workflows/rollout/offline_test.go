package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// offlineWorld is a world with a rollout of an hour over these batches of at most two clusters. Each cluster takes a minute.
func offlineWorld(t *testing.T, offline []string, batches ...[]string) (*workflowtest.World, *workflowtest.Children) {
	w, clusters := workflowtest.NewGroupWorld(t, batches...)
	for _, name := range offline {
		w.GoOffline(name)
	}
	return w, clusters
}

// runOffline runs the rollout after changes of its strategy.
func runOffline(w *workflowtest.World, changes ...func(*ranv1.RemediationStrategy)) {
	object := workflowtest.WithActions(workflowtest.ARollout())
	for _, change := range changes {
		change(&object.Spec.RemediationStrategy)
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
}

func TestTheNextClusterTakesThePlaceOfOneThatIsOffline(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1", "c2"}, []string{"c3", "c4"})
	var during workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 90*time.Second)
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 30*time.Minute)
	runOffline(w)
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)

	require.Equal(t, [][]string{{"c2", "c3"}, {"c4"}, {"c1"}}, during.RemediationPlan, "no place is wasted")
	require.EqualValues(t, 3, during.Status.CatchUpBatch)
	offline := workflowtest.StatusOfCluster(during, "c1")
	require.Equal(t, ranv1.ClusterOffline, offline.State)
	require.Equal(t, ranv1.ReasonClusterOffline, offline.Reason)
	require.Equal(t, ranv1.ClusterCounts{Total: 4, Complete: 2, Running: 1, Offline: 1}, during.Counts)
	require.Equal(t, "batch 2 of 3: clusters running: 1; offline: 1", during.Wait.Message)
	require.Nil(t, during.Status.Estimate, "it is not known when the cluster is back")

	require.Equal(t, []string{"+c2", "+c3", "-c2", "-c3", "+c4", "-c4", "+c1", "-c1"}, clusters.EventsInOrder())
	require.Equal(t, ranv1.ClusterCounts{Total: 4, Complete: 4}, status.Counts)
	require.Empty(t, workflowtest.StatusOfCluster(status, "c1").Reason)
}

func TestARolloutWaitsForOfflineClustersUntilItTimesOut(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c2", "c3"}, []string{"c1", "c2"}, []string{"c3"})
	var waiting workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { waiting = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 30*time.Minute)
	started := w.Now()
	w.Plan.ComputedMaxFailures = 1
	runOffline(w)
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonClustersOffline)

	require.Equal(t, ranv1.ReasonClustersOffline, waiting.Wait.Reason)
	require.Equal(t, "batch 2 of 2: waiting until clusters are Available: c2, c3", waiting.Wait.Message)
	require.Equal(t, waiting.Status.Deadline, waiting.Wait.Until)
	require.Equal(t, "ClustersOffline; Maintaining nodes", meta.FindStatusCondition(waiting.Conditions, ranv1.ConditionProgressing).Message)
	require.Equal(t, []any{[]string{"c2", "c3"}}, w.InputsOf("AwaitClustersBack"), "one activity watches all of them")

	require.WithinDuration(t, started.Add(time.Hour), w.Now(), time.Minute)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
	require.Equal(t, ranv1.ClusterCounts{Total: 3, Complete: 1, Offline: 2}, status.Counts)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonClustersOffline)
	require.Equal(t, "Complete on all clusters but 2; offline: c2, c3", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
	workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonCompleted)
	require.Equal(t, []string{"c1"}, w.LabelledClusters()["done"], "an offline cluster is not done")
}

func TestClustersThatComeBackAfterTheTimeoutAreCaughtUp(t *testing.T) {
	for name, test := range map[string]struct {
		back   time.Duration
		result ranv1.ClusterState
	}{
		"within catchUp": {80 * time.Minute, ranv1.ClusterComplete},
		"never":          {0, ranv1.ClusterOffline},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"})
			var waiting workflowtest.GroupStatus
			w.RegisterDelayedCallback(func() { waiting = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 70*time.Minute)
			if test.back > 0 {
				w.RegisterDelayedCallback(func() { w.ComeBack("c2") }, test.back)
			}
			started := w.Now()
			runOffline(w, func(strategy *ranv1.RemediationStrategy) { strategy.CatchUp = 30 })
			require.WithinDuration(t, started.Add(90*time.Minute), waiting.Status.Deadline.Time, time.Minute)
			status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": test.result}, workflowtest.ClusterStates(status))
		})
	}
}

func TestTheBatchOfAnOfflineCanaryWaitsForIt(t *testing.T) {
	canary := func(strategy *ranv1.RemediationStrategy) { strategy.Canaries = []string{"c1"} }
	t.Run("it comes back", func(t *testing.T) {
		w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
		w.RegisterDelayedCallback(func() {
			status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
			require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
			require.Equal(t, "batch 1 of 2: waiting until clusters are Available: c1", status.Wait.Message)
			w.ComeBack("c1")
		}, 10*time.Minute)
		runOffline(w, canary)
		workflowtest.RequireResult[workflowtest.GroupStatus](w)
		require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.EventsInOrder())
	})
	t.Run("it does not", func(t *testing.T) {
		w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
		runOffline(w, canary)
		status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
		require.Empty(t, clusters.Events, "nothing proves that the others are safe")
		require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterOffline, "c2": ranv1.ClusterPending}, workflowtest.ClusterStates(status))
		require.Equal(t, "Node maintenance took too long on canary clusters; offline: c1; not started: c2", meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message)
	})
}

func TestOfflineClustersFailIfTheRolloutAsksForThat(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1", "c2"}, []string{"c3"})
	w.Plan.ComputedMaxFailures = 1
	runOffline(w, func(strategy *ranv1.RemediationStrategy) { strategy.OfflineAction = ranv1.OfflineFail })
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonAborted)
	require.Empty(t, clusters.Events, "the limit of failures is reached")
	failed := workflowtest.StatusOfCluster(status, "c1")
	require.Equal(t, ranv1.ClusterFailed, failed.State)
	require.Equal(t, ranv1.ReasonClusterOffline, failed.Reason)
}

func TestARollingRolloutCatchesUpInTheEnd(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c1", "c4"}, []string{"c1", "c2"}, []string{"c3", "c4"}, []string{"c5"})
	clusters.Outcomes["c2"] = workflowtest.Takes(10 * time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c4") }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 20*time.Minute)
	runOffline(w, func(strategy *ranv1.RemediationStrategy) { strategy.Rollout = ranv1.Rolling })
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c2", "+c3", "-c3", "+c5", "-c2", "-c5", "+c4", "-c4", "+c1", "-c1"}, clusters.EventsInOrder())
	require.Equal(t, [][]string{{"c2", "c3"}, {"c5"}, {"c1", "c4"}}, status.RemediationPlan)
}

func TestClustersThatComeBackTogetherStartWithinMaxConcurrency(t *testing.T) {
	all := []string{"c1", "c2", "c3", "c4", "c5"}
	w, clusters := offlineWorld(t, all, all[:2], all[2:4], all[4:])
	w.RegisterDelayedCallback(func() {
		require.Equal(t, [][]string{all}, workflowtest.StatusOf[workflowtest.GroupStatus](w).RemediationPlan)
		for _, name := range all {
			w.ComeBack(name)
		}
	}, 30*time.Minute)
	runOffline(w)
	require.Equal(t, ranv1.ClusterCounts{Total: 5, Complete: 5}, workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts)
	require.Equal(t, 2, clusters.MostRunning)
}

func TestAPausedRolloutDoesNotCatchUp(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 20*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		require.Equal(t, ranv1.ClusterPending, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), "c1").State)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, 5*time.Hour)
	runOffline(w)
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestADeletedOfflineClusterFails(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.DeleteClusterSilently("c2")
		w.ComeBack("c2")
	}, 10*time.Minute)
	runOffline(w)
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ReasonClusterDeleted, workflowtest.StatusOfCluster(status, "c2").Reason)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
}

func TestACancelledRolloutNamesTheOfflineClusters(t *testing.T) {
	w, _ := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 10*time.Minute)
	runOffline(w)
	status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonCancelled)
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "; offline: c2")
}

func TestARunContinuesToCatchUp(t *testing.T) {
	carried := &rolloutworkflow.PreviousRun{
		Phase: rolloutworkflow.PhaseBatches, NextBatch: 1, StartedBatch: &rolloutworkflow.StartedBatch{Timeout: 2 * time.Hour, UsedBefore: 10 * time.Minute}, Used: 30 * time.Minute,
		Status: workflowtest.GroupStatus{
			ComputedMaxConcurrency: 1, RemediationPlan: [][]string{{"c1"}, {"c2", "c3"}},
			Status: ranv1.RunStatus{CurrentBatch: 2, CatchUpBatch: 2, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())},
			Clusters: []ranv1.ClusterStatus{
				{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterOffline, Batch: 2}, {Name: "c3", State: ranv1.ClusterOffline, Batch: 2},
			},
		},
	}
	w, clusters := offlineWorld(t, []string{"c2"})
	w.RegisterDelayedCallback(func() { w.ComeBack("c2") }, 10*time.Minute)
	object := workflowtest.ARollout()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, PreviousRun: carried})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c3", "-c3", "+c2", "-c2"}, clusters.Events, "c3 came back between the runs")
}

func TestTheHealthGateDoesNotCheckOfflineClusters(t *testing.T) {
	w, _ := offlineWorld(t, []string{"c1"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		require.ElementsMatch(t, []string{"c2", "c2"}, checkedClusters(w))
		w.ComeBack("c1")
	}, 10*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.ElementsMatch(t, []string{"c2", "c2", "c1"}, checkedClusters(w), "it is checked after its work")
}

func TestAPlannedRolloutShowsWhichClustersAreOffline(t *testing.T) {
	w, _ := offlineWorld(t, nil, []string{"c1", "c2"})
	w.Plan.Offline = []string{"c2"}
	w.RegisterDelayedCallback(func() {
		shown := workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), "c2")
		require.Equal(t, ranv1.ClusterPending, shown.State)
		require.Equal(t, ranv1.ReasonClusterOffline, shown.Reason)
		require.Equal(t, rollout.MessageOffline, shown.Message)
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), "c2").Reason, "it is looked up when it starts")
	}, time.Hour+time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestThousandsOfOfflineClustersAreDeferred(t *testing.T) {
	var batches [][]string
	var all []string
	for i := range 500 {
		batches = append(batches, []string{fmt.Sprintf("c%04d", 2*i), fmt.Sprintf("c%04d", 2*i+1)})
		all = append(all, batches[i]...)
	}
	w, clusters := offlineWorld(t, all[:len(all)-1], batches...)
	runOffline(w)
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonClustersOffline)
	require.Equal(t, []string{"+c0999", "-c0999"}, clusters.Events)
	require.Equal(t, ranv1.ClusterCounts{Total: 1000, Complete: 1, Offline: 999}, status.Counts)
	require.Len(t, w.InputsOf("AwaitClustersBack"), 1)
}

// Each cluster is available, offline for some time, or offline all the time.
func TestEveryClusterThatIsBackInTimeIsComplete(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w, clusters := workflowtest.NewGroupWorld(t)
		var batches [][]string
		want := map[string]ranv1.ClusterState{}
		for b := range rapid.IntRange(1, 4).Draw(r, "batches") {
			var batch []string
			for c := range rapid.IntRange(1, 3).Draw(r, "size") {
				name := fmt.Sprintf("c%d-%d", b, c)
				batch, want[name] = append(batch, name), ranv1.ClusterComplete
				switch rapid.SampledFrom([]string{"available", "for some time", "all the time"}).Draw(r, name) {
				case "for some time":
					w.GoOffline(name)
					w.RegisterDelayedCallback(func() { w.ComeBack(name) }, time.Duration(rapid.IntRange(1, 1200).Draw(r, "seconds"))*time.Second)
				case "all the time":
					w.GoOffline(name)
					want[name] = ranv1.ClusterOffline
				}
			}
			batches = append(batches, batch)
		}
		w.Plan = workflowtest.PlanOf(batches...)
		object := workflowtest.ARollout()
		object.Spec.RemediationStrategy.Rollout = rapid.SampledFrom([]ranv1.RolloutMode{ranv1.Batched, ranv1.Rolling}).Draw(r, "rollout")
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(r, want, workflowtest.ClusterStates(status))
		require.LessOrEqual(r, clusters.MostRunning, 3)
		require.Zero(r, clusters.Running)
		succeeded := meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded)
		if rollout.Count(status.Clusters).Offline > 0 {
			require.Equal(r, ranv1.ReasonClustersOffline, succeeded.Reason)
		} else {
			require.Equal(r, ranv1.ReasonCompleted, succeeded.Reason)
		}
	})
}
