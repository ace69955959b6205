package nodemaintenance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
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

// A hold after the drain keeps requestors from the node, but does not keep a node that no requestor wants.
func TestADrainedNodeThatIsHeldReturnsWhenItsRequestorIsDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	duringDrain(w, func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, drydockv1.HoldAll)) })
	w.EachMinute(func() {
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
}

func TestDoneBeforeTheDrainCancels(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitPodCompletion"] = true
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeWaitForPodCompletion), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "ReturnNode")
	require.NotContains(t, w.Called(), "AwaitNodeHealthy", "nothing was disrupted")
}

// duringDrain runs an action during the first attempt of the drain, which then succeeds unless it is cancelled.
func duringDrain(w *workflowtest.World, action func()) {
	release := make(chan struct{})
	w.Fail["Drain"] = func(int) error {
		<-release
		return nil
	}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "Drain" && len(w.InputsOf("Drain")) <= 1 {
			action()
			close(release)
		}
	})
}

// A requestor that follows the conditions of the node may see the end of the drain before the workflow does.
func TestDoneDuringTheDrainTakesEffectWhenTheNodeIsReady(t *testing.T) {
	w := workflowtest.NewWorld(t)
	duringDrain(w, func() { w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Actor: "driver"}) })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, status.Notes, "done was sent by driver during the drain: it takes effect when the node is ready")
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
}
