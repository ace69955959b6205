package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// currentStatus is the status of a running rollout.
func currentStatus(w *workflowtest.World) workflowtest.GroupStatus {
	return workflowtest.StatusOf[workflowtest.GroupStatus](w)
}

func TestDeferredClustersTakeNoTimeFromOtherBatches(t *testing.T) {
	w, _ := offlineWorld(t, []string{"c1"}, []string{"c1", "c2"}, []string{"c3", "c4"})
	started := w.Now()
	w.When(func() bool { return currentStatus(w).Status.CurrentBatch == 2 }, func() {
		require.WithinDuration(t, started.Add(time.Hour), currentStatus(w).Status.CurrentBatchDeadline.Time, time.Minute)
	})
	runOffline(w)
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonClustersOffline)
}

func TestAnEditWhileAClusterIsDeferredCancelsNoRunningCluster(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"})
	clusters.Outcomes["c1"] = workflowtest.Takes(50 * time.Minute)
	longer := workflowtest.ARollout().Spec
	longer.RemediationStrategy.Timeout = 80
	w.RegisterDelayedCallback(func() { w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer}) }, 45*time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c2") }, 70*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts)
}

func TestARolloutCanBeEditedAfterItsTimeout(t *testing.T) {
	w, _ := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"})
	in := objectRollout(true)
	in.Object.Spec.RemediationStrategy.CatchUp = 60
	send := func(change func(*rolloutworkflow.ObjectRequest)) func() {
		return sendObject(w, true, func(request *rolloutworkflow.ObjectRequest) {
			request.Spec = in.Object.Spec
			change(request)
		})
	}
	w.RegisterDelayedCallback(send(func(*rolloutworkflow.ObjectRequest) {}), 70*time.Minute)
	w.RegisterDelayedCallback(send(func(request *rolloutworkflow.ObjectRequest) {
		request.Spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
	}), 80*time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c2") }, 90*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Empty(t, status.Notes)
	saved := w.InputsOf("SaveRollout")
	require.Equal(t, ranv1.BatchTimeoutAbort, saved[len(saved)-1].(rollouts.SaveRolloutInput).Object.Spec.BatchTimeoutAction)
}

func TestAReturnIsCheckedBeforeTheClusterStarts(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c1"}, []string{"c1"})
	w.RegisterDelayedCallback(func() { // the watch reads an older cache than the lookup
		w.ComeBack("c1")
		w.GoOffline("c1")
	}, 5*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.EventsInOrder())
		require.Equal(t, ranv1.ClusterOffline, workflowtest.StatusOfCluster(currentStatus(w), "c1").State)
		w.ComeBack("c1")
	}, 30*time.Minute)
	runOffline(w)
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestAnOfflineClusterFailsOnlyWhenItsTurnComes(t *testing.T) {
	w, clusters := offlineWorld(t, []string{"c4", "c5"}, []string{"c1", "c2"}, []string{"c3", "c4"}, []string{"c5"})
	clusters.Outcomes["c1"] = workflowtest.Takes(10 * time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c4") }, 30*time.Second)
	runOffline(w, func(strategy *ranv1.RemediationStrategy) {
		strategy.Rollout, strategy.OfflineAction = ranv1.Rolling, ranv1.OfflineFail
	})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(status, "c4").State)
	require.Equal(t, ranv1.ClusterFailed, workflowtest.StatusOfCluster(status, "c5").State)
}

func TestABatchWhoseClustersAreAllDeferredEndsWithItsNumber(t *testing.T) {
	w, _ := offlineWorld(t, []string{"c1", "c2"}, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() {
		w.ComeBack("c1")
		w.ComeBack("c2")
	}, 10*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	var messages []string
	for _, event := range w.PublishedEvents() {
		messages = append(messages, event.Message)
	}
	require.Contains(t, messages, "Batch 1 of 1 ended")
	require.NotContains(t, messages, "Batch 0 of 1 ended")
}

func TestDeferredClustersAreCaughtUpAfterBatchesThatCouldNotStartInTime(t *testing.T) {
	soaking := func(strategy *ranv1.RemediationStrategy) { strategy.CatchUp, strategy.SoakSeconds = 60, 2*60*60 }
	abort := func(object *ranv1.ClusterGroupUpgrade) { object.Spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort }
	for name, test := range map[string]struct {
		change func(*ranv1.ClusterGroupUpgrade)
		states map[string]ranv1.ClusterState
	}{
		"Continue": {func(*ranv1.ClusterGroupUpgrade) {}, map[string]ranv1.ClusterState{
			"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterComplete, "c3": ranv1.ClusterComplete, "c4": ranv1.ClusterTimedOut,
		}},
		"Abort": {abort, map[string]ranv1.ClusterState{
			"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterOffline, "c3": ranv1.ClusterComplete, "c4": ranv1.ClusterPending,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := offlineWorld(t, []string{"c2"}, []string{"c1", "c2"}, []string{"c3", "c4"})
			w.SimulateAfter(80*time.Minute, func() { w.ComeBack("c2") })
			object := workflowtest.ARollout()
			soaking(&object.Spec.RemediationStrategy)
			test.change(&object)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
			require.Equal(t, test.states, workflowtest.ClusterStates(status))
		})
	}
}

// The canary was complete, has relapsed, and could not start again in time.
func TestNothingIsCaughtUpWithoutItsCanary(t *testing.T) {
	carried := &rolloutworkflow.PreviousRun{
		Phase: rolloutworkflow.PhaseBatches, Used: 70 * time.Minute,
		Status: workflowtest.GroupStatus{
			ComputedMaxConcurrency: 1, RemediationPlan: [][]string{{"c1"}, {"c2"}, {"c3"}},
			Status: ranv1.RunStatus{CatchUpBatch: 3, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())},
			Clusters: []ranv1.ClusterStatus{
				{Name: "c1", State: ranv1.ClusterPending, Batch: 1}, {Name: "c2", State: ranv1.ClusterComplete, Batch: 2}, {Name: "c3", State: ranv1.ClusterOffline, Batch: 3},
			},
		},
	}
	w, clusters := offlineWorld(t, []string{"c3"})
	w.SimulateAfter(10*time.Minute, func() { w.ComeBack("c3") })
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.Canaries, object.Spec.RemediationStrategy.CatchUp = []string{"c1"}, 60
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object, PreviousRun: carried})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Empty(t, clusters.Events)
	require.Equal(t, ranv1.ClusterOffline, workflowtest.StatusOfCluster(status, "c3").State)
}
