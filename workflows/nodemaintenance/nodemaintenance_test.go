package nodemaintenance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAMaintenanceRunsItsStepsInOrder(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AwaitNodeLocks", "Cordon", "AwaitPodCompletion", "Drain", "RunJob",
		"AwaitNodeHealthy", "ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance",
	}, w.Called())
	require.Nil(t, w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Deadline, "without a timeout")
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.Equal(t, w.Inputs["RunJob"][0].(jobs.RunJobInput).Job, returned.FinishedJob.Job, "the Job succeeded")
	require.True(t, returned.Withdraw)
	require.Equal(t, []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon, maintenancev1.NodeWaitForPodCompletion,
		maintenancev1.NodeDraining, maintenancev1.NodeReady, maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp, maintenancev1.NodeCompleted,
	}, workflowtest.States(status))
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
		require.NotNil(t, stage.FinishedAt, stage.Stage)
	}
	require.Nil(t, status.Wait)
}

func TestOptionalStepsAreSkipped(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.WaitForPodCompletion, in.Object.Spec.DrainSpec = nil, nil
	in.Object.Spec.Cordon = new(bool)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AnnounceState", "AwaitNodeHealthy", "ReturnNode",
	}, w.Called())
	require.False(t, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).Cordon)
}

func TestACancelInAnyStepUndoesTheCompletedSteps(t *testing.T) {
	returned := []string{"ReturnNode"}
	relocked := append(slices.Clone(returned), "AwaitNodeLocksActive", "WithdrawClusterMaintenance")
	for _, tc := range []struct {
		step string
		undo []string
	}{
		{"PlanMaintenance", append([]string{"LocateCluster"}, returned...)},
		{"AwaitNodeLocks", relocked},
		{"AwaitPodCompletion", relocked},
		{"Drain", relocked},
		{"RunJob", append([]string{"RemoveJob"}, relocked...)},
		{"AwaitNodeHealthy", relocked},
	} {
		for _, by := range []string{"signal", "Temporal"} {
			t.Run(tc.step+" by "+by, func(t *testing.T) {
				w := workflowtest.NewWorld(t)
				w.Locked = true
				w.Blocked[tc.step] = true
				w.RegisterDelayedCallback(func() {
					if by == "signal" {
						w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
					} else {
						w.CancelWorkflow()
					}
				}, time.Minute)
				w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

				status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				called := w.Called()
				require.Equal(t, tc.undo, called[slices.Index(called, tc.step)+1:])
				require.True(t, w.Scheduler.State.Empty(), "its slot is released")
			})
		}
	}
}

func TestACancelSucceedsWhileTheClusterIsUnreachable(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestADeletedNodeEndsItsMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrNodeGone, "node n1 was deleted", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Equal(t, maintenancev1.NodeGone, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeGone).State)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Withdraw)
	require.True(t, w.Scheduler.State.Empty(), "its slot is released")
}

func TestEachStepUsesTheUIDOfTheCordonedNode(t *testing.T) {
	for _, locked := range []bool{true, false} {
		w := workflowtest.NewWorld(t)
		w.Locked = locked
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

		workflowtest.RequireResult[workflowtest.NodeStatus](w)
		completion := w.Inputs["AwaitPodCompletion"][0].(drain.AwaitPodCompletionInput)
		require.EqualValues(t, workflowtest.NodeUID, completion.NodeUID)
		require.Equal(t, &maintenancev1.DrainSpec{}, completion.Drain, "the wait skips the pods that the drain skips")
		require.True(t, completion.Cordoned)
		require.EqualValues(t, workflowtest.NodeUID, w.Inputs["Drain"][0].(drain.Input).NodeUID)
		require.EqualValues(t, workflowtest.NodeUID, w.Inputs["RunJob"][0].(jobs.RunJobInput).NodeUID)
	}
}

func TestARetriedActivityIsShownInTheStatus(t *testing.T) {
	tests := []struct {
		name            string
		err             error
		reason, message string
	}{
		{
			name: "refused", err: temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: connection refused", nil),
			reason: temporal.ErrClusterUnreachable, message: "acquire n1: cluster c1: connection refused",
		},
		{
			name: "timed out", err: sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil),
			reason: "TimeoutStartToClose", message: "acquire n1: every attempt timed out after 10s",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Fail["AcquireNode"] = func(call int) error {
				if call <= 3*kit.RoundAttempts {
					return test.err
				}
				return nil
			}
			message := ""
			w.When(func() bool {
				wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
				return wait != nil && wait.Reason == test.reason
			}, func() { message = workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message })
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

			require.Nil(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Wait)
			require.Equal(t, test.message, message, "the status shows the error while the node cannot be cordoned")
		})
	}
}

func TestReportsOfEarlierActivitiesAreIgnored(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	blocked := &drydockv1.Wait{Reason: "DisruptionBudget", Message: "budget shop/web allows 0"}
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeDraining
	}, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Wait: blocked, Drain: &maintenancev1.DrainStatus{EvictionPods: 2}})
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitNodeLocks", Wait: &drydockv1.Wait{Reason: "Stale"}})
	})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, "DisruptionBudget", status.Wait.Reason)
		require.Equal(t, int32(2), status.Drain.EvictionPods)
		w.CancelWorkflow()
	}, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func ptr[T any](v T) *T { return &v }
