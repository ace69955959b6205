package nodemaintenance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

const objectUID = "3f9d1b62-0c1a-4a55-9f5e-2f8f3a9c7d10"

// objectMaintenance is a maintenance that a NodeMaintenance in the cluster requested.
func objectMaintenance() nodemaintenance.Input {
	in := workflowtest.RequestorMaintenance()
	in.Object.Generation = 1
	in.Source = &temporal.Object{
		Cluster: in.Cluster, APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance",
		Namespace: in.Object.Namespace, Name: in.Object.Name, UID: objectUID,
	}
	return in
}

func sendRequest(w *workflowtest.World, change func(*nodemaintenance.ObjectRequest)) func() {
	return func() {
		request := nodemaintenance.ObjectRequest{}
		request.UID, request.Generation, request.Spec = objectUID, 1, objectMaintenance().Object.Spec
		change(&request)
		w.SignalWorkflow(temporal.SignalObject, request)
	}
}

// published returns the statuses that were written to the object.
func published(t *testing.T, w *workflowtest.World) []maintenancev1.NodeMaintenanceStatus {
	t.Helper()
	var all []maintenancev1.NodeMaintenanceStatus
	for _, write := range w.Published() {
		text, err := json.Marshal(write.Status)
		require.NoError(t, err)
		var status maintenancev1.NodeMaintenanceStatus
		require.NoError(t, json.Unmarshal(text, &status))
		all = append(all, status)
	}
	return all
}

func TestADeletedObjectReturnsTheReadyNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	deleted := sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Deleted = true })
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), deleted)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	statuses := published(t, w)
	require.Equal(t, maintenancev1.NodeCompleted, statuses[len(statuses)-1].State)
	require.True(t, w.Published()[len(statuses)-1].Final)
	ready := 0
	for _, status := range statuses {
		if meta.IsStatusConditionTrue(status.Conditions, maintenancev1.ConditionReady) {
			ready++
			require.EqualValues(t, 1, status.Conditions[0].ObservedGeneration)
		}
	}
	require.Positive(t, ready)
}

// A last status would be gone with its object.
func TestAnObjectThatIsReleasedWithItsNodeHasNoLastStatus(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReturnNode", func(in node.ReturnNodeInput) any {
		return node.ReturnNodeResult{Uncordoned: true, Released: in.Release != nil}
	})
	w.EachMinute(objectIsDeleted(w))
	in := objectMaintenance()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Equal(t, in.Source, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Release)
	for _, write := range w.Published() {
		require.False(t, write.Final)
	}
}

func TestAnObjectThatIsNotDeletedIsNotReleasedWithItsNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Nil(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Release)
	require.True(t, w.Published()[len(w.Published())-1].Final)
}

// Otherwise nothing says why, and the object stays after its deletion, because nothing removes its finalizer.
func TestAnObjectShowsThatItsRequestWasRefused(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["CheckNodeMaintenance"] = func(int) error {
		return temporal.Error(temporal.ErrInvalidSpec, "spec.action.job: Forbidden: not allowed", nil)
	}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(w.GetWorkflowError()))
	writes, statuses := w.Published(), published(t, w)
	require.NotEmpty(t, statuses)
	last := statuses[len(statuses)-1]
	require.Equal(t, maintenancev1.NodeFailed, last.State)
	require.Contains(t, last.Failure.Message, "spec.action.job")
	require.True(t, writes[len(writes)-1].Final, "a deleted object is released")
	require.Empty(t, w.Inputs["PlanMaintenance"])
}

func TestNoTimerOfAMaintenanceOutlivesIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	open, scheduled := map[string]time.Duration{}, 0
	w.SetOnTimerScheduledListener(func(id string, after time.Duration) {
		scheduled++
		open[id] = after
	})
	w.SetOnTimerFiredListener(func(id string) { delete(open, id) })
	w.SetOnTimerCanceledListener(func(id string) { delete(open, id) })
	w.EachMinute(objectIsDeleted(w))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Positive(t, scheduled)
	require.LessOrEqual(t, len(open), 1)
	for _, after := range open {
		require.Equal(t, time.Hour, after, "only that of a slot request that waited: a cancellation is an event, too")
	}
}

// objectIsDeleted sends the deletion of the object. From then on, no attempt to drain is blocked.
func objectIsDeleted(w *workflowtest.World) func() {
	return func() {
		w.Blocked["Drain"] = false
		sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Deleted = true })()
	}
}

func TestAnObjectThatIsDeletedBeforeTheDrainCancelsItsMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitPodCompletion"] = true
	w.EachMinute(objectIsDeleted(w))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AwaitNodeHealthy", "nothing was disrupted")
	require.Len(t, w.InputsOf("ReturnNode"), 1)
}

// drainUntilDeleted simulates a drain that lasts until its object is deleted. Its last attempt has no time.
func drainUntilDeleted(w *workflowtest.World, last error) {
	w.Blocked["Drain"] = true
	w.Fail["Drain"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return last
	}
}

func TestAnObjectThatIsDeletedDuringTheDrainEndsIt(t *testing.T) {
	timedOut := temporal.Error(temporal.ErrDrainTimedOut, "drain n1: web-0 is blocked", nil)
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("held %v", held), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.SetStartTime(workflowtest.Noon)
			drainUntilDeleted(w, timedOut)
			if held {
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, drydockv1.HoldAll)) }, 30*time.Second)
			}
			w.EachMinute(objectIsDeleted(w))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
			status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
			drains := w.InputsOf("Drain")
			require.Len(t, drains, 2)
			require.Equal(t, workflowtest.Noon.Add(time.Minute), drains[1].(drain.Input).Deadline.UTC(), "nothing more is evicted")
			require.Contains(t, w.Called(), "AwaitNodeHealthy", "pods may have been evicted")
			require.NotContains(t, workflowtest.States(status), maintenancev1.NodeReady)
			require.Equal(t, []string{"the NodeMaintenance was deleted during the drain", "cancelled: the NodeMaintenance was deleted"}, status.Notes)
			require.Len(t, w.InputsOf("ReturnNode"), 1)
		})
	}
}

func TestAnObjectThatIsDeletedWhenItsNodeIsDrainedCompletes(t *testing.T) {
	w := workflowtest.NewWorld(t)
	drainUntilDeleted(w, nil)
	w.EachMinute(objectIsDeleted(w))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
}

func TestADeletedObjectKeepsTheDrainOfItsOtherRequestors(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := objectMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"net.example.com"}
	others := func(deleted bool, ids ...string) func() {
		return sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Deleted, r.Spec.AdditionalRequestors = deleted, ids })
	}
	drainUntilDeleted(w, temporal.Error(temporal.ErrDrainTimedOut, "drain n1: web-0 is blocked", nil))
	w.EachMinute(others(true, "net.example.com"), func() { require.Len(t, w.InputsOf("Drain"), 1) }, others(true))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Len(t, w.InputsOf("Drain"), 2)
}

func TestAnObjectThatIsDeletedDuringItsJobStopsIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := objectMaintenance()
	in.Object.Spec.Action = workflowtest.FullMaintenance().Object.Spec.Action
	w.EachMinute(sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Deleted, r.Spec.Action = true, in.Object.Spec.Action }))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Subset(t, w.Called(), []string{"RemoveJob", "AwaitNodeHealthy", "ReturnNode"})
}

// A Job must still be found to be watched and removed.
func TestAnObjectKeepsItsActionOnceTheWorkHasBegun(t *testing.T) {
	for _, during := range []string{"RunJob", "AwaitNodeHealthy"} {
		t.Run(during, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			in := objectMaintenance()
			in.Object.Spec.Action = workflowtest.FullMaintenance().Object.Spec.Action
			edited := make(chan struct{})
			w.Fail[during] = func(int) error {
				<-edited
				return nil
			}
			w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
				if info.ActivityType.Name == during {
					sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Generation = 2 })() // without the action
					close(edited)
				}
			})
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

			status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.Contains(t, status.Notes, "the edit of spec.action is ignored: the work has begun")
			require.NotNil(t, w.InputsOf("ReturnNode")[0].(node.ReturnNodeInput).FinishedJob, "the Job is removed")
		})
	}
}

func TestAnObjectThatLosesItsActionDuringTheJobStillStopsIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := objectMaintenance()
	in.Object.Spec.Action = workflowtest.FullMaintenance().Object.Spec.Action
	w.EachMinute(sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Generation = 2 }), w.CancelWorkflow)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "RemoveJob")
}

func TestRequestorsOfAnObjectJoinAndLeave(t *testing.T) {
	w := workflowtest.NewWorld(t)
	with := func(others ...string) func() {
		return sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.Generation, r.Spec.AdditionalRequestors = 2, others })
	}
	w.EachMinute(
		with("net.example.com"), w.Signal(temporal.SignalDone, ""), w.RequireNodeKept(maintenancev1.NodeReady),
		with("net.example.com"), w.RequireNodeKept(maintenancev1.NodeReady), with(),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestTheFailureOfARequestorInItsObjectHoldsTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	message := "firmware does not fit"
	w.EachMinute(
		sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.RequestorFailed = &message }),
		func() {
			status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
			require.Equal(t, maintenancev1.NodeRequestorFailed, status.State)
			require.Contains(t, status.Wait.Message, message)
			statuses := published(t, w)
			require.Nil(t, meta.FindStatusCondition(statuses[len(statuses)-1].Conditions, maintenancev1.ConditionRequestorFailed), "the condition is the requestor's")
		},
		sendRequest(w, func(*nodemaintenance.ObjectRequest) {}),
		w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestAMaintenanceOfAnObjectThatIsGoneOrServedTouchesNothing(t *testing.T) {
	for name, found := range map[string]objects.Request{"gone": {Gone: true}, "served": {Reasons: map[string]string{"Ready": string(maintenancev1.NodeCompleted)}}} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			workflowtest.Simulate(w, "ReadRequest", func(temporal.Object) any { return found })
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
			workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
			require.Empty(t, w.InputsOf("PublishStatus"))
			require.Empty(t, w.InputsOf("AcquireNode"))
		})
	}
}

func TestAnObjectThatWasJustHeldIsNotReadAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := objectMaintenance()
	in.Unserved = true
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Empty(t, w.InputsOf("ReadRequest"))
	require.NotEmpty(t, w.Published())
}

func TestASignalOfAnotherObjectWithTheSameNameChangesNothing(t *testing.T) {
	w := workflowtest.NewWorld(t)
	other := sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.UID, r.Deleted = "another", true })
	w.EachMinute(other, w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestTheEventsAndTheReadyTimeOfAnObject(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	var states []string
	annotations := map[string]string{}
	for _, write := range w.Published() {
		maps.Copy(annotations, write.Annotations)
	}
	for _, event := range w.PublishedEvents() {
		require.Equal(t, maintenancev1.EventConditionChanged, event.Reason)
		states = append(states, event.Message)
		require.EqualValues(t, len(states), event.Number)
	}
	require.Equal(t, []string{"Ready", "Completed"}, states, "the object shows no state that is over at once")
	ready, err := time.Parse(time.RFC3339, annotations[maintenancev1.AnnotationReadyTime])
	require.NoError(t, err)
	require.WithinDuration(t, start, ready, time.Minute)
}

func TestAStaleObjectIsCollectedUnlessItsAnnotationForbidsIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600, Collect: true}}
	in := objectMaintenance()
	in.Object.Annotations = map[string]string{maintenancev1.AnnotationKeepStale: "true"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), sendRequest(w, func(*nodemaintenance.ObjectRequest) {}))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	written := w.Published()
	require.True(t, written[len(written)-1].Delete)
}

func TestAnObjectWaitsForPodsThatMayNotBeEvicted(t *testing.T) {
	refused := temporal.Error(temporal.ErrPodsNotEvictable, "pod shop/bare has no controller", nil)
	for name, failing := range map[string]string{"before the cordon": "AcquireNode", "during the drain": "Drain"} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Fail[failing] = func(call int) error {
				if call <= 3 {
					return refused
				}
				return nil
			}
			in := objectMaintenance()
			in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
			shown := false
			w.RegisterDelayedCallback(func() {
				wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
				shown = wait != nil && wait.Reason == temporal.ErrPodsNotEvictable
			}, 2*time.Second)
			w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.True(t, shown)
		})
	}
}

func TestTheCordonOfTheOriginalOperatorIsTakenOver(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := objectMaintenance()
	in.Object.Annotations = map[string]string{maintenancev1.AnnotationFormerlyUnschedulable: "false"}
	w.EachMinute(w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, w.InputsOf("AcquireNode")[0].(node.AcquireNodeInput).TakeOver)
}

func TestAnEditOfAnObjectDrainsAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	w.EachMinute(
		sendRequest(w, func(r *nodemaintenance.ObjectRequest) { r.InvalidSpec = "spec.drainSpec.podSelector: Invalid value" }),
		func() {
			require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Notes[0], "podSelector: Invalid value")
			w.Blocked["Drain"] = false
		},
		sendRequest(w, func(r *nodemaintenance.ObjectRequest) {
			r.Generation, r.Spec.DrainSpec = 2, &maintenancev1.DrainSpec{Force: true}
		}),
		w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "draining again: the request was edited (generation 2)")
	drains := w.InputsOf("Drain")
	require.False(t, drains[0].(drain.Input).Spec.Force)
	require.True(t, drains[len(drains)-1].(drain.Input).Spec.Force)
}

func TestADrainThatIsRemovedFromAnObjectEnds(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	w.EachMinute(
		sendRequest(w, func(r *nodemaintenance.ObjectRequest) {
			r.Spec.DrainSpec = nil
		}),
		w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestAnObjectThatIsGoneEndsItsMaintenanceForAllRequestors(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := objectMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"net.example.com"}
	in.Object.Spec.HealthChecks = []drydockv1.HealthCheck{{Name: "ready", Node: &drydockv1.NodeCheck{}}}
	gone := func() {
		gone := nodemaintenance.ObjectRequest{Gone: true}
		gone.UID, gone.Deleted = objectUID, true
		w.SignalWorkflow(temporal.SignalObject, gone)
	}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), gone)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	checks := w.InputsOf("AwaitNodeHealthy")
	require.Len(t, checks, 1)
	require.Equal(t, in.Object.Spec.HealthChecks, checks[0].(health.AwaitNodeHealthyInput).Checks, "the checks hold although the object is gone")
}

// A drain reports its progress every second here. The count of pods says when a status was written.
func TestAnObjectShowsAReasonToWaitSoonerThanProgress(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	for second := range int32(30) {
		reason := "Evicting"
		if second >= 25 {
			reason = "DisruptionBudget"
		}
		w.RegisterDelayedCallback(func() {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{
				Activity: "Drain", Drain: &maintenancev1.DrainStatus{EvictionPods: 100, Evicted: second},
				Wait: &drydockv1.Wait{Reason: reason, Message: fmt.Sprintf("%d pods have left", second)},
			})
		}, time.Minute+time.Duration(second)*time.Second)
	}
	w.EachMinute(func() {}, objectIsDeleted(w))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, objectMaintenance())
	var evicting, blocked []int32
	for _, status := range published(t, w) {
		switch {
		case status.Drain == nil || status.Wait == nil:
		case status.Wait.Reason == "Evicting":
			evicting = append(evicting, status.Drain.Evicted)
		case status.Wait.Reason == "DisruptionBudget":
			blocked = append(blocked, status.Drain.Evicted)
		}
	}
	require.Len(t, evicting, 3, "at once, then every ten seconds: %v", evicting)
	require.LessOrEqual(t, blocked[0], int32(26), "the reason has changed after 25 s")
}
