package nodemaintenance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// lockCycleError is the error of a wait that must yield to an older request.
func lockCycleError() error {
	return temporal.Error(temporal.ErrLockCycle, "the maintenances of n1 and n0 wait for each other's workload locks; this one yields", nil,
		drydockv1.Blocker{Kind: "NodeMaintenanceRequest", Name: "drydock-n0-1234"})
}

func TestAYieldingMaintenanceReleasesLocksAndSlotAndQueuesAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError())
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AwaitNodeLocks",
		"WithdrawNodeMaintenance", "AwaitNodeLocksActive", "WithdrawClusterMaintenance", "AwaitRequestsServed",
		"AcquireNode", "AwaitNodeLocks", "Cordon",
	}, w.Called()[:12])
	first := w.Inputs["AwaitRequestsServed"][0].(locks.RequestsServedInput)
	require.Equal(t, []string{"drydock-n0-1234"}, first.Requests)
	require.WithinDuration(t, status.StartedAt.Add(time.Hour), *first.Deadline, time.Minute)
	require.Contains(t, status.Notes[0], "queued again: the maintenances of n1 and n0 wait for each other's workload locks")
	require.Equal(t, []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon,
	}, workflowtest.States(status)[:5])
	require.Equal(t, 2, w.Scheduler.Released(), "the slot was released in the meantime")
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
	}
}

func TestACancelledYieldingMaintenanceDoesNotWaitForOthers(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError())
	w.Blocked["AwaitRequestsServed"] = true
	w.When(func() bool { return len(w.InputsOf("AwaitRequestsServed")) > 0 }, func() { w.SignalWorkflow(temporal.SignalCancel, nil) })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Len(t, w.Inputs["AcquireNode"], 1)
	require.Contains(t, w.Called(), "ReturnNode", "its mark is removed")
}

// Cluster locks must stay inactive until the node locks are active.
func TestACancelDuringTheReturnOfLocksKeepsTheirOrder(t *testing.T) {
	for name, queuesAgain := range map[string]func(*workflowtest.World){
		"it yields": func(w *workflowtest.World) { w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError()) },
		"its window closes before its locks are known": func(w *workflowtest.World) {
			w.Fail["AcquireNode"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil))
			w.ReceiveWindow(time.Hour, workflowtest.OpensAt(2, w.Now().Add(24*time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Locked = true
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, w.Now().Add(4*time.Hour))}
			queuesAgain(w)
			w.Blocked["AwaitNodeLocksActive"] = true
			w.When(func() bool { return len(w.InputsOf("AwaitNodeLocksActive")) > 0 }, func() {
				w.Mu.Lock()
				w.Blocked["AwaitNodeLocksActive"] = false
				w.Mu.Unlock()
				w.SignalWorkflow(temporal.SignalCancel, nil)
			})
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
			workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
			called := slices.DeleteFunc(w.Called(), func(activity string) bool {
				return activity != "AwaitNodeLocksActive" && activity != "WithdrawClusterMaintenance"
			})
			require.Equal(t, []string{"AwaitNodeLocksActive", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, called)
		})
	}
}

func TestAYieldingMaintenanceWaitsAtMostTheLockTimeout(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError())
	w.Fail["AwaitRequestsServed"] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "not in time", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrLockTimedOut)
	require.Len(t, w.Inputs["AcquireNode"], 1)
}

func TestRepeatedYieldsDoNotExtendTheLockTimeout(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = func(call int) error {
		if call <= 3 {
			return lockCycleError()
		}
		return nil
	}
	w.Fail["AwaitRequestsServed"] = func(call int) error {
		if call%30 > 0 { // retries advance the clock
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)

	waits := w.InputsOf("AwaitNodeLocks")
	require.Len(t, waits, 4)
	first := *waits[0].(locks.NodeLockInput).Deadline
	for _, wait := range waits {
		require.WithinDuration(t, first, *wait.(locks.NodeLockInput).Deadline, 10*time.Second)
	}
	for _, wait := range w.InputsOf("AwaitRequestsServed") {
		require.WithinDuration(t, first, *wait.(locks.RequestsServedInput).Deadline, 10*time.Second)
	}
	require.Greater(t, w.Now().Sub(start), 10*time.Minute)
}

func TestAYieldingMaintenanceOfARolloutReturnsItsSlotToTheRollout(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError())
	in, start := workflowtest.MaintenanceOfRollout(), w.Now()
	in.LockTimeLeft = timeLeft(60)
	in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodePending, status.State)
	deadline := w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Deadline
	require.WithinDuration(t, start.Add(time.Minute), *deadline, 10*time.Second, "the clock includes the earlier wait")
	require.Equal(t, deadline, w.Inputs["AwaitRequestsServed"][0].(locks.RequestsServedInput).Deadline)
	require.Equal(t, []string{"AcquireNode", "AwaitNodeLocks", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "AwaitRequestsServed", "ReturnNode"}, w.Called())
	require.Equal(t, []any{scheduler.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}}, w.Inputs["ReturnSlot"])
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.Equal(t, maintenancev1.NodePending, returned.Ended.State)
	require.Nil(t, returned.Slot)
	require.False(t, returned.Withdraw, "it was withdrawn before")
}

func TestARolloutRequestsAYieldedNodeAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity, w.Nodes.Workers = 2, []string{"w0", "w1"}
	started := map[string]int{}
	w.RegisterAs(temporal.NodeMaintenance, func(ctx workflow.Context, in nodemaintenance.Input) (workflowtest.NodeStatus, error) {
		node := in.Object.Spec.NodeName
		started[node]++
		err := workflow.Sleep(ctx, time.Minute)
		workflowtest.SignalSlotReturn(ctx, in)
		status := workflowtest.NodeStatus{State: maintenancev1.NodeCompleted, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}
		if node == "w1" && started[node] == 1 {
			status.State, status.Notes = maintenancev1.NodePending, []string{"queued again: w0 goes first"}
		}
		return status, err
	})
	var notes []string
	w.When(func() bool { return started["w1"] == 2 }, func() { notes = workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Notes })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes)
	require.Equal(t, map[string]int{"w0": 1, "w1": 2}, started)
	require.Equal(t, []string{"node w1: queued again: w0 goes first"}, notes)
	require.True(t, w.Scheduler.State.Empty())
}

func TestNoPodIsEvictedBeforeAllLocksAreInactiveAndTheNodeIsCordoned(t *testing.T) {
	refusals := map[string]error{
		"reactivated": temporal.Error(temporal.ErrLockRefused, "lock ceph-n1 is active", nil),
		"node busy":   temporal.Error(temporal.ErrNodeBusy, "node n1 is under maintenance by node/c1/ops/other", nil),
		"cycle":       lockCycleError(),
		"released":    nil,
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := workflowtest.NewWorld(t)
		w.Locked = true
		awaited := rapid.SliceOfN(rapid.SampledFrom([]string{"cycle", "released"}), 0, 4).Draw(rt, "awaited")
		cordoned := rapid.SliceOfN(rapid.SampledFrom([]string{"reactivated", "node busy", "released"}), 0, 4).Draw(rt, "cordoned")
		// Calls after the drawn ones succeed.
		outcome := func(drawn []string, call int) error {
			if call > len(drawn) {
				return nil
			}
			return refusals[drawn[call-1]]
		}
		w.Fail["AwaitNodeLocks"] = func(call int) error { return outcome(awaited, call) }
		w.Fail["Cordon"] = func(call int) error { return outcome(cordoned, call) }
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
		workflowtest.RequireResult[workflowtest.NodeStatus](w)

		released, cordonedNode := false, false
		calls := map[string]int{}
		for _, name := range w.Called() {
			calls[name]++
			switch name {
			case "AcquireNode", "WithdrawNodeMaintenance":
				released = false
			case "AwaitNodeLocks":
				released = outcome(awaited, calls[name]) == nil
			case "Cordon":
				require.True(t, released, "%v", w.Called())
				cordonedNode = outcome(cordoned, calls[name]) == nil
			case "AwaitPodCompletion", "Drain", "RunJob":
				require.True(t, released && cordonedNode, "%s in %v", name, w.Called())
			}
		}
		require.Equal(t, 1, calls["Drain"])
	})
}
