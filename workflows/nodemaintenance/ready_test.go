package nodemaintenance_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheRequestorKeepsTheNodeUntilDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State)
		require.Equal(t, "AwaitingRequestor", status.Wait.Reason)
		require.True(t, status.ReadyForRequestors)
		require.NotContains(t, w.Called(), "ReturnNode")
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Actor: "driver"})
	}, 24*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.False(t, status.ReadyForRequestors)
}

func TestANodeWithoutRequestorWorkIsReturnedImmediately(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Contains(t, workflowtest.States(workflowtest.RequireResult[workflowtest.NodeStatus](w)), maintenancev1.NodeReady)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestAFailedNodeIsKeptUntilItRecovers(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, status.State)
		require.Contains(t, status.Wait.Message, "no firmware")
		w.SignalWorkflow(temporal.SignalRecover, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeReady, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		w.SignalWorkflow(temporal.SignalDone, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestARepeatedDoneHasNoEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitNodeHealthy"] = true
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeHealthChecks), temporal.SignalDone, nil)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeHealthChecks, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		w.CancelWorkflow()
	}, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestACancelAfterAFailureEndsAsAFailure(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Contains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, "RequestorFailed").Failure.Message, "no firmware")
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
}

func TestRecoverAfterTheReturnHasNoEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	w.Fail["AwaitNodeHealthy"] = workflowtest.Always(temporal.Error(temporal.ErrHealthGateFailed, "node n1 is not ready", nil))
	w.Fail["ReturnNode"] = func(call int) error {
		if call <= 2*kit.RoundAttempts {
			return errors.New("not yet")
		}
		return nil
	}
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, nil)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeCleaningUp), temporal.SignalRecover, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrHealthGateFailed)
}

func TestDoneBeforeReadyReturnsTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeDraining), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "ReturnNode")
}
