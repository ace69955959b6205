package nodemaintenance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestThePreflightIsReportedBeforeTheCordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "PlanMaintenance", func(in node.PlanMaintenanceInput) any {
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, in.Preflight.Drain)
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.WaitForPodCompletion, in.Preflight.Completion)
		return node.PlanMaintenanceResult{Warning: "its drain would fail"}
	})
	workflowtest.Simulate(w, "AcquireNode", func(in node.AcquireNodeInput) any {
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, in.Preflight.Drain)
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}, Warning: "its drain would wait"}
	})
	w.Fail["Cordon"] = workflowtest.Always(temporal.Error(temporal.ErrPodsNotEvictable, "node n1 is not taken out of service: 1 pod without a controller", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrPodsNotEvictable)
	require.Equal(t, []string{"its drain would wait"}, status.Notes, "the latest check replaces an earlier one")
	require.NotContains(t, workflowtest.States(status), maintenancev1.NodeCordon, "it was never cordoned")
	require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, w.Inputs["Cordon"][0].(node.CordonInput).Preflight.Drain)
	require.NotContains(t, w.Called(), "AwaitPodCompletion")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestTheDrainItselfSaysWhatBlocksItOnceItHasBegun(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "PlanMaintenance", func(node.PlanMaintenanceInput) any {
		return node.PlanMaintenanceResult{Warning: "its drain would wait"}
	})
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		return node.AcquireNodeResult{Cordon: &node.CordonResult{CordonedByUs: true, Warning: "its drain would wait"}, Warning: "its drain would wait"}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.NotContains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "its drain would wait")
}

func TestAClusterWithoutLocksGetsNoLockRequest(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AwaitNodeLocks")
	require.NotContains(t, w.Called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.Called(), "Cordon", "AcquireNode cordons it")
}

func TestANodeWithoutLocksNeedsNoWait(t *testing.T) {
	w := workflowtest.NewWorld(t)
	none := locks.NodeLocks{Asked: true, Inactive: true, Active: true}
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		return node.AcquireNodeResult{Locks: none, Cordon: &node.CordonResult{CordonedByUs: true, Note: "the node was cordoned before"}}
	})
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{Locks: none} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AwaitNodeLocks")
	require.NotContains(t, w.Called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.Called(), "Cordon")
	require.True(t, status.CordonedByUs)
	require.Contains(t, status.Notes, "the node was cordoned before")
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
	}
}

func TestANodeDeletedDuringTheWaitIsNotCordoned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Missing = []string{"n1"}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Equal(t, maintenancev1.NodeGone, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeGone).State)
	require.NotContains(t, w.Called(), "AcquireNode")
	require.True(t, w.Scheduler.State.Empty())
}

func TestABusyNodeIsQueuedAgainWithoutLocks(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrNodeBusy, "node n1 is under maintenance by node/c1/ops/other", nil))
	slotFree := false
	w.Fail["AwaitNodeFree"] = func(call int) error { // the node is busy until others may have the slot
		if !slotFree && call < 100 {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil) // retries advance the clock
		}
		return nil
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.When(func() bool { return len(w.Inputs["AwaitNodeFree"]) > 0 && w.Scheduler.State.Empty() }, func() { slotFree = true })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, slotFree, "others may have the slot while the node is busy")
	first, second := w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput), w.Inputs["AwaitNodeLocks"][1].(locks.NodeLockInput)
	require.True(t, second.Deadline.After(*first.Deadline), "the locks have their full timeout again")
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AwaitNodeLocks", "Cordon",
		"WithdrawNodeMaintenance", "WithdrawClusterMaintenance", "AwaitNodeFree", "AcquireNode", "AwaitNodeLocks", "Cordon",
	}, slices.Compact(w.Called())[:12])
}

func TestALockReactivatedBeforeTheCordonIsWaitedForAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = func(call int) error {
		if call <= 4 {
			return temporal.Error(temporal.ErrLockRefused, "lock ceph-n1 is active", nil)
		}
		return nil
	}
	reported := false
	w.When(func() bool {
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
		return wait != nil && wait.Reason == temporal.ErrLockRefused && wait.Message == "lock ceph-n1 is active"
	}, func() { reported = true })
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, reported)
	require.Len(t, w.Inputs["AwaitNodeLocks"], 5)
	require.Equal(t, w.Inputs["AwaitNodeLocks"][0], w.Inputs["AwaitNodeLocks"][1], "the deadline stays")
	require.Len(t, w.Inputs["Cordon"], 5)
	cordon := status.States[slices.Index(workflowtest.States(status), maintenancev1.NodeCordon)]
	released := kit.Stages{Records: &status.Stages}.Stage(maintenancev1.StageNodeWorkloadLocksInactive)
	require.False(t, released.FinishedAt.After(cordon.At.Time), "a completed stage is not changed")
}

func TestTheCordonOfAFasterMaintenanceIsNotReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = workflowtest.Always(temporal.Error(temporal.ErrNodeBusy, "node worker-7 is under maintenance by another", nil))
	w.Blocked["AwaitNodeFree"] = true
	w.OnActivity("ReturnNode", mock.Anything, mock.Anything).Return(node.ReturnNodeResult{LeftCordoned: true}, nil)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.False(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).LeftCordoned)
}
