package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// lateWorld is a world in which clusters are offline when the others are prepared. Each cluster takes a minute.
func lateWorld(t *testing.T, jobs map[string]error, offline []string, batches ...[]string) (*workflowtest.World, *workflowtest.Children) {
	w, clusters := workflowtest.NewPreparedWorld(t, jobs, batches...)
	for _, name := range offline {
		w.GoOffline(name)
	}
	return w, clusters
}

// jobsRun are the Jobs that have run so far, in their order.
func jobsRun(w *workflowtest.World) []string {
	var run []string
	for _, in := range w.InputsOf("RunClusterJob") {
		job := in.(jobs.ClusterJob)
		run = append(run, string(job.Work.Kind)+" "+job.Cluster)
	}
	return run
}

func runPrepared(w *workflowtest.World, changes ...func(*ranv1.ClusterGroupUpgradeSpec)) {
	object := prepared(workflowtest.ARollout())
	for _, change := range changes {
		change(&object.Spec)
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
}

func TestAnOfflineClusterIsPreparedWhenItIsBack(t *testing.T) {
	w, clusters := lateWorld(t, nil, []string{"c1"}, []string{"c1", "c2"}, []string{"c3"})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "Precaching is not completed for 1 clusters that were offline", messageOf(status, ranv1.ConditionPrecachingSucceeded))
		require.Equal(t, "Backup is not completed for 1 clusters that were offline", messageOf(status, ranv1.ConditionBackupSucceeded))
		require.Equal(t, map[string]ranv1.PreparationState{"c1": "NotStarted", "c2": "Succeeded", "c3": "Succeeded"}, status.Backup.Status)
		require.Equal(t, ranv1.ReasonClustersOffline, status.Wait.Reason)
		require.Equal(t, []string{"+c2", "+c3", "-c2", "-c3"}, clusters.EventsInOrder(), "the others do not wait")
		require.NotEmpty(t, w.InputsOf("RemoveClusterJob"), "what the offline cluster would have done is withdrawn")
		w.ComeBack("c1")
	}, 30*time.Minute)
	runPrepared(w)

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"precaching c1", "backup c1"}, jobsRun(w)[len(jobsRun(w))-2:])
	require.Equal(t, []string{"+c2", "+c3", "-c2", "-c3", "+c1", "-c1"}, clusters.EventsInOrder())
	workflowtest.RequireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPrecachingCompleted)
	workflowtest.RequireCondition(t, status, ranv1.ConditionBackupSucceeded, metav1.ConditionTrue, ranv1.ReasonBackupCompleted)
	require.Equal(t, ranv1.ClusterCounts{Total: 3, Complete: 3}, status.Counts)
	require.Empty(t, workflowtest.StatusOfCluster(status, "c1").Reason)
}

func TestAClusterThatGoesOfflineDuringItsJobDoesNotHoldTheOthers(t *testing.T) {
	w, clusters := lateWorld(t, nil, nil, []string{"c1"}, []string{"c2"})
	w.Blocked["RunClusterJob c1"] = true
	w.RegisterDelayedCallback(func() {
		require.ElementsMatch(t, []string{"precaching c1", "precaching c2"}, jobsRun(w))
		require.Equal(t, "Precaching", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.Blocked["RunClusterJob c1"] = false
		w.GoOffline("c1")
	}, time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 30*time.Minute)
	runPrepared(w)
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c2", "-c2", "+c1", "-c1"}, clusters.EventsInOrder())
}

func TestAClusterThatIsBackBeforeItsBatchKeepsItsPlace(t *testing.T) {
	w, clusters := lateWorld(t, nil, []string{"c3"}, []string{"c1"}, []string{"c2", "c3"})
	w.RegisterDelayedCallback(func() { w.ComeBack("c3") }, 30*time.Second) // while c1 is running
	runPrepared(w)
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder()[:2])
	require.ElementsMatch(t, []string{"+c2", "-c2", "+c3", "-c3"}, clusters.EventsInOrder()[2:])
	require.Equal(t, []string{"precaching c3", "backup c3"}, jobsRun(w)[len(jobsRun(w))-2:])
}

func TestAClusterFailsThatCannotBePreparedWhenItIsBack(t *testing.T) {
	w, clusters := lateWorld(t, map[string]error{"backup c1": jobFailed("disk full")}, []string{"c1"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 30*time.Minute)
	runPrepared(w)
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"+c2", "-c2"}, clusters.EventsInOrder())
	failed := workflowtest.StatusOfCluster(status, "c1")
	require.Equal(t, "failed: UnrecoverableError: backup: disk full", string(failed.State)+": "+failed.Reason+": "+failed.Message)
	require.Equal(t, "Backup failed for 1 clusters; failed: c1", messageOf(status, ranv1.ConditionBackupSucceeded))
}

func TestTheStatusSaysWhyAClusterThatIsBackDoesNotStart(t *testing.T) {
	w, clusters := lateWorld(t, nil, []string{"c1"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.Blocked["RunClusterJob"] = true
		w.ComeBack("c1")
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		waiting := workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), "c1")
		require.Equal(t, "running: Precaching: it was offline when the others were prepared", string(waiting.State)+": "+waiting.Reason+": "+waiting.Message)
		late := w.PrecachingJobs()[len(w.PrecachingJobs())-1]
		w.SignalWorkflow(temporal.SignalPreparationProgress, rolloutworkflow.PreparationProgress{Preparation: late.Preparation, Part: 1, Clusters: map[string]precache.Progress{
			"c1": {State: ranv1.PreparationActive, Reason: jobs.ReasonJobRunning, Message: "the Job runs"},
		}})
	}, 11*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "the Job runs", workflowtest.StatusOfCluster(status, "c1").Message)
		require.Equal(t, ranv1.ReasonBatchInProgress, status.Wait.Reason)
		require.Equal(t, "Precaching is in progress for 1 clusters", messageOf(status, ranv1.ConditionPrecachingSucceeded))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 12*time.Minute)
	runPrepared(w)
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, ranv1.ClusterCancelled, workflowtest.StatusOfCluster(status, "c1").State)
	require.Equal(t, []string{"+c2", "-c2"}, clusters.EventsInOrder())
	removed := w.InputsOf("RemoveClusterJob")
	require.Equal(t, w.PrecachingJobs()[len(w.PrecachingJobs())-1].Preparation, removed[len(removed)-1].(jobs.ClusterJob).Preparation, "its Job is stopped")
}

func TestARolloutThatChargesOfflineClustersWaitsForTheirJobs(t *testing.T) {
	w, clusters := lateWorld(t, nil, []string{"c1"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.InputsOf("AwaitAvailabilityChange"))
		require.Empty(t, clusters.EventsInOrder())
		require.Equal(t, "Precaching", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 30*time.Minute)
	runPrepared(w, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.OfflineAction = ranv1.OfflineFail })
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

func TestARolloutThatIsNotEnabledWaitsForOfflineClusters(t *testing.T) {
	w, clusters := lateWorld(t, nil, []string{"c1"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "Precaching is in progress for 1 clusters", messageOf(workflowtest.StatusOf[workflowtest.GroupStatus](w), ranv1.ConditionPrecachingSucceeded))
		require.Empty(t, w.InputsOf("AwaitAvailabilityChange"))
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c2", "-c2"}, clusters.EventsInOrder())
		w.ComeBack("c1")
	}, 40*time.Minute)
	runPrepared(w, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(bool) })
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, rollouts.AvailabilityWatch{Clusters: []string{"c1", "c2"}}, w.InputsOf("AwaitAvailabilityChange")[0])
	require.Equal(t, []string{"+c2", "-c2", "+c1", "-c1"}, clusters.EventsInOrder())
}
