package gates_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestRunningNodesWhenTheWindowCloses(t *testing.T) {
	for action, state := range map[drydockv1.OverrunAction]maintenancev1.NodeState{
		drydockv1.OverrunFinish: maintenancev1.NodeCompleted,
		drydockv1.OverrunPause:  maintenancev1.NodeCompleted, // a simulated node ignores the state
		drydockv1.OverrunCancel: maintenancev1.NodePending,
	} {
		t.Run(string(action), func(t *testing.T) {
			w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
			nodes.Duration = 10 * time.Minute
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, action)) }, 5*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []string{"+w0", "-w0"}, nodes.EventsInOrder())
				status := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w)
				require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
				require.Equal(t, state, status.Nodes[0].State)
			}, 10*time.Hour)
			w.ReleaseAfter(11*time.Hour, 3)
			w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
			require.Equal(t, int32(2), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done, "returned nodes start again")
		})
	}
}

func TestRunningNodesAreReturnedWhenTheWindowClosesDuringAHold(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	nodes.Duration = time.Hour
	held, closed := workflowtest.HeldState(2, drydockv1.HoldCluster("c1")), workflowtest.ClosedState(3, drydockv1.OverrunCancel)
	closed.Holds = append(slices.Clone(held.Holds), closed.Holds...)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, held) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closed) }, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.EventsInOrder())
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
	}, 15*time.Minute)
	w.ReleaseAfter(11*time.Hour, 4)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, int32(1), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

// closesAt returns the state that a cluster of a rollout receives while its window is open.
func closesAt(number int64, at time.Time) emergency.State {
	hold := workflowtest.ClosedState(number, drydockv1.OverrunFinish).Holds[0]
	return emergency.State{Number: number, Closes: &emergency.Closing{At: at, Hold: hold}}
}

func TestClustersKnowInAdvanceWhenTheWindowCloses(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterAs("holds", func(ctx workflow.Context) (emergency.State, error) {
		open := workflowtest.OpenUntil(1, workflow.Now(ctx).Add(4*time.Hour))
		open.Schedule.Openings[0].Cutoff = time.Hour
		k := gates.HoldsOfWindow(ctx, open)
		return k.ForCluster("c1"), nil
	})
	start := w.Now()
	w.TestWorkflowEnvironment.ExecuteWorkflow("holds")
	state := workflowtest.RequireResult[emergency.State](w)
	require.Empty(t, state.Holds)
	require.WithinDuration(t, start.Add(3*time.Hour), state.Closes.At, time.Second, "the cutoff")
	require.Equal(t, workflowtest.NightWindow, state.Closes.Hold.Window)
	require.Contains(t, state.Closes.Hold.Reason, "was open for new work until")
	require.Zero(t, state.Closes.StopsAt, "running work finishes")
}

func TestClustersKnowInAdvanceWhenRunningNodesMustStop(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		w := workflowtest.NewWorld(t)
		w.RegisterAs("holds", func(ctx workflow.Context) (emergency.State, error) {
			open := workflowtest.OpenUntil(1, workflow.Now(ctx).Add(4*time.Hour))
			open.OnOverrun, open.Schedule.Openings[0].Cutoff = action, time.Hour
			k := gates.HoldsOfWindow(ctx, open)
			return k.ForCluster("c1"), nil
		})
		start := w.Now()
		w.TestWorkflowEnvironment.ExecuteWorkflow("holds")
		closes := workflowtest.RequireResult[emergency.State](w).Closes
		require.WithinDuration(t, start.Add(3*time.Hour), closes.At, time.Second, "nothing new starts")
		require.WithinDuration(t, start.Add(4*time.Hour), closes.StopsAt, time.Second)
	}
}

func TestRunningNodesStopAtTheEndOfTheWindowWithoutANotification(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	open := workflowtest.OpenUntil(1, start.Add(4*time.Hour))
	open.OnOverrun, open.Schedule.Openings[0].Cutoff = drydockv1.OverrunPause, time.Hour
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: open}
	cutOff := open
	cutOff.Number = 2
	w.Fail["AwaitPodCompletion"] = func(int) error {
		if w.Now().Before(start.Add(3*time.Hour + time.Minute)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.ReceiveWindow(3*time.Hour, cutOff)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.WithinDuration(t, start.Add(4*time.Hour), *w.Inputs["Drain"][0].(drain.Input).Closes, time.Second)
}

// A closed window lets running work finish; the emergency stop does not.
func TestTheEmergencyStopTakesPrecedenceOverAClosedWindow(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterAs("holds", func(ctx workflow.Context) ([]emergency.State, error) {
		closed := workflowtest.OpensAt(1, workflow.Now(ctx).Add(4*time.Hour))
		k := gates.HoldsOfWindow(ctx, closed)
		k.State = workflowtest.HeldState(1, drydockv1.HoldAll)
		held := k.ForCluster("c1")
		k.State = workflowtest.HeldState(2)
		return []emergency.State{held, k.ForCluster("c1")}, nil
	})
	w.TestWorkflowEnvironment.ExecuteWorkflow("holds")
	states := workflowtest.RequireResult[[]emergency.State](w)
	require.Equal(t, "ann", states[0].Of("c1").By)
	require.Equal(t, workflowtest.NightWindow, states[0].Closed("c1").Window, "it may cancel running nodes")
	require.Equal(t, workflowtest.NightWindow, states[1].Holds[0].Window)
}

// A notification is missing if no worker was running.
func TestNoNodeIsStartedAfterTheEndOfTheWindowWithoutANotification(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Duration = 20 * time.Minute
	in := workflowtest.OneCluster()
	in.Held = closesAt(1, w.Now().Add(10*time.Minute))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.EventsInOrder())
		require.Equal(t, emergency.ReasonWaitingForWindow, workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
	}, 10*time.Hour)
	w.ReleaseAfter(11*time.Hour, 2)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	require.Equal(t, int32(2), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestNoNodeIsCordonedAfterTheEndOfTheWindowWithoutANotification(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrLockRefused, "the lock is active again", nil)
		}
		return nil
	}
	in := workflowtest.MaintenanceOfRollout()
	in.Held = closesAt(2, w.Now().Add(nodemaintenance.LockRefusedPause/2))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodePending, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Len(t, w.Inputs["Cordon"], 1)
}

// overruns are the outcomes of a step whose attempts fail until its window closes. Only work that has started finishes.
var overruns = []struct {
	step   string
	action drydockv1.OverrunAction
	begins bool
}{
	{"AcquireNode", drydockv1.OverrunFinish, false},
	{"AcquireNode", drydockv1.OverrunPause, false},
	{"Cordon", drydockv1.OverrunFinish, false},
	{"Cordon", drydockv1.OverrunCancel, false},
	{"Drain", drydockv1.OverrunFinish, true},
	{"Drain", drydockv1.OverrunPause, false},
	{"RunJob", drydockv1.OverrunFinish, true},
	{"RunJob", drydockv1.OverrunPause, false},
}

// No attempt ends before the window closes, and no notification arrives, so only the activity knows the time.
func TestActivitiesOfANodeKnowWhenTheWindowCloses(t *testing.T) {
	for _, tt := range overruns {
		t.Run(tt.step+" "+string(tt.action), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			closes := start.Add(2 * time.Second)
			w.Locked = true
			open, again := workflowtest.OpenUntil(1, closes), workflowtest.OpenUntil(2, start.Add(28*time.Hour))
			open.OnOverrun, again.OnOverrun = tt.action, tt.action
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: open}
			began := w.UnreachableUntil(tt.step, closes)
			w.ReceiveWindow(24*time.Hour, again)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
			require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
			if tt.begins {
				require.WithinDuration(t, closes, *began, time.Minute, "started work finishes")
			} else {
				require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute, "it starts when the window opens again")
			}
		})
	}
}

// A node of a rollout receives the time from its parent.
func TestActivitiesOfARolloutKnowWhenTheWindowCloses(t *testing.T) {
	for _, tt := range overruns {
		t.Run(tt.step+" "+string(tt.action), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			closes := start.Add(2 * time.Second)
			w.Locked = true
			in := workflowtest.MaintenanceOfRollout()
			in.Held = closesAt(2, closes)
			if tt.action != drydockv1.OverrunFinish {
				in.Held.Closes.StopsAt = closes
			}
			began := w.UnreachableUntil(tt.step, closes)
			w.ReleaseAfter(24*time.Hour, 3)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			state := workflowtest.RequireResult[workflowtest.NodeStatus](w).State
			switch {
			case tt.begins:
				require.Equal(t, maintenancev1.NodeCompleted, state)
				require.WithinDuration(t, closes, *began, time.Minute, "started work finishes")
			case tt.step == "AcquireNode", tt.step == "Cordon":
				require.Equal(t, maintenancev1.NodePending, state, "it waits for another slot")
				require.Zero(t, *began)
			default:
				require.Equal(t, maintenancev1.NodeCompleted, state)
				require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute)
			}
		})
	}
}

func TestNoLocksAreRequestedAfterTheEndOfTheWindowWithoutANotification(t *testing.T) {
	w, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
	start := w.Now()
	closes := start.Add(2 * time.Second)
	in := workflowtest.OneCluster()
	in.Held = closesAt(1, closes)
	began := w.UnreachableUntil("RequestClusterMaintenance", closes)
	w.ReleaseAfter(24*time.Hour, 2)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	require.Equal(t, int32(1), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute)
}

func TestNodesReceiveTheStateOfWindowsWithEveryOverrunAction(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	var received []emergency.State
	nodes.Outcomes["w0"] = func(ctx workflow.Context) error {
		for range 2 {
			var state emergency.State
			workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
			received = append(received, state)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish)) }, time.Minute)
	w.ReleaseAfter(2*time.Minute, 3)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, workflowtest.NightWindow, received[0].Holds[0].Window)
	require.Empty(t, received[1].Holds)
}
