package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// timeLeft is a remaining timeout of node locks.
func timeLeft(nodeSeconds int32) *maintenancev1.LockTimeLeft {
	return &maintenancev1.LockTimeLeft{NodeSeconds: &nodeSeconds}
}

func TestNodeLocksOfARolloutHaveTheRemainingTimeout(t *testing.T) {
	duringWait := func(w *workflowtest.World, then func()) {
		w.Blocked["AwaitNodeLocks"] = true
		w.RegisterDelayedCallback(then, 10*time.Minute)
	}
	for _, tt := range []struct {
		name string
		in   nodemaintenance.Input
		// happens is the event that ends the wait.
		happens func(*workflowtest.World)
		before  *maintenancev1.LockTimeLeft
		after   *maintenancev1.LockTimeLeft
		state   maintenancev1.NodeState
	}{
		{
			name: "it yields", in: workflowtest.MaintenanceOfRollout(), before: timeLeft(1800), after: timeLeft(1799), state: maintenancev1.NodePending,
			happens: func(w *workflowtest.World) { w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError()) },
		},
		{
			name: "its window closes", in: workflowtest.MaintenanceOfRollout(), after: timeLeft(3600 - 600 - 60), state: maintenancev1.NodePending,
			happens: func(w *workflowtest.World) {
				duringWait(w, func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish)) })
			},
		},
		{
			name: "its rollout cancels it", in: workflowtest.MaintenanceOfRollout(), before: timeLeft(1800), after: timeLeft(1200), state: maintenancev1.NodeCancelled,
			happens: func(w *workflowtest.World) { duringWait(w, w.CancelWorkflow) },
		},
		{
			name: "its rollout cancels it after all locks are inactive", in: workflowtest.MaintenanceOfRollout(), before: timeLeft(1800), state: maintenancev1.NodeCancelled,
			happens: func(w *workflowtest.World) {
				w.Blocked["Drain"] = true
				w.RegisterDelayedCallback(w.CancelWorkflow, 10*time.Minute)
			},
		},
		{
			name: "another maintenance has the node after all locks are inactive", in: workflowtest.MaintenanceOfRollout(), before: timeLeft(1800), state: maintenancev1.NodeCancelled,
			happens: func(w *workflowtest.World) {
				w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrNodeBusy, "another maintenance has it", nil))
				w.Blocked["AwaitNodeFree"] = true
				w.RegisterDelayedCallback(w.CancelWorkflow, 10*time.Minute)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Locked = true
			tt.happens(w)
			tt.in.LockTimeLeft = tt.before
			tt.in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, tt.in)
			var status workflowtest.NodeStatus
			if tt.state == maintenancev1.NodeCancelled {
				status = workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
			} else {
				status = workflowtest.RequireResult[workflowtest.NodeStatus](w)
			}
			require.Equal(t, tt.state, status.State)
			if tt.after == nil {
				require.Nil(t, status.LockTimeLeft)
				return
			}
			require.NotNil(t, status.LockTimeLeft)
			require.InDelta(t, *tt.after.NodeSeconds, *status.LockTimeLeft.NodeSeconds, 2)
		})
	}
}

func TestClusterLocksHaveTheRemainingTimeout(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	clusterLockActiveOnce(w)
	w.Blocked["AwaitClusterLocks"] = true
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish)) }, 10*time.Minute)
	in := workflowtest.MaintenanceOfRollout()
	in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
	in.LockTimeLeft = &maintenancev1.LockTimeLeft{ClusterSeconds: new(int32(1800))}
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true, ClusterHeld: true, ClusterRequestUID: "uid-of-request"}}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.WithinDuration(t, start.Add(30*time.Minute), *w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Deadline, 2*time.Second)
	require.InDelta(t, 1800-600-60, *status.LockTimeLeft.ClusterSeconds, 2)
	require.Nil(t, status.LockTimeLeft.NodeSeconds, "the node locks were not requested")
}

func TestAFinishedMaintenanceReportsNoRemainingLockTimeout(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(temporal.Error(temporal.ErrLockTimedOut, "ceph did not release node n1 in time", nil))
	in := workflowtest.MaintenanceOfRollout()
	in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Nil(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrLockTimedOut).LockTimeLeft)
}

func TestTheLockTimeoutIsPausedWhileAYieldedMaintenanceWaits(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Once(lockCycleError())
	w.Fail["AwaitRequestsServed"] = func(int) error {
		w.Occupy(workflowtest.Peer)
		return nil
	}
	w.RegisterDelayedCallback(w.Vacate, time.Hour)
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(600))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.WithinDuration(t, start.Add(time.Hour+10*time.Minute), *w.Inputs["AwaitNodeLocks"][1].(locks.NodeLockInput).Deadline, 10*time.Second)
	require.True(t, w.Inputs["Cordon"][0].(node.CordonInput).Locked, "the locks are checked once more before the cordon")
}

func TestTheTimeoutOfInactiveLocksIsPausedDuringAHold(t *testing.T) {
	// heldAt holds the cluster for a day when an activity first completes.
	heldAt := func(w *workflowtest.World, activity string) {
		w.Fail[activity] = func(attempt int) error {
			if attempt == 1 {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, drydockv1.HoldCluster("c1")))
				w.ReleaseAfter(24*time.Hour, 3)
			}
			return nil
		}
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(600))
	t.Run("node locks", func(t *testing.T) {
		w := workflowtest.NewWorld(t)
		start := w.Now()
		w.Locked = true
		heldAt(w, "AwaitNodeLocks")
		w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrLockRefused, "ceph has activated its lock again", nil))
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
		workflowtest.RequireResult[workflowtest.NodeStatus](w)
		require.Len(t, w.Inputs["AwaitNodeLocks"], 2)
		require.Greater(t, w.Inputs["AwaitNodeLocks"][1].(locks.NodeLockInput).Deadline.Sub(start), 24*time.Hour)
	})
	t.Run("cluster locks", func(t *testing.T) {
		w := workflowtest.NewWorld(t)
		start := w.Now()
		heldAt(w, "AwaitClusterLocks")
		taken := 0
		workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
			locks := locks.NodeLocks{Asked: true, ClusterHeld: true, ClusterRequestUID: "uid-of-request"}
			if taken++; taken < 3 {
				return node.AcquireNodeResult{Locks: locks}
			}
			locks.ClusterHeld, locks.Inactive = false, true
			return node.AcquireNodeResult{Locks: locks, Cordon: &node.CordonResult{CordonedByUs: true}}
		})
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
		workflowtest.RequireResult[workflowtest.NodeStatus](w)
		require.Len(t, w.Inputs["AwaitClusterLocks"], 2)
		require.Greater(t, w.Inputs["AwaitClusterLocks"][1].(locks.ClusterLockInput).Deadline.Sub(start), 24*time.Hour)
	})
}

// The maintenance yields, and is requeued when the window closes. The locks of its node were never inactive.
func TestARolloutKeepsTheRemainingLockTimeoutOfEachNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity, w.Nodes.Workers = 1, []string{"n1"}
	var had []*maintenancev1.LockTimeLeft
	w.RegisterAs(temporal.NodeMaintenance, func(ctx workflow.Context, in nodemaintenance.Input) (workflowtest.NodeStatus, error) {
		had = append(had, in.LockTimeLeft)
		status := workflowtest.NodeStatus{State: maintenancev1.NodePending, LockTimeLeft: in.LockTimeLeft, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}
		switch len(had) {
		case 1:
			w.Occupy(workflowtest.Peer)
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return status, err
			}
			workflowtest.SignalSlotReturn(ctx, in)
			status.LockTimeLeft = timeLeft(40)
		case 2:
			_ = workflow.Sleep(ctx, 1000*time.Hour)
			status.State, status.LockTimeLeft = maintenancev1.NodeCancelled, timeLeft(20)
			return status, sdktemporal.NewCanceledError(status)
		default:
			status.State, status.LockTimeLeft = maintenancev1.NodeCompleted, nil
			workflowtest.SignalSlotReturn(ctx, in)
		}
		return status, nil
	})
	w.RegisterDelayedCallback(w.Vacate, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunCancel)) }, 2*time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, timeLeft(20), workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Nodes[0].LockTimeLeft)
	}, 3*time.Hour)
	w.ReleaseAfter(24*time.Hour, 3)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, int32(1), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.Equal(t, []*maintenancev1.LockTimeLeft{nil, timeLeft(40), timeLeft(20)}, had)
}
