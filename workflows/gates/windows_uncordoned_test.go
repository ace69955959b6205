package gates_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A rollout passes the state on to its nodes. Even while the emergency stop holds the cluster, a request for locks does not count as started work.
func TestANodeThatIsNotCordonedWhenItsWindowClosesReleasesItsSlotAndLocks(t *testing.T) {
	withdrawn := []string{"WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}
	for _, tt := range []struct {
		name, during, blocked string
		held                  bool
		then                  []string
	}{
		{name: "its locks are requested", during: "AcquireNode", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "its locks are waited for", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "another maintenance has it", during: "AwaitNodeFree", blocked: "AwaitNodeFree", then: []string{"AwaitNodeFree", "ReturnNode"}},
		{name: "its locks are waited for, and its cluster is held", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", held: true, then: withdrawn},
		{name: "its locks are inactive, and its cluster is held", during: "AwaitNodeLocks", held: true, then: withdrawn},
	} {
		t.Run("while "+tt.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Locked, w.Blocked[tt.blocked] = true, true
			if tt.blocked == "AwaitNodeFree" {
				w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrNodeBusy, "another maintenance has it", nil))
			}
			closed := workflowtest.ClosedState(3, drydockv1.OverrunFinish)
			w.Fail[tt.during] = func(int) error {
				if tt.held {
					held := workflowtest.HeldState(2, drydockv1.HoldCluster("c1"))
					w.SignalWorkflow(temporal.SignalHeld, held)
					closed.Holds = append(held.Holds, closed.Holds...)
				}
				w.SignalWorkflow(temporal.SignalHeld, closed)
				return nil
			}
			in := workflowtest.MaintenanceOfRollout()
			start := w.Now()
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, workflowtest.RequireResult[workflowtest.NodeStatus](w).State, "the rollout requests it again")
			require.WithinDuration(t, start.Add(nodemaintenance.RequeueAfter), w.Now(), 10*time.Second)
			called := w.Called()
			require.NotContains(t, called[:len(called)-1], "ReturnNode")
			require.Equal(t, tt.then, called[len(called)-len(tt.then):])
			require.Equal(t, []any{scheduler.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}}, w.Inputs["ReturnSlot"])
		})
	}
}

func TestAMaintenanceRequestsItsLocksAgainInTheNextOpening(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Locked, w.Blocked["AwaitNodeLocks"] = true, true
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(time.Hour))}
	w.ReceiveWindow(time.Hour, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() {
		called := w.Called()
		require.Equal(t, []string{"AcquireNode", "AwaitNodeLocks", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, called[len(called)-5:])
		require.True(t, w.Scheduler.State.Empty(), "others can use the slot")
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.InDelta(t, 3600-nodemaintenance.RequeueAfter.Seconds(), *status.LockTimeLeft.NodeSeconds, 10)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Blocked["AwaitNodeLocks"] = false
	}, 2*time.Hour)
	w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
	in := workflowtest.MaintenanceInWindow()
	in.Object.Spec.LockTimeoutSeconds = new(int32(2 * 3600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	waits := w.InputsOf("AwaitNodeLocks")
	require.Len(t, waits, 2)
	require.WithinDuration(t, start.Add(25*time.Hour-nodemaintenance.RequeueAfter), *waits[1].(locks.NodeLockInput).Deadline, 10*time.Second, "the locks have what was left of their time")
}

func TestANodeReleasesNothingBetweenAdjacentWindows(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked, w.Blocked["AwaitNodeLocks"] = true, true
	w.When(func() bool { return len(w.InputsOf("AwaitNodeLocks")) > 0 }, func() {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish))
		w.ReleaseAfter(30*time.Second, 3)
	})
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"AcquireNode", "AwaitNodeLocks"}, w.Called())
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 10*time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

// No attempt was answered, so the node may be out of service.
func TestANodeThatMayBeCordonedWhenItsWindowClosesIsReturnedBeforeItsSlot(t *testing.T) {
	for _, step := range []string{"AcquireNode", "Cordon"} {
		t.Run("during "+step, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			w.Locked = true
			w.Fail[step] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish)) })
			w.Fail["ReturnNode"] = func(int) error {
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { require.Empty(t, w.InputsOf("ReturnSlot")) }, 50*time.Minute)
			in := workflowtest.MaintenanceOfRollout()
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
			require.WithinDuration(t, start.Add(time.Hour), w.Now(), kit.LaterRetry+time.Second)
			called := w.Called()
			require.Equal(t, []string{"ReturnNode", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}, called[len(called)-4:])
			require.Equal(t, []any{scheduler.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}}, w.Inputs["ReturnSlot"])
		})
	}
}

func TestAMaintenanceThatMayHaveCordonedItsNodeWhenItsWindowClosesReturnsIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(time.Hour))}
	w.Fail["AcquireNode"] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalWindow, workflowtest.OpensAt(2, start.Add(24*time.Hour))) })
	w.RegisterDelayedCallback(func() {
		called := w.Called()
		require.Equal(t, []string{"ReturnNode", "PlanMaintenance"}, called[slices.Index(called, "ReturnNode"):][:2])
		require.Equal(t, maintenancev1.NodePending, w.InputsOf("ReturnNode")[0].(node.ReturnNodeInput).Ended.State)
		require.True(t, w.Scheduler.State.Empty(), "others can use the slot")
		require.Equal(t, maintenancev1.NodePending, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
	}, time.Hour)
	w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

// unansweredWhile fails the first round of attempts without an answer, and runs event during that round.
func unansweredWhile(event func()) func(call int) error {
	return func(call int) error {
		if call == 1 {
			event()
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
}

func TestANodeThatIsCordonedWhenItsWindowClosesIsFinished(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish))
		return nil
	}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}
