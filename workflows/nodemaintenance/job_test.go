package nodemaintenance_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestANodeIsNotReadyWhileAJobRuns(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.False(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).ReadyForRequestors)
	}, func() {
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Requestor: "gpu.example.com", Actor: "kim"})
	}, w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "done was sent for gpu.example.com by kim: the node is kept for ops.example.com")
}

func TestAFailedJobKeepsTheNodeUntilACancel(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3; the end of its log:\nno firmware", nil))
	w.EachMinute(func() {
		held := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, held.State)
		require.Contains(t, held.Failure.Message, "no firmware")
		require.Contains(t, held.Wait.Message, "exit code 3; the node is held")
		require.NotContains(t, held.Wait.Message, "no firmware", "the log is shown once")
	}, w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.Equal(t, maintenancev1.NodeFailed, status.State)
	require.NotContains(t, w.Called(), "AwaitNodeHealthy")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestAManuallyFixedJobFailureCompletes(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, temporal.SignalRequest{Actor: "ann"})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Nil(t, status.Failure)
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
}

func TestAFailedJobOfARolloutReturnsTheNodeImmediately(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3", nil))
	in := workflowtest.FullMaintenance()
	in.Parent = "cgu/ops/june/c1"
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.NotContains(t, workflowtest.States(status), maintenancev1.NodeRequestorFailed)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestDoneDuringAJobDoesNotHideItsFailure(t *testing.T) {
	w := workflowtest.NewWorld(t)
	release := make(chan struct{})
	w.Fail["RunJob"] = func(int) error {
		<-release
		return temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil)
	}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "RunJob" {
			w.SignalWorkflow(temporal.SignalDone, nil)
			close(release)
		}
	})
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Contains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed).Notes, "done was sent, but a Job does the work: nothing done")
}

func TestASucceededJobLeavesTheNodeToTheOtherRequestors(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestAJobIsStoppedWhenItsRequestorLeaves(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""), w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.Contains(t, w.Called(), "RemoveJob")
	}, w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Len(t, w.Inputs["RemoveJob"], 1)
}

func TestOtherRequestorsWaitUntilTheStoppedJobIsGone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	attempts := int(2 * nodemaintenance.CleanUpLimit / kit.LaterRetry) // longer than any cleanup
	w.Fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.InputsOf("AnnounceState"), "the node is ready")
		return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, jobs.ReasonJobStopping, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, nodemaintenance.CleanUpLimit)
	w.When(func() bool { return len(w.InputsOf("AnnounceState")) > 0 }, w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.False(t, status.LeftCordoned)
	require.Len(t, w.Inputs["RemoveJob"], attempts+1)
	require.Contains(t, w.Called(), "AwaitNodeHealthy", "a requestor worked on the node")
}

// The pods of a deleted or timed-out Job may still run.
func TestRequestorsWaitUntilAFailedJobIsGone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 timed out", nil))
	attempts := int(2 * nodemaintenance.CleanUpLimit / kit.LaterRetry)
	w.Fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.InputsOf("AnnounceState"), "the node is ready")
		return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalDone, ""), func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State, "done has no effect yet")
		require.Equal(t, jobs.ReasonJobStopping, status.Wait.Reason)
		require.Equal(t, temporal.ErrJobFailed, status.Failure.Reason)
		require.Contains(t, status.Notes, "done was sent for ops.example.com, but a Job does the work: nothing done")
	}, w.Signal(temporal.SignalRecover, ""))
	w.When(func() bool { return len(w.InputsOf("AnnounceState")) > 0 }, func() {
		require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message, "ready for ops.example.com, gpu.example.com; waiting for done")
		w.Signal(temporal.SignalDone, "")()
		w.Signal(temporal.SignalDone, "gpu.example.com")()
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Len(t, w.Inputs["RemoveJob"], attempts+1)
}

func TestTheWaitForARemovedJobIsShownImmediately(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	w.Fail["RemoveJob"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{
				Activity: "RemoveJob", Wait: &drydockv1.Wait{Reason: jobs.ReasonJobStopping, Message: "waiting until its pods are gone: ops/n1-x"},
			})
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil)
		}
		return nil
	}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Less(t, len(w.InputsOf("RemoveJob")), kit.RoundAttempts)
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
		require.NotNil(t, wait)
		require.Equal(t, "waiting until its pods are gone: ops/n1-x", wait.Message)
	}, time.Minute+4*time.Second)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Nil(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).Wait)
}
