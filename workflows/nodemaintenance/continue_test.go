package nodemaintenance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// reactivateLocks simulates locks that refuse the cordon that many times, each time with another message.
func reactivateLocks(w *workflowtest.World, refused int) {
	w.Locked = true
	w.Fail["Cordon"] = func(call int) error {
		if call <= refused {
			return temporal.Error(temporal.ErrLockRefused, fmt.Sprintf("node n1 is not cordoned: ceph-n1: %d objects are misplaced", call), nil)
		}
		return nil
	}
}

// runAll runs a maintenance in as many runs as it needs. prepare returns the condition on which a run continues as new; nil: never.
func runAll(t *testing.T, in nodemaintenance.Input, prepare func(run int, w *workflowtest.World) (long func() bool)) []*workflowtest.World {
	t.Helper()
	var runs []*workflowtest.World
	for next := &in; next != nil; next = workflowtest.NextRunInput[nodemaintenance.Input](runs[len(runs)-1]) {
		w := workflowtest.NewWorld(t)
		if len(runs) > 0 {
			w.SetStartTime(runs[len(runs)-1].Now())
		}
		if long := prepare(len(runs), w); long != nil {
			w.When(long, func() { w.SetContinueAsNewSuggested(true) })
		}
		runs = append(runs, w)
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, *next)
	}
	return runs
}

// The next run keeps the slot and the requests.
func TestAMaintenanceContinuesAsNewAfterManyReactivatedLocks(t *testing.T) {
	for name, in := range map[string]nodemaintenance.Input{"without a rollout": workflowtest.FullMaintenance(), "of a rollout": workflowtest.MaintenanceOfRollout()} {
		t.Run(name, func(t *testing.T) {
			runs := runAll(t, in, func(run int, w *workflowtest.World) func() bool {
				if run == 2 {
					reactivateLocks(w, 1)
					return nil
				}
				reactivateLocks(w, 1000)
				return w.CalledTimes("Cordon", 3)
			})
			require.Len(t, runs, 3)
			for _, w := range runs[:2] {
				for _, back := range []string{"ReturnNode", "WithdrawNodeMaintenance", "WithdrawClusterMaintenance", "AwaitNodeLocksActive", "Drain"} {
					require.NotContains(t, w.Called(), back)
				}
			}
			for _, w := range runs[1:] {
				require.Equal(t, []string{"AcquireNode", "AwaitNodeLocks", "Cordon"}, w.Called()[:3])
				require.Empty(t, w.InputsOf("CheckNodeMaintenance"))
				for _, set := range w.Scheduler.Sets {
					require.Empty(t, workflowtest.Ungranted(set), "it has a slot already")
				}
			}
			last := runs[2]
			status := workflowtest.RequireResult[workflowtest.NodeStatus](last)
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.WithinDuration(t, status.States[0].At.Time, status.StartedAt.Time, time.Second)
			require.Contains(t, status.Notes, "waiting for locks again: node n1 is not cordoned: ceph-n1: 1 objects are misplaced")
			for _, stage := range status.Stages {
				require.True(t, stage.Succeeded, stage.Stage)
			}
			returned := last.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
			require.True(t, returned.Withdraw, "the request of an earlier run")
			require.Equal(t, in.Parent == "", returned.WithdrawCluster)
		})
	}
}

// An application may report changes every few seconds for weeks.
func TestAWaitForLocksContinuesAsNewAfterManyReports(t *testing.T) {
	for _, wait := range []string{"AwaitNodeLocks", "AwaitClusterLocks"} {
		t.Run(wait, func(t *testing.T) {
			runs := runAll(t, workflowtest.FullMaintenance(), func(run int, w *workflowtest.World) func() bool {
				w.Locked = true
				held := wait == "AwaitClusterLocks"
				workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
					locks := locks.NodeLocks{Asked: true, ClusterHeld: held, RequestUID: "r1", ClusterRequestUID: "r2"}
					held = false
					return node.AcquireNodeResult{Locks: locks}
				})
				if run == 1 {
					return nil
				}
				w.Blocked[wait] = true
				return w.CalledTimes(wait, 1)
			})
			require.Len(t, runs, 2)
			status := workflowtest.RequireResult[workflowtest.NodeStatus](runs[1])
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.NotContains(t, runs[0].Called(), "WithdrawClusterMaintenance")
			for _, stage := range status.Stages {
				require.True(t, stage.Succeeded, stage.Stage)
				require.Empty(t, stage.Message, stage.Stage)
			}
		})
	}
}

func TestTheLockTimeoutContinuesInTheNextRun(t *testing.T) {
	for _, tt := range []struct {
		wait     string
		deadline func(w *workflowtest.World) time.Time
	}{
		{"AwaitNodeLocks", func(w *workflowtest.World) time.Time {
			return *w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Deadline
		}},
		{"AwaitClusterLocks", func(w *workflowtest.World) time.Time {
			return *w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Deadline
		}},
	} {
		t.Run(tt.wait, func(t *testing.T) {
			in := workflowtest.FullMaintenance()
			in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
			runs := runAll(t, in, func(run int, w *workflowtest.World) func() bool {
				w.Locked = true
				workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
					return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true, ClusterHeld: tt.wait == "AwaitClusterLocks", ClusterRequestUID: "r2"}}
				})
				if run == 1 {
					w.Fail[tt.wait] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "ceph did not release node n1", nil))
					return nil
				}
				w.Blocked[tt.wait] = true
				start := w.Now()
				return func() bool { return w.Now().Sub(start) > 20*time.Minute }
			})
			require.Len(t, runs, 2)
			workflowtest.RequireFailure[workflowtest.NodeStatus](runs[1], temporal.ErrLockTimedOut)
			require.Equal(t, tt.deadline(runs[0]), tt.deadline(runs[1]))
		})
	}
}

// A cancelled run also undoes the effects of earlier runs.
func TestARequestOfAnEarlierRunIsWithdrawn(t *testing.T) {
	runs := runAll(t, workflowtest.FullMaintenance(), func(run int, w *workflowtest.World) func() bool {
		reactivateLocks(w, 1000)
		if run == 1 {
			w.RegisterDelayedCallback(func() {
				require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
			}, time.Minute)
			w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour)
			return nil
		}
		workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
			return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true, RequestUID: "r1", ClusterRequestUID: "r2"}}
		})
		w.When(w.CalledTimes("Cordon", 2), func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, drydockv1.HoldCluster("c1"))) })
		return w.CalledTimes("Cordon", 2)
	})
	require.Len(t, runs, 2)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](runs[1])
	require.NotContains(t, runs[1].Called(), "AcquireNode")
	returned := runs[1].Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.True(t, returned.Withdraw && returned.WithdrawCluster && returned.AwaitLocks)
	require.Equal(t, []types.UID{"r1", "r2"}, []types.UID{returned.RequestUID, returned.ClusterRequestUID})
	require.Len(t, runs[1].Scheduler.Sets, 1)
	require.Empty(t, runs[1].Scheduler.LastSet().Slots, "the slot of the earlier run is released")
}

// The cancel arrives while the run continues as new.
func TestACancelDuringContinueAsNewIsHandled(t *testing.T) {
	w := workflowtest.NewWorld(t)
	reactivateLocks(w, 1000)
	w.When(w.CalledTimes("Cordon", 2), func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestTheNextRunKeepsTheAdditionalRequestors(t *testing.T) {
	runs := runAll(t, workflowtest.RequestorMaintenance(), func(run int, w *workflowtest.World) func() bool {
		if run == 0 {
			reactivateLocks(w, 1000)
			w.EachMinute(w.JoinStep("gpu.example.com"))
			return func() bool { return len(workflowtest.StatusOf[workflowtest.NodeStatus](w).Requestors) == 2 }
		}
		reactivateLocks(w, 0)
		w.EachMinute(w.Signal(temporal.SignalDone, ""), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, "gpu.example.com"))
		return nil
	})
	require.Len(t, runs, 2)
	require.Equal(t, maintenancev1.RequestorDone, workflowtest.RequireResult[workflowtest.NodeStatus](runs[1]).Requestors[1].State)
}

// The window closes between two runs.
func TestARunThatStartsWithAClosedWindowReleasesSlotAndLocks(t *testing.T) {
	var start time.Time
	runs := runAll(t, workflowtest.MaintenanceInWindow(), func(run int, w *workflowtest.World) func() bool {
		switch run {
		case 0:
			start = w.Now()
			reactivateLocks(w, 1000)
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(4*time.Hour))}
			return w.CalledTimes("Cordon", 3)
		default:
			reactivateLocks(w, 0)
			w.Blocked["AwaitNodeLocks"] = true
			w.ReceiveWindow(time.Hour, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
			w.RegisterDelayedCallback(func() {
				require.Contains(t, w.Called(), "WithdrawNodeMaintenance")
				require.True(t, w.Scheduler.State.Empty())
				w.Mu.Lock()
				defer w.Mu.Unlock()
				w.Blocked["AwaitNodeLocks"] = false
			}, 2*time.Hour)
			w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
			return nil
		}
	})
	require.Len(t, runs, 2)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](runs[1]).State)
}

// The carried state has a limit. It keeps the first entry.
func TestARunCarriesOnlyItsLatestReports(t *testing.T) {
	w := workflowtest.NewWorld(t)
	reactivateLocks(w, 1000)
	w.When(w.CalledTimes("Cordon", 250), func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	next := workflowtest.NextRunInput[nodemaintenance.Input](w)
	require.NotNil(t, next)
	require.Len(t, next.Carried.Status.Notes, nodemaintenance.MostCarried)
	require.Len(t, next.Carried.Status.States, nodemaintenance.MostCarried)
	require.Equal(t, maintenancev1.NodePending, next.Carried.Status.States[0].State)
	require.Contains(t, next.Carried.Status.Notes[nodemaintenance.MostCarried-1], "ceph-n1: 25")
}
