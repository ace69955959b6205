package workflows

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

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// plannedOnly is a rollout with precaching that is not enabled.
func plannedOnly() ranv1.ClusterGroupUpgrade {
	object := aRollout()
	object.Spec.PreCaching, object.Spec.Enable = true, new(bool)
	return object
}

// edit asks for a change of the rollout that is only planned.
func (w *world) edit(change func(*ranv1.ClusterGroupUpgradeSpec)) *asked {
	spec := plannedOnly().Spec
	change(&spec)
	return w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: spec})
}

// precachings are the Jobs that pull, in the order in which they were asked for.
func (w *world) precachings() []activities.ClusterJob {
	var jobs []activities.ClusterJob
	for _, in := range w.inputsOf("RunClusterJob") {
		jobs = append(jobs, in.(activities.ClusterJob))
	}
	return jobs
}

func TestPrecachingThatIsEditedAwayStopsAndIsForgotten(t *testing.T) {
	w, clusters := newPreparedWorld(t, nil, []string{"c1", "c2"})
	w.blocked["RunClusterJob"] = true
	w.RegisterDelayedCallback(func() {
		w.edit(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching = false })
	}, time.Hour/2)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		require.Nil(t, status.Precaching)
		require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionPrecachingSucceeded))
		require.Equal(t, ranv1.ReasonNotEnabled, status.Wait.Reason)
		require.Len(t, w.inputsOf("RemoveClusterJob"), 2, "the Jobs are stopped")
		w.SignalWorkflow(temporal.SignalPreparationProgress, PreparationProgress{
			Preparation: w.precachings()[0].Preparation, Clusters: map[string]precache.Progress{"c1": {State: ranv1.PreparationActive}},
		})
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	requireCondition(t, requireResult[groupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Len(t, clusters.story(), 4)
}

// The Jobs that are at work while what is to be pulled is another take their time to stop, and say something meanwhile.
func TestWhatIsPulledInsteadIsNotTakenForWhatWasPulledBefore(t *testing.T) {
	w, _ := newPreparedWorld(t, nil, []string{"c1", "c2"})
	w.blocked["RunClusterJob"] = true
	w.OnActivity("RemoveClusterJob", mock.Anything, mock.Anything).After(30 * time.Second).Return(nil)
	w.RegisterDelayedCallback(func() {
		w.plan.Precaching = &ranv1.PrecachingSpec{SpaceRequired: "50"}
		w.edit(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "other"} })
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalPreparationProgress, PreparationProgress{
			Preparation: w.precachings()[0].Preparation, Clusters: map[string]precache.Progress{"c1": {State: ranv1.PreparationSucceeded}},
		})
	}, 10*time.Minute+time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, map[string]ranv1.PreparationState{"c1": "PreparingToStart", "c2": "PreparingToStart"}, statusOf[groupStatus](w).Precaching.Status)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 10*time.Minute+2*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	requireCancelled[groupStatus](w)

	jobs := w.precachings()
	require.Len(t, jobs, 4, "each cluster begins anew while the Job before is being stopped")
	for i, job := range jobs {
		before := i < 2
		require.Equal(t, map[bool]string{true: "35", false: "50"}[before], job.Work.Spec.SpaceRequired)
		require.Equal(t, before, job.Preparation == jobs[0].Preparation, "Jobs are named after it")
	}
}

func TestAConfigurationThatWasMendedIsPulledWhereTheOldOneFailed(t *testing.T) {
	w, _ := newPreparedWorld(t, map[string]error{"precaching c1": jobFailed("no such image")}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.jobs = nil
		w.plan.PreCacheImage = "pull:2"
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	require.EqualValues(t, 2, requireResult[groupStatus](w).Counts.Complete)
	jobs := w.precachings()
	require.Len(t, jobs, 4)
	require.NotEqual(t, jobs[0].Preparation, jobs[3].Preparation)
}

func TestAPlanThatNeedsNoPrecachingIsNotJudgedByOneThatDid(t *testing.T) {
	w, _ := newPreparedWorld(t, nil, []string{"c1"})
	good := w.plan
	w.plan = planOf()
	w.plan.JudgePrecaching("nothing to pull", w.Now())
	w.RegisterDelayedCallback(func() {
		require.Contains(t, messageOf(statusOf[groupStatus](w), ranv1.ConditionProgressing), "nothing to pull")
		w.plan = good
		w.edit(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching, spec.Enable = false, nil })
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	status := requireResult[groupStatus](w)
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionPrecacheSpecValid))
}

func TestClustersThatWereEditedOutOfThePlanDoNotCount(t *testing.T) {
	w, _ := newPreparedWorld(t, map[string]error{"precaching c2": jobFailed("no room")}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.plan.RemediationPlan = [][]string{{"c1"}}
		w.plan.Skipped = []rollout.SkippedCluster{{Cluster: "c2"}}
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	status := requireResult[groupStatus](w)
	requireCondition(t, status, ranv1.ConditionPrecachingSucceeded, metav1.ConditionTrue, ranv1.ReasonPrecachingCompleted)
	require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded"}, status.Precaching.Status)
}

func TestAPlanThatCannotBeCarriedOutForAWhileCostsNoPrecaching(t *testing.T) {
	w, _ := newPreparedWorld(t, nil, []string{"c1"})
	good := w.plan
	w.RegisterDelayedCallback(func() {
		w.plan = planWithoutClusters("cluster c9 not found")
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		w.plan = good
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	requireResult[groupStatus](w)
	require.Len(t, w.precachings(), 1)
}

func TestARolloutThatIsEnabledWhileItIsPrecachedIsPlannedOnceMore(t *testing.T) {
	w, clusters := newPreparedWorld(t, nil, []string{"c1"})
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(10 * time.Minute).Return(nil)
	var enabled groupStatus
	w.RegisterDelayedCallback(func() {
		w.plan.RemediationPlan = [][]string{{"c1"}, {"c2"}}
		w.SignalWorkflow(temporal.SignalEnable, nil)
	}, 5*time.Minute)
	w.RegisterDelayedCallback(func() { enabled = statusOf[groupStatus](w) }, 6*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	status := requireResult[groupStatus](w)
	require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
	require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.story())
	require.Len(t, w.inputsOf("PlanRollout"), 2)
	require.Nil(t, meta.FindStatusCondition(enabled.Conditions, ranv1.ConditionProgressing), "it does not say that it is not enabled")
	require.Equal(t, "Precaching", enabled.Wait.Reason)
}

func TestARolloutOfWhichNoClusterCouldBePrecachedWaitsForNobodyAndMakesNoBackup(t *testing.T) {
	w, _ := newPreparedWorld(t, map[string]error{"precaching c1": jobFailed("x")}, []string{"c1"})
	w.blocked["AwaitBlockers"] = true
	object := prepared(blockedRollout())
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	status := requireFailure[groupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, "Failed on 1 of 1 clusters; failed: c1", messageOf(status, ranv1.ConditionSucceeded))
	require.Nil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionBackupSucceeded))
}

func TestAClusterThatIsHeldIsNeitherPrecachedNorBackedUp(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		t.Run(string(kind), func(t *testing.T) {
			w, clusters := newPreparedWorld(t, nil, []string{"c1", "c2"})
			w.held = emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldCluster("c2")}}}
			object := aRollout()
			object.Spec.PreCaching, object.Spec.Backup = kind == precache.Precaching, kind == precache.Backup
			var held groupStatus
			w.RegisterDelayedCallback(func() {
				held = statusOf[groupStatus](w)
				require.Equal(t, []string{"c1"}, w.jobsOf(kind), "the other goes on")
				w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
			}, 10*time.Hour)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
			requireResult[groupStatus](w)
			require.Equal(t, []string{"c1", "c2"}, w.jobsOf(kind))
			require.Len(t, clusters.story(), 4)
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

func TestWhileItIsNotKnownWhatIsHeldNothingIsPrecached(t *testing.T) {
	w, _ := newPreparedWorld(t, nil, []string{"c1"})
	w.untold = true
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.precachings())
		require.Equal(t, emergency.ReasonUnknown, statusOf[groupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 1})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.precachings(), 1)
		require.Equal(t, ranv1.ReasonNotEnabled, statusOf[groupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: plannedOnly()})
	requireCancelled[groupStatus](w)
}

func TestPausedNoOtherClusterIsBackedUp(t *testing.T) {
	var many []string
	for i := range preparationsAtOnce*preparedTogether + 1 {
		many = append(many, fmt.Sprintf("c%04d", i))
	}
	w, _ := newPreparedWorld(t, nil, slices.Collect(slices.Chunk(many, preparedTogether))...)
	object := aRollout()
	object.Spec.Backup = true
	var begun atomic.Int32
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).After(10 * time.Minute).Return(func(context.Context, activities.ClusterJob) error {
		begun.Add(1)
		return nil
	})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, time.Minute)
	w.RegisterDelayedCallback(func() {
		require.EqualValues(t, preparationsAtOnce*preparedTogether, begun.Load(), "those at work finish")
		require.Equal(t, "Paused", statusOf[groupStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "BackingUp", statusOf[groupStatus](w).Wait.Reason)
	}, time.Hour+time.Minute)
	w.RegisterDelayedCallback(func() {
		require.EqualValues(t, len(many), begun.Load())
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour+10*time.Minute+30*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireCancelled[groupStatus](w)
}
