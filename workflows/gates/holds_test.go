package gates_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func requireHeldWait(t *testing.T, s workflowtest.NodeStatus) {
	t.Helper()
	require.NotNil(t, s.Wait)
	require.Equal(t, emergency.ReasonHeld, s.Wait.Reason)
	require.Contains(t, s.Wait.Message, "by ann: flood")
	require.Contains(t, s.Wait.Message, "`drydock release --cluster c1`")
	require.Equal(t, "ann", s.Held.By)
}

// A running step of a held cluster finishes. The next disruptive step starts after the release.
func TestAHeldNodeStartsNoFurtherDisruption(t *testing.T) {
	for _, tt := range []struct {
		during string
		last   string
		next   string
		state  maintenancev1.NodeState
	}{
		{"CheckNodeMaintenance", "PlanMaintenance", "AcquireNode", maintenancev1.NodePending},
		{"AcquireNode", "AwaitNodeLocks", "Cordon", maintenancev1.NodeScheduled},
		{"AwaitNodeLocks", "AwaitNodeLocks", "Cordon", maintenancev1.NodeScheduled},
		{"Cordon", "AwaitPodCompletion", "Drain", maintenancev1.NodeWaitForPodCompletion},
		{"AwaitPodCompletion", "AwaitPodCompletion", "Drain", maintenancev1.NodeWaitForPodCompletion},
		{"Drain", "Drain", "RunJob", maintenancev1.NodeDraining},
	} {
		heldAfter(t, tt.during, func(t *testing.T, w *workflowtest.World) {
			w.Locked = true
			w.RegisterDelayedCallback(func() {
				called := w.Called()
				require.Equal(t, tt.last, called[len(called)-1])
				status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
				require.Equal(t, tt.state, status.State)
				requireHeldWait(t, status)
			}, 99*time.Hour)
			w.ReleaseAfter(100*time.Hour, 3)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

			status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.Nil(t, status.Held)
			require.Nil(t, status.Wait)
			called := w.Called()
			require.Equal(t, tt.next, called[slices.Index(called, tt.last)+1], "it continues after the release")
		})
	}
}

// heldAfter tests what happens if the cluster is held at the end of an activity: before the workflow learns of that end, and in the same workflow task, as
// when both happen while no worker runs.
func heldAfter(t *testing.T, during string, test func(*testing.T, *workflowtest.World)) {
	for name, send := range map[string]func(*workflowtest.World, string, any){
		"before its result": func(w *workflowtest.World, name string, payload any) { w.SignalWorkflow(name, payload) },
		"with its result": func(w *workflowtest.World, name string, payload any) {
			w.SignalWorkflowSkippingWorkflowTask(name, payload)
		},
	} {
		t.Run("after "+during+", "+name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Fail[during] = func(call int) error {
				if call == 1 {
					send(w, temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
				}
				return nil
			}
			test(t, w)
		})
	}
}

func TestAHeldNodeIsStillCheckedAndReturned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all"))
		return nil
	}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestAHeldNodeDoesNotBecomeReady(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all"))
		return nil
	}
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeDraining, status.State, "no requestor is notified of a ready node")
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
	}, time.Hour)
	w.ReleaseAfter(2*time.Hour, 3)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestANodeWithoutWorkIsReturnedWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all"))
		return nil
	}
	in := workflowtest.RequestorMaintenance()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestADrainIsNotRetriedWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = func(call int) error {
		if call > 1 {
			return nil
		}
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		return temporal.Error(temporal.ErrDrainTimedOut, "1 pod left", nil)
	}
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.Inputs["Drain"], 1)
		requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
	}, 99*time.Hour)
	w.ReleaseAfter(100*time.Hour, 3)
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Len(t, w.Inputs["Drain"], 2)
}

func TestAHeldMaintenanceIsCancelled(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run("by "+by, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Fail["AcquireNode"] = func(int) error {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
				return nil
			}
			w.RegisterDelayedCallback(func() {
				if by == "signal" {
					w.SignalWorkflow(temporal.SignalCancel, nil)
				} else {
					w.CancelWorkflow()
				}
			}, time.Hour)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
			require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
			require.Contains(t, w.Called(), "ReturnNode")
			require.NotContains(t, w.Called(), "Drain")
		})
	}
}

func TestANodeIsNotDisruptedWhileTheEmergencyStopIsUnknown(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.HoldsUnknown = true
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance"}, w.Called())
		require.Equal(t, emergency.ReasonUnknown, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, 99*time.Hour)
	w.ReleaseAfter(100*time.Hour, 1)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestAnOlderStateOfTheEmergencyStopIsIgnored(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Holds = workflowtest.HeldState(5, "cluster/c1")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(4)) }, time.Hour)
	w.RegisterDelayedCallback(func() { require.NotNil(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Held) }, 2*time.Hour)
	w.ReleaseAfter(3*time.Hour, 6)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestAHoldOfAnotherClusterHasNoEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Holds = workflowtest.HeldState(5, "cluster/c2")
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

// A node of a rollout receives the state from its parent, and does not subscribe.
func TestANodeOfARolloutIsHeldByTheStateThatItsParentSends(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.HoldsUnknown = true
	in := workflowtest.FullMaintenance()
	in.TaskQueue, in.Parent, in.Held = temporal.TaskQueue, "cgu/ops/june/c1", workflowtest.HeldState(2, "cluster/c1")
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.Called())
		requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
	}, time.Hour)
	w.ReleaseAfter(2*time.Hour, 3)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestAHeldClusterStartsNoNodeAndRunningNodesFinish(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 4, 2)
	nodes.Duration = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1")) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "+w1", "-w0", "-w1"}, nodes.EventsInOrder())
		status := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w)
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "by ann: flood")
		require.Equal(t, "ann", status.Held.By)
	}, 99*time.Hour)
	w.ReleaseAfter(100*time.Hour, 3)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, int32(4), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestAPausedAndHeldClusterResumesWhenBothHaveEnded(t *testing.T) {
	for _, last := range []string{"the release", "the resume"} {
		t.Run("with "+last, func(t *testing.T) {
			w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
			in := workflowtest.OneCluster()
			in.Held = workflowtest.HeldState(2, "all")
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 0)
			release := func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3)) }
			resume := func() { w.SignalWorkflow(temporal.SignalResume, nil) }
			ends := []func(){resume, release}
			if last == "the resume" {
				slices.Reverse(ends)
			}
			w.RegisterDelayedCallback(ends[0], time.Hour)
			w.RegisterDelayedCallback(func() { require.Empty(t, nodes.Events) }, 2*time.Hour)
			w.RegisterDelayedCallback(ends[1], 3*time.Hour)
			w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
			require.Equal(t, int32(2), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
		})
	}
}

func TestAClusterThatIsHeldFromTheStartRequestsNoLocks(t *testing.T) {
	w, _ := workflowtest.NewClusterWorld(t, 1, 1, 1)
	in := workflowtest.OneCluster()
	in.Held = workflowtest.HeldState(2, "cluster/c1")
	w.RegisterDelayedCallback(func() {
		require.NotContains(t, w.Called(), "RequestClusterMaintenance")
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	require.Equal(t, ranv1.ClusterCancelled, workflowtest.RequireCancelled[ranv1.ClusterStatus](w).State)
}

func TestAClusterPassesHoldsOnToItsNodes(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	var received [][]string
	nodes.Outcomes["w0"] = func(ctx workflow.Context) error {
		for range 2 {
			var state emergency.State
			workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
			received = append(received, workflowtest.Scopes(state))
		}
		return nil
	}
	for i, state := range []emergency.State{workflowtest.HeldState(2, "cluster/c2"), workflowtest.HeldState(3, "cluster/c1", "cluster/c2"), workflowtest.HeldState(4, "cluster/c2")} {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, state) }, time.Duration(i+1)*time.Minute)
	}
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, [][]string{{"cluster/c1"}, {}}, received)
}
