package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAnEditCanStopPrecaching(t *testing.T) {
	w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1", "c2"})
	w.Blocked["RunClusterJob"] = true
	w.RegisterDelayedCallback(func() {
		w.EditPlanned(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching = false })
	}, time.Hour/2)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Nil(t, status.Precaching)
		require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionPrecachingSucceeded))
		require.Equal(t, ranv1.ReasonNotEnabled, status.Wait.Reason)
		require.Len(t, w.InputsOf("RemoveClusterJob"), 2, "the Jobs are stopped")
		w.SignalWorkflow(temporal.SignalPreparationProgress, rolloutworkflow.PreparationProgress{
			Preparation: w.PrecachingJobs()[0].Preparation, Part: 1, Clusters: map[string]precache.Progress{"c1": {State: ranv1.PreparationActive}},
		})
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Len(t, clusters.EventsInOrder(), 4)
}

// The running Jobs of the former spec stop slowly, and still report progress.
func TestAnotherPrecachingSpecStartsNewJobs(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1", "c2"})
	w.Blocked["RunClusterJob"] = true
	w.OnActivity("RemoveClusterJob", mock.Anything, mock.Anything).After(30 * time.Second).Return(nil)
	w.RegisterDelayedCallback(func() {
		w.Plan.Precaching = &ranv1.PrecachingSpec{SpaceRequired: "50"}
		w.EditPlanned(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "other"} })
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalPreparationProgress, rolloutworkflow.PreparationProgress{
			Preparation: w.PrecachingJobs()[0].Preparation, Part: 1, Clusters: map[string]precache.Progress{"c1": {State: ranv1.PreparationSucceeded}},
		})
	}, 10*time.Minute+time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, map[string]ranv1.PreparationState{"c1": "PreparingToStart", "c2": "PreparingToStart"}, workflowtest.StatusOf[workflowtest.GroupStatus](w).Precaching.Status)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 10*time.Minute+2*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)

	jobs := w.PrecachingJobs()
	require.Len(t, jobs, 4, "each cluster has a new Job while the former one stops")
	for i, job := range jobs {
		before := i < 2
		require.Equal(t, map[bool]string{true: "35", false: "50"}[before], job.Work.Spec.SpaceRequired)
		require.Equal(t, before, job.Preparation == jobs[0].Preparation, "the preparation is part of the name of a Job")
	}
}

func TestACorrectedConfigurationIsPrecachedOnFailedClusters(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, map[string]error{"precaching c1": jobFailed("no such image")}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.Jobs = nil
		w.Plan.PreCacheImage = "pull:2"
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	require.EqualValues(t, 2, workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
	jobs := w.PrecachingJobs()
	require.Len(t, jobs, 4)
	require.NotEqual(t, jobs[0].Preparation, jobs[3].Preparation)
}

func TestAPlanWithoutPrecachingHasNoPrecachingCondition(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	good := w.Plan
	w.Plan = workflowtest.PlanOf()
	w.Plan.JudgePrecaching("nothing to pull", w.Now())
	w.RegisterDelayedCallback(func() {
		require.Contains(t, messageOf(workflowtest.StatusOf[workflowtest.GroupStatus](w), ranv1.ConditionProgressing), "nothing to pull")
		w.Plan = good
		w.EditPlanned(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching, spec.Enable = false, nil })
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionPrecacheSpecValid))
}

func TestClustersRemovedByAnEditDoNotCount(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, map[string]error{"precaching c2": jobFailed("disk full")}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.Plan.RemediationPlan = [][]string{{"c1"}}
		w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c2"}}
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPrecachingCompleted)
	require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded"}, status.Precaching.Status)
}

func TestATemporarilyInvalidPlanKeepsPrecaching(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	good := w.Plan
	w.RegisterDelayedCallback(func() {
		w.Plan = planWithoutClusters("cluster c9 not found")
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.ChangePlan(good) }, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Len(t, w.PrecachingJobs(), 1)
}

func TestEnableDuringPrecachingPlansAgain(t *testing.T) {
	w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(10 * time.Minute).Return(nil)
	var enabled workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() {
		w.Plan.RemediationPlan = [][]string{{"c1"}, {"c2"}}
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 5*time.Minute)
	w.RegisterDelayedCallback(func() { enabled = workflowtest.StatusOf[workflowtest.GroupStatus](w) }, 6*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
	require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.EventsInOrder())
	require.Len(t, w.InputsOf("PlanRollout"), 2)
	require.Nil(t, meta.FindStatusCondition(enabled.Conditions, ranv1.ConditionProgressing), "the condition NotEnabled is removed")
	require.Equal(t, "Precaching", enabled.Wait.Reason)
}

func TestARolloutWithoutPrecachedClustersMakesNoBackup(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, map[string]error{"precaching c1": jobFailed("x")}, []string{"c1"})
	w.Blocked["AwaitBlockers"] = true
	object := prepared(blockedRollout())
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, "Failed on 1 of 1 clusters; failed: c1", messageOf(status, ranv1.ConditionSucceeded))
	require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionBackupSucceeded))
}

func TestAHeldClusterIsNotPrepared(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		t.Run(string(kind), func(t *testing.T) {
			w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1", "c2"})
			w.Holds = emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldCluster("c2")}}}
			object := workflowtest.ARollout()
			object.Spec.PreCaching, object.Spec.Backup = kind == precache.Precaching, kind == precache.Backup
			var held workflowtest.GroupStatus
			w.RegisterDelayedCallback(func() {
				held = workflowtest.StatusOf[workflowtest.GroupStatus](w)
				require.Equal(t, []string{"c1"}, w.JobsOf(kind), "the other cluster continues")
				w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
			}, 10*time.Hour)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			workflowtest.RequireResult[workflowtest.GroupStatus](w)
			require.Equal(t, []string{"c1", "c2"}, w.JobsOf(kind))
			require.Len(t, clusters.EventsInOrder(), 4)
			require.Equal(t, emergency.ReasonHeld, held.Wait.Reason)
			require.Contains(t, held.Wait.Message, "drydock release --cluster c2")
			require.Equal(t, "c2", held.Wait.Blockers[0].Name)
			states := map[precache.Kind]func() map[string]ranv1.PreparationState{
				precache.Precaching: func() map[string]ranv1.PreparationState { return held.Precaching.Status },
				precache.Backup:     func() map[string]ranv1.PreparationState { return held.Backup.Status },
			}
			require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded", "c2": "NotStarted"}, states[kind]())
		})
	}
}

func TestNoClusterIsPrecachedWhileHoldsAreUnknown(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	w.HoldsUnknown = true
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.PrecachingJobs())
		require.Equal(t, emergency.ReasonUnknown, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 1})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.PrecachingJobs(), 1)
		require.Equal(t, ranv1.ReasonNotEnabled, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

func TestAPausedRolloutStartsNoBackup(t *testing.T) {
	var many []string
	for i := range rolloutworkflow.MaxPreparations*rolloutworkflow.ClustersPerPreparation + 1 {
		many = append(many, fmt.Sprintf("c%04d", i))
	}
	w, _ := workflowtest.NewPreparedWorld(t, nil, slices.Collect(slices.Chunk(many, rolloutworkflow.ClustersPerPreparation))...)
	object := workflowtest.ARollout()
	object.Spec.Backup = true
	var begun atomic.Int32
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(10 * time.Minute).Return(func(context.Context, jobs.ClusterJob) error {
		begun.Add(1)
		return nil
	})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() {
		require.EqualValues(t, rolloutworkflow.MaxPreparations*rolloutworkflow.ClustersPerPreparation, begun.Load(), "running backups finish")
		require.Equal(t, "Paused", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "BackingUp", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
	}, time.Hour+time.Minute)
	w.RegisterDelayedCallback(func() {
		require.EqualValues(t, len(many), begun.Load())
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour+10*time.Minute+30*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}
