package nodemaintenance_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestANodeIsLeftToTheSweeperIfItsJobCannotBeRemoved(t *testing.T) {
	for _, cordon := range []bool{true, false} {
		w := workflowtest.NewWorld(t)
		w.Locked = true
		w.Blocked["RunJob"] = true
		w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x", nil))
		workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
		in := workflowtest.FullMaintenance()
		in.Object.Spec.Cordon = &cordon
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

		status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, jobs.ReasonJobStopping)
		require.Equal(t, maintenancev1.NodeFailed, status.State)
		kept := "the node is kept out of service until its job is gone: job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x"
		require.Equal(t, kept, status.Failure.Message)
		require.Contains(t, status.Notes, kept+"; workflow sweeper/c1 returns it then")
		require.Equal(t, cordon, status.LeftCordoned)
		called := w.Called()
		require.NotContains(t, called[slices.Index(called, "RemoveJob"):], "ReturnNode", "the Job may be writing firmware")
		require.NotContains(t, called, "WithdrawNodeMaintenance", "its locks must not become active yet")
		require.NotContains(t, called, "WithdrawClusterMaintenance")
		require.Equal(t, maintenancev1.NodeFailed, w.Inputs["AnnounceState"][0].(node.AnnounceStateInput).State)
		require.True(t, status.NotReturned)
		released := []scheduling.Release{{Number: 1, Unclean: true, LeftOut: cordon}}
		require.Equal(t, released, w.Scheduler.LastSet().Releases, "the slot is released as unclean")
	}
}

func TestANodeToKeepOnFailureIsMarked(t *testing.T) {
	for _, locked := range []bool{false, true} {
		for onFailure, keep := range map[maintenancev1.FailureAction]bool{maintenancev1.FailureUncordon: false, maintenancev1.FailureKeepCordoned: true} {
			w := workflowtest.NewWorld(t)
			w.Locked, w.Blocked["RunJob"] = locked, true
			w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil))
			workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalCancel, nil)
			in := workflowtest.FullMaintenance()
			in.Object.Spec.OnFailure = onFailure
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

			status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, jobs.ReasonJobStopping)
			require.Equal(t, keep, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).KeepOnFailure)
			if locked {
				require.Equal(t, keep, w.Inputs["Cordon"][0].(node.CordonInput).KeepOnFailure)
			}
			require.Equal(t, keep, strings.HasSuffix(status.Notes[len(status.Notes)-1], "leaves it cordoned, as onFailure requires"), status.Notes)
		}
	}
}

func TestANodeKeptForItsJobReportsTheFailureFirst(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: it was not complete in time", nil))
	w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil))
	workflowtest.SignalWhen(w, func(s workflowtest.NodeStatus) bool { return s.Failure != nil }, temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.True(t, status.LeftCordoned)
	require.NotContains(t, w.Called(), "ReturnNode")
}

func TestALockRequestWithALostReplyIsWithdrawn(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AcquireNode"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Second)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, w.Called()[len(w.Called())-3:])
	for _, stage := range status.Stages {
		require.NotContains(t, stage.Message, "no workload locks")
	}
}

func TestACancelledWaitLeavesTheQueueBeforeItsCleanup(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	over := w.Now().Add(20 * time.Minute)
	w.Fail["ReturnNode"] = func(int) error {
		if w.Now().Before(over) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeCleaningUp, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		require.True(t, w.Scheduler.State.Empty())
	}, 10*time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestAFailedCleanupStepIsReportedAndTheOthersStillRun(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is down"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned)
	require.Contains(t, status.Notes, "could not return n1: the API server is down")
	require.Contains(t, w.Called(), "WithdrawNodeMaintenance")
	require.True(t, status.NotReturned)
	require.Equal(t, maintenancev1.NodeFailed, status.State, "the maintenance fails although its work is done")
	failed := "the node could not be returned: the API server is down; workflow sweeper/c1 keeps trying"
	require.Equal(t, failed, status.Failure.Message)
	announced := w.Inputs["AnnounceState"][0].(node.AnnounceStateInput)
	require.Equal(t, maintenancev1.NodeFailed, announced.State)
	require.Equal(t, "the maintenance has failed: NodeNotReturned: "+failed, announced.Message)
	require.True(t, w.Scheduler.LastSet().Releases[0].Unclean, "the slot is released as unclean")
}

func TestANodeThatCouldNotBeReturnedIsReportedAsCordoned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is down"))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, "the node could not be returned: the API server is down; workflow sweeper/c1 keeps trying to remove its marks, "+
		"and leaves it cordoned, as onFailure requires", workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).Failure.Message)
}

func TestAFailedMaintenanceReportsThatItsNodeIsNotReturned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 2 pods are left", nil))
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is down"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut).NotReturned)
	announced := w.Inputs["AnnounceState"][0].(node.AnnounceStateInput)
	require.Equal(t, "the maintenance has failed: DrainTimedOut: drain n1: 2 pods are left; the node could not be returned", announced.Message)
}

func TestANodeIsReturnedEvenIfItsLockRequestCannotBeWithdrawn(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{Uncordoned: true, NotWithdrawn: true}
	})
	w.Fail["WithdrawNodeMaintenance"] = workflowtest.Always(errors.New("its webhook does not answer"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.False(t, status.NotReturned || status.LeftCordoned)
	require.NotEmpty(t, w.Inputs["WithdrawNodeMaintenance"])
	require.Contains(t, status.Notes, "could not withdraw the request for n1: its webhook does not answer")
}

func TestLocksThatStayInactiveAreReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocksActive"] = nil
	workflowtest.Simulate(w, "AwaitNodeLocksActive", func(locks.NodeLockInput) any {
		return []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "vRouter not ready"}}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "NodeWorkloadLock tf-n1 is not active again: vRouter not ready")
}
