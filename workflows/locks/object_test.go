package locks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/lockcontroller"
	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	locksworkflow "drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/workflowtest"
)

const policyUID = "0a3c8a0e-94f5-4a61-9d8f-6f8d3d0a5a11"

// policyInput is the input of a lock controller that a WorkloadLockPolicy in the cluster started.
func policyInput() locksworkflow.Input {
	in := workflowtest.LockInput()
	in.Source = &temporal.Object{
		Cluster: in.Cluster, APIVersion: drydockv1.GroupVersion.String(), Kind: "WorkloadLockPolicy", Name: "routers", UID: policyUID,
	}
	return in
}

func sendPolicy(w *workflowtest.LockWorld, change func(*locksworkflow.ObjectRequest)) {
	request := locksworkflow.ObjectRequest{UID: policyUID, Generation: 1, Spec: workflowtest.LockInput().Policy.Spec}
	change(&request)
	w.SignalWorkflow(temporal.SignalObject, request)
}

// publishedTo returns the writes to the policy, and the statuses in them.
func publishedTo(t *testing.T, w *workflowtest.LockWorld) (writes []objects.PublishStatusInput, statuses []drydockv1.WorkloadLockPolicyStatus) {
	t.Helper()
	for _, write := range w.Published() {
		text, err := json.Marshal(write.Status)
		require.NoError(t, err)
		var status drydockv1.WorkloadLockPolicyStatus
		require.NoError(t, json.Unmarshal(text, &status))
		writes, statuses = append(writes, write), append(statuses, status)
	}
	return writes, statuses
}

func lastPublished(t *testing.T, w *workflowtest.LockWorld) drydockv1.WorkloadLockPolicyStatus {
	t.Helper()
	_, statuses := publishedTo(t, w)
	require.NotEmpty(t, statuses)
	return statuses[len(statuses)-1]
}

func readyOf(status drydockv1.WorkloadLockPolicyStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, drydockv1.ConditionReady)
	if ready == nil {
		return ""
	}
	return string(ready.Status) + " " + ready.Reason
}

func TestAPolicyShowsItsLocksAndRemovesThemWhenDeleted(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	report := inMaintenance()
	report.Waiting = []string{"n2"}
	w.AddDue(nodeLock("n1", lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady), report)
	workflowtest.Simulate(w.World, "ReleaseWorkloadLocks", func(lockcontroller.ReleaseInput) any { return lockcontroller.ReleaseResult{Removed: 3} })
	w.RegisterDelayedCallback(func() { sendPolicy(w, func(*locksworkflow.ObjectRequest) {}) }, 0)
	w.RegisterDelayedCallback(func() {
		status := lastPublished(t, w)
		require.Equal(t, "True LocksKept", readyOf(status))
		require.EqualValues(t, 1, status.ObservedGeneration)
		require.EqualValues(t, 1, status.Conditions[0].ObservedGeneration)
		require.Equal(t, &drydockv1.LockCounts{Total: 2, Active: 1, Inactive: 1}, status.NodeLocks)
		require.Equal(t, "inactive", status.ClusterLock.State)
		require.Equal(t, []string{"n2"}, status.Waiting)
		require.Equal(t, string(locks.MaxInactiveNodes), status.Wait.Reason)
		require.Equal(t, "1 out of 2 nodes updated", status.Progress.Description)
		require.Equal(t, drydockv1.LockSummary{Node: "n1", Name: "tf-n1", State: "inactive", Reason: string(locks.RequestStands)}, status.Nodes[0])
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.Generation, r.Deleted = 2, true })
	}, time.Minute)
	w.Run(policyInput())
	require.Equal(t, locksworkflow.Released, workflowtest.RequireResult[locksworkflow.Status](w.World).State)
	require.Equal(t, []any{lockcontroller.ReleaseInput{Cluster: "c1", ControllerName: "tf", Policy: *policyInput().Source}}, w.InputsOf("ReleaseWorkloadLocks"))
	writes, _ := publishedTo(t, w)
	require.True(t, writes[len(writes)-1].Final)
	var events []string
	for _, write := range writes {
		for _, event := range write.Events {
			events = append(events, event.Reason+": "+event.Message)
		}
	}
	require.Equal(t, []string{"ClusterLockReleased: the cluster may be maintained", "NodeLocksReleased: n1"}, events)
}

func TestAnEditedPolicyIsFollowedAtOnce(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.RegisterDelayedCallback(func() {
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) {
			r.Generation, r.Spec.NodeSelector.MatchLabels = 2, map[string]string{"router": "true"}
		})
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		applied := w.InputsOf("ApplyWorkloadLocks")
		require.Len(t, applied, 2)
		require.Equal(t, map[string]string{"router": "true"}, applied[1].(lockcontroller.Input).Policy.NodeSelector.MatchLabels)
		require.EqualValues(t, 2, lastPublished(t, w).ObservedGeneration)
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.Generation, r.InvalidSpec = 3, "spec.nodeSelector: bad" })
	}, 2*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.InputsOf("ApplyWorkloadLocks"), 2)
		status := lastPublished(t, w)
		require.Equal(t, "False InvalidSpec", readyOf(status))
		require.Contains(t, status.Conditions[0].Message, "spec.nodeSelector: bad")
		require.EqualValues(t, 3, status.ObservedGeneration)
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.UID, r.Deleted = "another", true })
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.Generation = 4 })
	}, 3*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.InputsOf("ApplyWorkloadLocks"), 3)
		require.Equal(t, "True LocksKept", readyOf(lastPublished(t, w)))
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	}, 4*time.Minute)
	w.Run(policyInput())
	workflowtest.RequireCancelled[locksworkflow.Status](w.World)
	require.Equal(t, "False Cancelled", readyOf(lastPublished(t, w)))
	require.Equal(t, locksworkflow.Cancelled, lastPublished(t, w).State)
	require.Empty(t, w.InputsOf("ReleaseWorkloadLocks"), "the locks stay")
}

func TestAPolicyThatTheClusterCannotEvaluateIsTriedAgain(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call < 3 {
			return temporal.Error(temporal.ErrInvalidSpec, "check routers: kind Router is not served", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		status := lastPublished(t, w)
		require.Equal(t, "False "+temporal.ErrInvalidSpec, readyOf(status))
		require.Equal(t, "check routers: kind Router is not served", status.Conditions[0].Message)
	}, 30*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "True LocksKept", readyOf(lastPublished(t, w)))
		w.CancelWorkflow()
	}, 5*time.Minute)
	w.Run(policyInput())
	workflowtest.RequireCancelled[locksworkflow.Status](w.World)
	require.Len(t, w.InputsOf("ApplyWorkloadLocks"), 3)
}

func TestAnOutageIsShownOnThePolicy(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call < 12 {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { require.Equal(t, "False "+temporal.ErrClusterUnreachable, readyOf(lastPublished(t, w))) }, 55*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "True LocksKept", readyOf(lastPublished(t, w)))
		w.CancelWorkflow()
	}, time.Hour)
	w.Run(policyInput())
	workflowtest.RequireCancelled[locksworkflow.Status](w.World)
}

func TestAControllerWhosePolicyIsGoneRemovesTheLocks(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	workflowtest.Simulate(w.World, "ReadRequest", func(temporal.Object) any { return objects.Request{Gone: true} })
	workflowtest.Simulate(w.World, "ReleaseWorkloadLocks", func(lockcontroller.ReleaseInput) any { return lockcontroller.ReleaseResult{KeptFor: "routers"} })
	w.Run(policyInput())
	status := workflowtest.RequireResult[locksworkflow.Status](w.World)
	require.Equal(t, []string{"the WorkloadLockPolicy was deleted: the locks stay for WorkloadLockPolicy routers"}, status.Notes)
	require.Empty(t, w.InputsOf("ApplyWorkloadLocks"))
}

func TestTheRemovalOfLocksIsRetriedUntilItIsCancelled(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	workflowtest.Simulate(w.World, "ReleaseWorkloadLocks", func(lockcontroller.ReleaseInput) any { return lockcontroller.ReleaseResult{} })
	w.Fail["ReleaseWorkloadLocks"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil))
	w.RegisterDelayedCallback(func() { sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.Deleted = true }) }, time.Minute)
	w.RegisterDelayedCallback(func() {
		status := lastPublished(t, w)
		require.Equal(t, "False Deleted", readyOf(status))
		require.Contains(t, status.Conditions[0].Message, "its API server does not answer")
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	}, time.Hour)
	w.Run(policyInput())
	require.Equal(t, locksworkflow.Cancelled, workflowtest.RequireCancelled[locksworkflow.Status](w.World).State)
	writes, _ := publishedTo(t, w)
	require.True(t, writes[len(writes)-1].Final, "the object is released")
}

func TestALongRunOfAPolicyContinuesAsNewWithItsRequest(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		sendPolicy(w, func(r *locksworkflow.ObjectRequest) { r.Generation, r.Spec.MaxInactiveNodes = 2, new(int32(3)) })
	}, time.Minute)
	w.Run(policyInput())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in locksworkflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.EqualValues(t, 3, *in.Policy.Spec.MaxInactiveNodes)
	require.EqualValues(t, 2, in.CarriedObject.Request.Generation)

	again := workflowtest.NewLockWorld(t)
	again.RegisterDelayedCallback(func() {
		status := lastPublished(t, again)
		require.EqualValues(t, 2, status.ObservedGeneration)
		require.Equal(t, metav1.ConditionTrue, status.Conditions[0].Status)
		require.Equal(t, in.CarriedObject.Conditions[0].LastTransitionTime.Unix(), status.Conditions[0].LastTransitionTime.Unix())
		again.CancelWorkflow()
	}, time.Minute)
	again.Run(in)
	workflowtest.RequireCancelled[locksworkflow.Status](again.World)
	require.Empty(t, again.InputsOf("ReadRequest"))
}
