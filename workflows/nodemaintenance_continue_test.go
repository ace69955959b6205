package workflows

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// flaps has locks let go whenever they are waited for, and taken back before each cordon until that many were refused. Each time it is said otherwise.
func flaps(w *world, refused int) {
	w.locked = true
	w.fail["Cordon"] = func(call int) error {
		if call <= refused {
			return temporal.Error(temporal.ErrLockRefused, fmt.Sprintf("node n1 is not cordoned: ceph-n1: %d objects are misplaced", call), nil)
		}
		return nil
	}
}

// inRuns plays a maintenance to its end: each run but the last is told that its history is long when the condition holds, which is looked at every second.
func inRuns(t *testing.T, in NodeMaintenanceInput, prepare func(run int, w *world) (long func() bool)) []*world {
	t.Helper()
	var runs []*world
	for next := &in; next != nil; next = handedOn[NodeMaintenanceInput](runs[len(runs)-1]) {
		w := newWorld(t)
		if len(runs) > 0 {
			w.SetStartTime(runs[len(runs)-1].Now())
		}
		if long := prepare(len(runs), w); long != nil {
			w.when(long, func() { w.SetContinueAsNewSuggested(true) })
		}
		runs = append(runs, w)
		w.ExecuteWorkflow(NodeMaintenance, *next)
	}
	return runs
}

func (w *world) calledTimes(activity string, times int) func() bool {
	return func() bool { return len(w.inputsOf(activity)) >= times }
}

// It may be for days: its history does not grow without end, and nothing that it has is given back.
func TestAMaintenanceWhoseLocksAreTakenBackAgainAndAgainContinuesAsNew(t *testing.T) {
	for name, in := range map[string]NodeMaintenanceInput{"of its own": wholeMaintenance(), "of a rollout": ofRollout()} {
		t.Run(name, func(t *testing.T) {
			runs := inRuns(t, in, func(run int, w *world) func() bool {
				if run == 2 {
					flaps(w, 1)
					return nil
				}
				flaps(w, 1000)
				return w.calledTimes("Cordon", 3)
			})
			require.Len(t, runs, 3)
			for _, w := range runs[:2] {
				for _, back := range []string{"ReturnNode", "WithdrawNodeMaintenance", "WithdrawClusterMaintenance", "AwaitNodeLocksActive", "Drain"} {
					require.NotContains(t, w.called(), back)
				}
			}
			for _, w := range runs[1:] {
				require.Equal(t, []string{"TakeNode", "AwaitNodeLocks", "Cordon"}, w.called()[:3])
				require.Empty(t, w.inputsOf("CheckNodeMaintenance"))
				for _, set := range w.scheduler.sets {
					require.Empty(t, waiting(set), "it has its slot")
				}
			}
			last := runs[2]
			status := requireResult[nodeStatus](last)
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.WithinDuration(t, status.States[0].At.Time, status.StartedAt.Time, time.Second)
			require.Contains(t, status.Notes, "waiting for locks again: node n1 is not cordoned: ceph-n1: 1 objects are misplaced")
			for _, stage := range status.Stages {
				require.True(t, stage.Succeeded, stage.Stage)
			}
			returned := last.inputs["ReturnNode"][0].(activities.ReturnNodeInput)
			require.True(t, returned.Withdraw, "the request that an earlier run has made")
			require.Equal(t, in.Parent == "", returned.WithdrawCluster)
		})
	}
}

// waiting are the requests of a set that are not granted.
func waiting(set scheduling.SlotRequests) []scheduling.Slot {
	return slices.DeleteFunc(slices.Clone(set.Slots), func(s scheduling.Slot) bool { return s.Granted })
}

// An application may say something else every few seconds for weeks.
func TestAWaitForLocksThatIsToldOfAgainAndAgainContinuesAsNew(t *testing.T) {
	for _, wait := range []string{"AwaitNodeLocks", "AwaitClusterLocks"} {
		t.Run(wait, func(t *testing.T) {
			runs := inRuns(t, wholeMaintenance(), func(run int, w *world) func() bool {
				w.locked = true
				held := wait == "AwaitClusterLocks"
				play(w, "TakeNode", func(activities.TakeNodeInput) any {
					locks := activities.NodeLocks{Asked: true, ClusterHeld: held, RequestUID: "r1", ClusterRequestUID: "r2"}
					held = false
					return activities.TakeNodeResult{Locks: locks}
				})
				if run == 1 {
					return nil
				}
				w.blocked[wait] = true
				return w.calledTimes(wait, 1)
			})
			require.Len(t, runs, 2)
			status := requireResult[nodeStatus](runs[1])
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.NotContains(t, runs[0].called(), "WithdrawClusterMaintenance")
			for _, stage := range status.Stages {
				require.True(t, stage.Succeeded, stage.Stage)
				require.Empty(t, stage.Message, stage.Stage)
			}
		})
	}
}

// How long locks may take does not begin anew with a run.
func TestTheTimeOfLocksRunsOnInTheNextRun(t *testing.T) {
	for _, tt := range []struct {
		wait     string
		deadline func(w *world) time.Time
	}{
		{"AwaitNodeLocks", func(w *world) time.Time { return *w.inputs["AwaitNodeLocks"][0].(activities.NodeLockInput).Deadline }},
		{"AwaitClusterLocks", func(w *world) time.Time {
			return *w.inputs["AwaitClusterLocks"][0].(activities.ClusterLockInput).Deadline
		}},
	} {
		t.Run(tt.wait, func(t *testing.T) {
			in := wholeMaintenance()
			in.Object.Spec.LockTimeoutSeconds = new(int32(3600))
			runs := inRuns(t, in, func(run int, w *world) func() bool {
				w.locked = true
				play(w, "TakeNode", func(activities.TakeNodeInput) any {
					return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true, ClusterHeld: tt.wait == "AwaitClusterLocks", ClusterRequestUID: "r2"}}
				})
				if run == 1 {
					w.fail[tt.wait] = always(temporal.Error(temporal.ErrLockTimedOut, "ceph did not let go", nil))
					return nil
				}
				w.blocked[tt.wait] = true
				start := w.Now()
				return func() bool { return w.Now().Sub(start) > 20*time.Minute }
			})
			require.Len(t, runs, 2)
			requireFailure[nodeStatus](runs[1], temporal.ErrLockTimedOut)
			require.Equal(t, tt.deadline(runs[0]), tt.deadline(runs[1]))
		})
	}
}

// One that is cancelled in the next run before that has done anything has all that an earlier one did to be taken back.
func TestWhatAnEarlierRunHasAskedForIsTakenBack(t *testing.T) {
	runs := inRuns(t, wholeMaintenance(), func(run int, w *world) func() bool {
		flaps(w, 1000)
		if run == 1 {
			w.RegisterDelayedCallback(func() { require.Equal(t, emergency.ReasonHeld, statusOf[nodeStatus](w).Wait.Reason) }, time.Minute)
			w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour)
			return nil
		}
		play(w, "TakeNode", func(activities.TakeNodeInput) any {
			return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true, RequestUID: "r1", ClusterRequestUID: "r2"}}
		})
		w.when(w.calledTimes("Cordon", 2), func() { w.SignalWorkflow(temporal.SignalHeld, heldState(2, drydockv1.HoldCluster("c1"))) })
		return w.calledTimes("Cordon", 2)
	})
	require.Len(t, runs, 2)
	requireCancelled[nodeStatus](runs[1])
	require.NotContains(t, runs[1].called(), "TakeNode")
	returned := runs[1].inputs["ReturnNode"][0].(activities.ReturnNodeInput)
	require.True(t, returned.Withdraw && returned.WithdrawCluster && returned.AwaitLocks)
	require.Equal(t, []types.UID{"r1", "r2"}, []types.UID{returned.RequestUID, returned.ClusterRequestUID})
	require.Len(t, runs[1].scheduler.sets, 1)
	require.Empty(t, runs[1].scheduler.lastSet().Slots, "the slot that an earlier run has got")
}

// It is said while the run hands everything on.
func TestACancelInTheLastMomentOfARunIsHeard(t *testing.T) {
	w := newWorld(t)
	flaps(w, 1000)
	w.when(w.calledTimes("Cordon", 2), func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireCancelled[nodeStatus](w)
}

func TestTheNextRunKnowsTheRequestorsThatJoined(t *testing.T) {
	runs := inRuns(t, handOver(), func(run int, w *world) func() bool {
		if run == 0 {
			flaps(w, 1000)
			w.say(w.joins("gpu.example.com"))
			return func() bool { return len(statusOf[nodeStatus](w).Requestors) == 2 }
		}
		flaps(w, 0)
		w.say(w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, "gpu.example.com"))
		return nil
	})
	require.Len(t, runs, 2)
	require.Equal(t, maintenancev1.RequestorDone, requireResult[nodeStatus](runs[1]).Requestors[1].State)
}

// Its window has closed meanwhile: it gives back what it has, as in any run.
func TestANextRunWhoseWindowHasClosedGivesBackItsSlotAndTheLocks(t *testing.T) {
	var start time.Time
	runs := inRuns(t, maintenanceInWindow(), func(run int, w *world) func() bool {
		switch run {
		case 0:
			start = w.Now()
			flaps(w, 1000)
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
			return w.calledTimes("Cordon", 3)
		default:
			flaps(w, 0)
			w.blocked["AwaitNodeLocks"] = true
			w.tells(time.Hour, opensAt(2, start.Add(24*time.Hour)))
			w.RegisterDelayedCallback(func() {
				require.Contains(t, w.called(), "WithdrawNodeMaintenance")
				require.True(t, w.scheduler.state.Empty())
				w.mu.Lock()
				defer w.mu.Unlock()
				w.blocked["AwaitNodeLocks"] = false
			}, 2*time.Hour)
			w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			return nil
		}
	})
	require.Len(t, runs, 2)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](runs[1]).State)
}

// What is handed on stays small however often locks flap, and tells how it began.
func TestARunHandsOnOnlyTheLastOfWhatItHasSeen(t *testing.T) {
	w := newWorld(t)
	flaps(w, 1000)
	w.when(w.calledTimes("Cordon", 250), func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	next := handedOn[NodeMaintenanceInput](w)
	require.NotNil(t, next)
	require.Len(t, next.Carried.Status.Notes, mostCarried)
	require.Len(t, next.Carried.Status.States, mostCarried)
	require.Equal(t, maintenancev1.NodePending, next.Carried.Status.States[0].State)
	require.Contains(t, next.Carried.Status.Notes[mostCarried-1], "ceph-n1: 25")
}
