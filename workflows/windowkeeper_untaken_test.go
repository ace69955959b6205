package workflows

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// A rollout tells its nodes. What was only asked of a node's locks is not work that has begun, whether the emergency stop holds the cluster or not.
func TestANodeOfARolloutThatWasNotTakenWhenItsWindowClosedGivesBackItsSlotAndItsLocks(t *testing.T) {
	withdrawn := []string{"WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}
	for _, tt := range []struct {
		name, during, blocked string
		held                  bool
		then                  []string
	}{
		{name: "its locks are asked", during: "TakeNode", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "its locks are waited for", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "another has it", during: "AwaitNodeFree", blocked: "AwaitNodeFree", then: withdrawn[1:]},
		{name: "its locks are waited for, and its cluster is held", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", held: true, then: withdrawn},
		{name: "its locks have let go, and its cluster is held", during: "AwaitNodeLocks", held: true, then: withdrawn},
	} {
		t.Run("while "+tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.locked, w.blocked[tt.blocked] = true, true
			if tt.blocked == "AwaitNodeFree" {
				w.fail["Cordon"] = once(temporal.Error(temporal.ErrNodeBusy, "another maintenance has it", nil))
			}
			closed := closedState(3, drydockv1.OverrunFinish)
			w.fail[tt.during] = func(int) error {
				if tt.held {
					held := heldState(2, drydockv1.HoldCluster("c1"))
					w.SignalWorkflow(temporal.SignalHeld, held)
					closed.Holds = append(held.Holds, closed.Holds...)
				}
				w.SignalWorkflow(temporal.SignalHeld, closed)
				return nil
			}
			in := ofRollout()
			start := w.Now()
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, requireResult[nodeStatus](w).State, "it has its turn again when the rollout asks once more")
			require.WithinDuration(t, start.Add(standsBackAfter), w.Now(), 10*time.Second)
			called := w.called()
			require.NotContains(t, called[:len(called)-1], "ReturnNode")
			require.Equal(t, tt.then, called[len(called)-len(tt.then):])
			require.Equal(t, []any{activities.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}}, w.inputs["ReturnSlot"])
		})
	}
}

func TestAMaintenanceWhoseWindowClosesWhileItWaitsForLocksGivesThemBackAndAsksAnewWhenItOpens(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(time.Hour))}
	w.tells(time.Hour, opensAt(2, start.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() {
		called := w.called()
		require.Equal(t, []string{"TakeNode", "AwaitNodeLocks", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, called[len(called)-5:])
		require.True(t, w.scheduler.state.Empty(), "others can have the slot")
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.InDelta(t, 3600-standsBackAfter.Seconds(), *status.LockTimeLeft.NodeSeconds, 10)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked["AwaitNodeLocks"] = false
	}, 2*time.Hour)
	w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	in := maintenanceInWindow()
	in.Object.Spec.LockTimeoutSeconds = new(int32(2 * 3600))
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	waits := w.inputsOf("AwaitNodeLocks")
	require.Len(t, waits, 2)
	require.WithinDuration(t, start.Add(25*time.Hour-standsBackAfter), *waits[1].(activities.NodeLockInput).Deadline, 10*time.Second, "the locks have what was left of their time")
}

func TestANodeGivesNothingBackBetweenTwoWindowsThatFollowEachOther(t *testing.T) {
	w := newWorld(t)
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.when(func() bool { return len(w.inputsOf("AwaitNodeLocks")) > 0 }, func() {
		w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish))
		w.releaseAfter(30*time.Second, 3)
	})
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"TakeNode", "AwaitNodeLocks"}, w.called())
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 10*time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, ofRollout())
	requireCancelled[nodeStatus](w)
}

// The server did not answer: the node may be out of service.
func TestANodeThatMayHaveBeenTakenWhenItsWindowClosedIsReturnedBeforeItsSlotIs(t *testing.T) {
	for _, step := range []string{"TakeNode", "Cordon"} {
		t.Run("during "+step, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			w.locked = true
			w.fail[step] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish)) })
			w.fail["ReturnNode"] = func(int) error {
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { require.Empty(t, w.inputsOf("ReturnSlot")) }, 50*time.Minute)
			in := ofRollout()
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, requireResult[nodeStatus](w).State)
			require.WithinDuration(t, start.Add(time.Hour), w.Now(), laterRetry+time.Second)
			called := w.called()
			require.Equal(t, []string{"ReturnNode", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}, called[len(called)-4:])
			require.Equal(t, []any{activities.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}}, w.inputs["ReturnSlot"])
		})
	}
}

func TestAMaintenanceThatMayHaveTakenItsNodeWhenItsWindowClosedReturnsItAndWaits(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(time.Hour))}
	w.fail["TakeNode"] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour))) })
	w.RegisterDelayedCallback(func() {
		called := w.called()
		require.Equal(t, []string{"ReturnNode", "PlanMaintenance"}, called[slices.Index(called, "ReturnNode"):][:2])
		require.Equal(t, maintenancev1.NodePending, w.inputsOf("ReturnNode")[0].(activities.ReturnNodeInput).Ended.State)
		require.True(t, w.scheduler.state.Empty(), "others can have the slot")
		require.Equal(t, maintenancev1.NodePending, statusOf[nodeStatus](w).State)
	}, time.Hour)
	w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

// unansweredWhile answers nothing for the first round of attempts, in which something happens.
func unansweredWhile(happens func()) func(call int) error {
	return func(call int) error {
		if call == 1 {
			happens()
		}
		if call <= roundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
}

func TestANodeThatWasTakenWhenItsWindowClosedIsFinished(t *testing.T) {
	w := newWorld(t)
	w.fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish))
		return nil
	}
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}
