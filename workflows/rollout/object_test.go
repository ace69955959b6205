package rollout_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

const objectUID = "7c2e9c76-0c1a-4a55-9f5e-2f8f3a9c7d10"

// objectRollout is a rollout that a ClusterGroupUpgrade on the hub requested.
func objectRollout(enabled bool) rolloutworkflow.Input {
	object := workflowtest.ARollout()
	object.Spec.Enable = &enabled
	return rolloutworkflow.Input{Object: object, Source: &temporal.Object{
		APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade", Namespace: object.Namespace, Name: object.Name, UID: objectUID,
	}}
}

// sendObject sends the request of the object of objectRollout with a change.
func sendObject(w *workflowtest.World, enabled bool, change func(*rolloutworkflow.ObjectRequest)) func() {
	return func() {
		request := rolloutworkflow.ObjectRequest{UID: objectUID, Generation: 2, Spec: objectRollout(enabled).Object.Spec}
		change(&request)
		w.SignalWorkflow(temporal.SignalObject, request)
	}
}

// eventsOnObject returns the reasons of the Events on the object.
func eventsOnObject(w *workflowtest.World) []string {
	var reasons []string
	for _, event := range w.PublishedEvents() {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

// shownStatus is what the object shows.
func shownStatus(t *testing.T, w *workflowtest.World) ranv1.ClusterGroupUpgradeStatus {
	t.Helper()
	answer, err := w.QueryWorkflow(temporal.QueryObjectStatus)
	require.NoError(t, err)
	var status ranv1.ClusterGroupUpgradeStatus
	require.NoError(t, answer.Get(&status))
	return status
}

func TestAPatchOfEnableStartsTheRolloutOfAnObject(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.EachMinute(
		func() {
			status := shownStatus(t, w)
			workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotEnabled)
			require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
		},
		sendObject(w, true, func(*rolloutworkflow.ObjectRequest) {}),
	)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(false))
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	status := shownStatus(t, w)
	require.EqualValues(t, 2, status.Conditions[0].ObservedGeneration)
	require.Zero(t, status.Status.CurrentBatch)
	published := w.Published()
	require.True(t, published[len(published)-1].Final)
	require.Equal(t, []string{
		ranv1.EventCreated, ranv1.EventStarted, ranv1.EventStarted, ranv1.EventSuccess, ranv1.EventStarted, ranv1.EventSuccess, ranv1.EventSuccess,
	}, eventsOnObject(w))
}

func TestTheRolloutOfAnObjectWaitsUntilTheHubHasWhatThePlanLacks(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	valid := w.Plan
	w.Plan.RemediationPlan, w.Plan.Digest = nil, "first"
	w.Plan.Conditions = []metav1.Condition{{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionFalse, Reason: ranv1.ReasonClusterNotFound, Message: "Unable to select clusters: c1"}}
	var waiting []byte
	w.RegisterActivityWithOptions(func(ctx context.Context, in rollouts.AwaitOtherPlanInput) error {
		require.Equal(t, "first", in.Digest)
		waiting = activity.GetInfo(ctx).TaskToken
		return activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitOtherPlan"})
	w.EachMinute(func() {
		status := shownStatus(t, w)
		workflowtest.RequireCondition(t, status, ranv1.ConditionClustersSelected, metav1.ConditionFalse, ranv1.ReasonClusterNotFound)
		workflowtest.RequireCondition(t, status, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonInvalidPlan)
		require.Equal(t, []string{ranv1.EventCreated, ranv1.EventValidationFailure}, eventsOnObject(w))
		w.Plan = valid
		require.NoError(t, w.CompleteActivity(waiting, nil, nil))
	})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
}

func TestARolloutThatWaitsForAPlanContinuesAsNew(t *testing.T) {
	first, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	valid := first.Plan
	first.Plan.RemediationPlan = nil
	first.Plan.Conditions = []metav1.Condition{{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionFalse, Reason: ranv1.ReasonClusterNotFound}}
	first.EachMinute(func() {
		first.SetContinueAsNewSuggested(true)
		sendObject(first, true, func(r *rolloutworkflow.ObjectRequest) { r.Generation, r.Spec.Clusters = 3, []string{"c2"} })()
	})
	first.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	in := workflowtest.NextRunInput[rolloutworkflow.Input](first)
	require.NotNil(t, in)
	require.Equal(t, []string{"c2"}, in.Object.Spec.Clusters, "a rollout without a valid plan may be edited")

	second, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	second.Plan = valid
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](second), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.EqualValues(t, 3, shownStatus(t, second).Conditions[0].ObservedGeneration)
	require.NotContains(t, eventsOnObject(second), ranv1.EventCreated)
}

// refuseWrites lets the API server refuse the status for a time.
func refuseWrites(w *workflowtest.World, during time.Duration) (accepted time.Time) {
	accepted = w.Now().Add(during)
	w.Fail["PublishStatus"] = func(int) error {
		if w.Now().Before(accepted) {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub refuses the status", nil)
		}
		return nil
	}
	return accepted
}

func TestARolloutWorksOnWhileItsStatusIsRefused(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	accepted := refuseWrites(w, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "-c1", "+c2", "-c2"}, clusters.Events)
		workflowtest.RequireCondition(t, shownStatus(t, w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	}, 20*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.False(t, w.Now().Before(accepted), "the rollout ends when its last status is written")
	written := w.Published()
	last := written[len(written)-1]
	require.True(t, last.Final)
	var reasons []string
	for _, event := range last.Events {
		reasons = append(reasons, event.Reason)
	}
	require.Equal(t, []string{
		ranv1.EventCreated, ranv1.EventStarted, ranv1.EventStarted, ranv1.EventSuccess, ranv1.EventStarted, ranv1.EventSuccess, ranv1.EventSuccess,
	}, reasons, "none of them is lost")
}

func TestARolloutContinuesAsNewWhileItsStatusIsRefused(t *testing.T) {
	first, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := first.Now()
	refuseWrites(first, 10*time.Hour)
	clusters.Outcomes["c1"] = workflowtest.Takes(10 * time.Minute)
	first.RegisterDelayedCallback(func() { first.SetContinueAsNewSuggested(true) }, 5*time.Minute)
	first.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	in := workflowtest.NextRunInput[rolloutworkflow.Input](first)
	require.NotNil(t, in)
	require.Less(t, first.Now().Sub(start), time.Hour, "it does not wait for the write")
	require.EqualValues(t, len(in.PreviousRun.Publisher.Events), in.PreviousRun.Publisher.LastEvent, "the next run records the Events")

	second, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
	workflowtest.RequireResult[workflowtest.GroupStatus](second)
	require.Equal(t, ranv1.EventCreated, eventsOnObject(second)[0])
}

func TestTheRolloutOfAnObjectWaitsForAHubThatCannotPlan(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	missing := temporal.Error(temporal.ErrNotFound, "the hub does not serve ManagedClusters", nil)
	w.Fail["PlanRollout"] = workflowtest.Once(missing)
	w.Fail["AwaitOtherPlan"] = workflowtest.Always(missing)
	workflowtest.Simulate(w, "AwaitOtherPlan", func(rollouts.AwaitOtherPlanInput) any { return nil })
	w.RegisterDelayedCallback(func() {
		condition := meta.FindStatusCondition(shownStatus(t, w).Conditions, ranv1.ConditionValidated)
		require.Equal(t, temporal.ErrNotFound, condition.Reason)
		require.Equal(t, "the hub does not serve ManagedClusters", condition.Message)
	}, time.Second*30)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
}

func TestADeletedObjectCancelsItsRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.Takes(time.Hour)
	w.EachMinute(
		func() {
			require.Equal(t, map[string]*ranv1.RemediationProgress{"c1": {State: ranv1.RemediationInProgress}}, shownStatus(t, w).Status.CurrentBatchRemediationProgress)
		},
		sendObject(w, true, func(r *rolloutworkflow.ObjectRequest) { r.Deleted = true }),
	)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "the ClusterGroupUpgrade was deleted")
	published := w.Published()
	require.True(t, published[len(published)-1].Final)
}

func TestAnEditOfARunningObjectChangesOnlyTheTimeout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.Takes(90 * time.Minute)
	var edited *workflowtest.UpdateResult
	w.EachMinute(
		sendObject(w, false, func(r *rolloutworkflow.ObjectRequest) {
			r.Spec.RemediationStrategy.Timeout, r.Spec.Clusters = 120, []string{"c1", "c2"}
		}),
		sendObject(w, true, func(r *rolloutworkflow.ObjectRequest) {
			r.Generation, r.InvalidSpec, r.Spec.RemediationStrategy.Timeout = 3, "spec.clusters[0]: Required value", 1
		}),
		func() {
			edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: objectRollout(true).Object.Spec})
		},
	)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{
		"the rollout is enabled, so edits of these fields have no effect: spec.clusters",
		"the edit of the ClusterGroupUpgrade is ignored: spec.clusters[0]: Required value",
	}, status.Notes)
	require.ErrorContains(t, edited.Rejected, "ClusterGroupUpgrade ops/june of the hub")
}

func TestARetryShowsOnItsObjectIfThatStillExists(t *testing.T) {
	for name, found := range map[string]objects.Request{"gone": {Gone: true}, "ended": {Reasons: map[string]string{"Succeeded": "TimedOut"}}} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
			workflowtest.Simulate(w, "ReadRequest", func(temporal.Object) any { return found })
			w.LoadedRollout.Object = workflowtest.ARollout()
			w.LoadedRollout.Object.Status = ranv1.ClusterGroupUpgradeStatus{
				RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterPending}},
			}
			in := objectRollout(true)
			in.Retry = &rollout.RetryRequest{}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
			workflowtest.RequireCondition(t, workflowtest.RequireResult[workflowtest.GroupStatus](w), ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
			require.Equal(t, !found.Gone, len(w.InputsOf("PublishStatus")) > 0)
		})
	}
}

func TestARolloutOfAnObjectThatIsGoneOrHasEndedTouchesNothing(t *testing.T) {
	for name, found := range map[string]objects.Request{"gone": {Gone: true}, "ended": {Reasons: map[string]string{"Succeeded": "Completed"}}} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
			workflowtest.Simulate(w, "ReadRequest", func(temporal.Object) any { return found })
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, objectRollout(true))
			workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
			require.Empty(t, w.InputsOf("PublishStatus"))
			require.Empty(t, w.InputsOf("PlanRollout"))
			require.Empty(t, w.InputsOf("SaveRollout"))
		})
	}
}
