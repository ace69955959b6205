package rollout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func prepared(object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.PreCaching, object.Spec.Backup = true, true
	return object
}

func jobFailed(message string) error { return temporal.Error(temporal.ErrJobFailed, message, nil) }

func messageOf(s workflowtest.GroupStatus, condition string) string {
	return meta.FindStatusCondition(s.Conditions, condition).Message
}

func TestClustersArePrecachedAndBackedUpBeforeTheFirstBatch(t *testing.T) {
	w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1"}, []string{"c2", "c3"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.ARollout())})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPrecachingCompleted)
	workflowtest.RequireCondition(t, status, ranv1.ConditionBackupSucceeded, metav1.ConditionTrue, ranv1.ReasonBackupCompleted)
	require.Equal(t, []string{"c1", "c2", "c3"}, w.JobsOf(precache.Precaching))
	require.Equal(t, []string{"c1", "c2", "c3"}, w.JobsOf(precache.Backup))
	require.Len(t, w.InputsOf("RemoveClusterJob"), 6)
	all := map[string]ranv1.PreparationState{"c1": "Succeeded", "c2": "Succeeded", "c3": "Succeeded"}
	require.Equal(t, all, status.Precaching.Status)
	require.Equal(t, all, status.Backup.Status)
	require.Len(t, clusters.EventsInOrder(), 6)
	job := w.InputsOf("RunClusterJob")[0].(jobs.ClusterJob)
	require.Equal(t, precache.Work{Kind: precache.Precaching, Image: "pull:1", Spec: &ranv1.PrecachingSpec{SpaceRequired: "35"}, Timeout: time.Hour}, job.Work)
	require.NotEmpty(t, job.Owner)
}

func TestClustersThatCannotBePreparedFail(t *testing.T) {
	failures := map[string]error{
		"precaching c1": jobFailed("disk full"), "backup c3": jobFailed("backup disk full"), "backup c4": temporal.Error(temporal.ErrJobTimedOut, "too slow", nil),
	}
	w, clusters := workflowtest.NewPreparedWorld(t, failures, []string{"c1"}, []string{"c2", "c3"}, []string{"c4", "c5"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.WithActions(workflowtest.ARollout("c1")))})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	workflowtest.RequireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPartiallyDone)
	require.Equal(t, "Precaching failed for 1 clusters; failed: c1", messageOf(status, ranv1.ConditionPrecachingSucceeded))
	workflowtest.RequireCondition(t, status, ranv1.ConditionBackupSucceeded, metav1.ConditionTrue, ranv1.ReasonPartiallyDone)
	require.Equal(t, "Backup failed for 2 clusters; failed: c3, c4", messageOf(status, ranv1.ConditionBackupSucceeded))
	require.Equal(t, []string{"c2", "c3", "c4", "c5"}, w.JobsOf(precache.Backup), "failed clusters are not backed up")
	require.Equal(t, [][]string{{"c2"}, {"c5"}}, status.RemediationPlan)
	require.Equal(t, []string{"+c2", "-c2", "+c5", "-c5"}, clusters.EventsInOrder())
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "failed", "c2": "complete", "c3": "failed", "c4": "failed", "c5": "complete"}, workflowtest.ClusterStates(status))
	for _, c := range status.Clusters {
		switch c.Name {
		case "c1":
			require.Equal(t, "UnrecoverableError: precaching: disk full", c.Reason+": "+c.Message)
		case "c4":
			require.Equal(t, "BackupTimeout: backup: too slow", c.Reason+": "+c.Message)
		case "c5":
			require.EqualValues(t, 2, c.Batch)
		}
	}
	require.Equal(t, []string{"c2", "c5"}, w.LabelledClusters()["begun"], "beforeEnable is for the clusters that are still in the plan")
}

func TestARolloutFailsIfNoClusterIsPrepared(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		t.Run(string(kind), func(t *testing.T) {
			w, clusters := workflowtest.NewPreparedWorld(t, map[string]error{string(kind) + " c1": jobFailed("x"), string(kind) + " c2": jobFailed("y")}, []string{"c1"}, []string{"c2"})
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.ARollout())})
			status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
			workflowtest.RequireCondition(t, status, kind.Condition(), metav1.ConditionFalse, ranv1.ReasonFailed)
			require.Equal(t, "Failed on 2 of 2 clusters; failed: c1, c2", messageOf(status, ranv1.ConditionSucceeded))
			require.Empty(t, clusters.EventsInOrder())
		})
	}
}

func TestPrecachingRunsOnceBeforeEnable(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, map[string]error{"precaching c2": jobFailed("disk full")}, []string{"c1", "c2"})
	object := prepared(workflowtest.ARollout())
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		workflowtest.RequireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPartiallyDone)
		workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled)
		require.Equal(t, ranv1.ReasonNotEnabled, status.Wait.Reason)
		require.Empty(t, w.JobsOf(precache.Backup), "backups are made after enable")
		w.Plan.RemediationPlan = [][]string{{"c1", "c2"}, {"c3"}}
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"c1", "c2", "c3"}, w.JobsOf(precache.Precaching), "a cluster that is new to the plan is precached, too")
	require.Equal(t, [][]string{{"c1"}, {"c3"}}, status.RemediationPlan)
}

func TestPreparationDoesNotCountAgainstTheTimeout(t *testing.T) {
	w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	clusters.Duration = 50 * time.Minute
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(50 * time.Minute).Return(nil)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "BackingUp", status.Wait.Reason)
		workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotStarted)
		require.Equal(t, "Backup is in progress for 1 clusters", messageOf(status, ranv1.ConditionBackupSucceeded))
		require.Nil(t, status.Status.StartedAt)
	}, 80*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.ARollout())})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestPrecachingShowsTheWaitsOfClusters(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1", "c2"})
	w.Blocked["RunClusterJob"] = true
	w.RegisterDelayedCallback(func() {
		require.Equal(t, map[string]ranv1.PreparationState{"c1": "PreparingToStart", "c2": "PreparingToStart"}, workflowtest.StatusOf[workflowtest.GroupStatus](w).Precaching.Status)
		w.SignalWorkflow(temporal.SignalPreparationProgress, rolloutworkflow.PreparationProgress{Preparation: w.PrecachingJobs()[0].Preparation, Part: 1, Clusters: map[string]precache.Progress{
			"c1": {State: ranv1.PreparationActive, Reason: jobs.ReasonJobRunning, Message: "runs"}, "c2": {State: ranv1.PreparationStarting}, "other": {},
		}})
	}, time.Second)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, map[string]ranv1.PreparationState{"c1": "Active", "c2": "Starting"}, status.Precaching.Status)
		require.Equal(t, "Precaching is in progress for 2 clusters", messageOf(status, ranv1.ConditionPrecachingSucceeded))
		require.Equal(t, []drydockv1.Blocker{{Kind: "ManagedCluster", Name: "c1", Reason: "JobRunning", Message: "runs"}}, status.Wait.Blockers)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.ARollout())})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Len(t, w.InputsOf("RemoveClusterJob"), 2, "running Jobs are stopped")
}

func TestAnInvalidPrecachingSpecIsWaitedFor(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, nil)
	w.Plan.JudgePrecaching("spec.overrides: nothing", w.Now())
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "Precaching spec is incomplete: spec.overrides: nothing", messageOf(status, ranv1.ConditionPrecacheSpecValid))
		require.Equal(t, ranv1.ReasonInvalidPlan, status.Wait.Reason)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: prepared(workflowtest.ARollout())})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Empty(t, w.InputsOf("RunClusterJob"))
}

func TestClusterPreparationsAreLimitedInNumber(t *testing.T) {
	var many []string
	for i := range (rolloutworkflow.MaxPreparations+2)*rolloutworkflow.ClustersPerPreparation + 1 {
		many = append(many, fmt.Sprintf("c%04d", i))
	}
	w, _ := workflowtest.NewPreparedWorld(t, nil, many)
	object := workflowtest.ARollout()
	object.Spec.PreCaching = true
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(time.Minute).Return(nil)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 30*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Len(t, w.InputsOf("RemoveClusterJob"), rolloutworkflow.MaxPreparations*rolloutworkflow.ClustersPerPreparation, "only started Jobs")
}

func TestAPreparationReportsTheStateOfEachJob(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunClusterJob"] = true
	progress := func() map[string]precache.Progress { return workflowtest.StatusOf[map[string]precache.Progress](w) }
	observe := func(cluster, reason string) {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Cluster: cluster, Wait: &drydockv1.Wait{Reason: reason, Message: "m"}})
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.PreparationPreparingToStart, progress()["c1"].State)
		observe("c1", jobs.ReasonJobPodPending)
		observe("other", jobs.ReasonJobRunning)
	}, time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, precache.Progress{State: ranv1.PreparationStarting, Reason: jobs.ReasonJobPodPending, Message: "m"}, progress()["c1"])
		observe("c1", jobs.ReasonJobRunning)
	}, 2*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.PreparationActive, progress()["c1"].State)
		w.CancelWorkflow()
	}, 3*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterPreparation, rolloutworkflow.PreparationInput{
		Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rolloutworkflow.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
	})
	require.Equal(t, ranv1.PreparationActive, workflowtest.RequireCancelled[map[string]precache.Progress](w)["c1"].State)
	require.Len(t, w.InputsOf("RemoveClusterJob"), 1)
}

func TestAPreparationContinuesAfterAnOutageOfTheCluster(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RemoveClusterJob"] = workflowtest.Always(errors.New("unreachable"))
	w.ExecuteWorkflow(rolloutworkflow.ClusterPreparation, rolloutworkflow.PreparationInput{
		Work: precache.Work{Kind: precache.Precaching, Timeout: time.Hour}, Clusters: []rolloutworkflow.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
	})
	require.Equal(t, ranv1.PreparationSucceeded, workflowtest.RequireResult[map[string]precache.Progress](w)["c1"].State, "the TTL removes the Job")
}

func TestSkippedClustersGetAfterCompletionIfNoneIsPrepared(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		t.Run(string(kind), func(t *testing.T) {
			w, clusters := workflowtest.NewPreparedWorld(t, map[string]error{string(kind) + " c1": jobFailed("disk full")}, []string{"c1"})
			w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c2", Reason: rollout.ReasonAlreadyCompliant}}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(prepared(workflowtest.ARollout()))})
			workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
			require.Empty(t, clusters.EventsInOrder())
			require.Equal(t, map[string][]string{"done": {"c2"}}, w.LabelledClusters())
		})
	}
}
