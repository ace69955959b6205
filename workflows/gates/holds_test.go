package gates_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/drydock/activities/drain"
	jobsactivities "drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/rollout"
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
		t.Run("after "+tt.during, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Locked = true
			w.Fail[tt.during] = func(call int) error {
				if call == 1 {
					w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
				}
				return nil
			}
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
	var heard [][]string
	nodes.Outcomes["w0"] = func(ctx workflow.Context) error {
		for range 2 {
			var state emergency.State
			workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
			heard = append(heard, workflowtest.Scopes(state))
		}
		return nil
	}
	for i, state := range []emergency.State{workflowtest.HeldState(2, "cluster/c2"), workflowtest.HeldState(3, "cluster/c1", "cluster/c2"), workflowtest.HeldState(4, "cluster/c2")} {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, state) }, time.Duration(i+1)*time.Minute)
	}
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, [][]string{{"cluster/c1"}, {}}, heard)
}

func TestARolloutStartsNoHeldClusterAndContinuesWithTheOthers(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2", "c3"}, []string{"c4", "c5"})
	w.Holds = workflowtest.HeldState(2, "cluster/c2", "cluster/c5")
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "+c3", "-c1", "-c3"}, clusters.EventsInOrder())
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "cluster c2 is held since")
		require.Contains(t, status.Wait.Message, "by ann: flood")
		require.Equal(t, "Held; Maintaining nodes", meta.FindStatusCondition(status.Conditions, ranv1.ConditionProgressing).Message)
		require.Equal(t, "ann", status.Held.By)
		require.Equal(t, emergency.ReasonHeld, status.Clusters[1].Reason)
		require.Equal(t, "flood", status.Clusters[1].Held.Reason)
		require.Nil(t, status.Clusters[3].Held)
		require.Equal(t, "flood", status.Clusters[4].Held.Reason, "it is held already when its turn comes")
		require.Empty(t, status.Clusters[4].Reason, "but it does not wait for that now")
	}, 99*time.Hour)
	w.ReceiveHolds(100*time.Hour, workflowtest.HeldState(3))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, int32(5), status.Counts.Complete)
	require.Nil(t, status.Held)
	require.Nil(t, status.Clusters[1].Held)
}

func TestARolloutThatIsStartedDuringAHoldOfAllClustersWaits(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Holds = workflowtest.HeldState(2, "all")
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "every cluster is held")
		require.Contains(t, status.Wait.Message, "`drydock release --all`")
		require.Equal(t, ranv1.ClusterPending, status.Clusters[0].State)
		require.NotNil(t, status.Clusters[0].Held)
		require.Nil(t, status.Clusters[1].Held, "it is not in this batch, and the rollout shows the hold of all clusters")
		require.Nil(t, status.Status.Deadline)
	}, 99*time.Hour)
	w.ReceiveHolds(100*time.Hour, workflowtest.HeldState(3))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
}

func TestARolloutStartsNothingWhileTheEmergencyStopIsUnknown(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.HoldsUnknown = true
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		require.Equal(t, emergency.ReasonUnknown, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
	}, 99*time.Hour)
	w.ReceiveHolds(100*time.Hour, workflowtest.HeldState(1))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete, "the wait is not charged")
}

func TestHeldTimeIsNotChargedToTheBatch(t *testing.T) {
	for _, scope := range []drydockv1.HoldScope{"all", "cluster/c1"} {
		t.Run(string(scope), func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
			clusters.Outcomes["c1"] = workflowtest.UntilCancelled
			start := w.Now()
			w.ReceiveHolds(20*time.Minute, workflowtest.HeldState(2, scope))
			w.RegisterDelayedCallback(func() {
				require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline)
				require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.Deadline)
			}, 5*time.Hour)
			w.ReceiveHolds(10*time.Hour, workflowtest.HeldState(3))
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})

			workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
			require.WithinDuration(t, start.Add(10*time.Hour+40*time.Minute+time.Minute), w.Now(), 5*time.Second)
		})
	}
}

func TestTheClockRunsWhileAClusterOfAnotherBatchIsHeld(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	start := w.Now()
	w.Holds = workflowtest.HeldState(2, "cluster/c2", "cluster/elsewhere")
	w.When(func() bool {
		return workflowtest.ClusterStates(workflowtest.StatusOf[workflowtest.GroupStatus](w))["c1"] == ranv1.ClusterTimedOut
	}, func() {
		require.WithinDuration(t, start.Add(31*time.Minute), w.Now(), 5*time.Second)
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
	})
	w.ReceiveHolds(100*time.Hour, workflowtest.HeldState(3))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	require.Equal(t, ranv1.ClusterComplete, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut))["c2"])
}

func TestTheClockRunsAgainWhenTheHeldClusterOfABatchEnds(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	clusters.Duration = 10 * time.Hour
	start := w.Now()
	w.ReceiveHolds(20*time.Minute, workflowtest.HeldState(2, "cluster/c1"))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	require.Equal(t, ranv1.ClusterComplete, workflowtest.ClusterStates(workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut))["c1"])
	require.WithinDuration(t, start.Add(10*time.Hour+41*time.Minute), w.Now(), 5*time.Second)
}

func TestAPausedAndHeldRolloutResumesWhenBothHaveEnded(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	start := w.Now()
	pause := func(after time.Duration, signal string) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signal, temporal.SignalRequest{Actor: "bob"}) }, after)
	}
	pause(10*time.Minute, temporal.SignalPause)
	w.ReceiveHolds(20*time.Minute, workflowtest.HeldState(2, "all"))
	pause(5*time.Hour, temporal.SignalResume)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.Deadline)
	}, 6*time.Hour)
	pause(7*time.Hour, temporal.SignalPause)
	w.ReceiveHolds(8*time.Hour, workflowtest.HeldState(3))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "Paused", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
		require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.Deadline)
	}, 9*time.Hour)
	pause(10*time.Hour, temporal.SignalResume)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(10*time.Hour+50*time.Minute+time.Minute), w.Now(), 5*time.Second)
}

func TestAHeldRolloutIsCancelled(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	w.Holds = workflowtest.HeldState(2, "cluster/c2")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	states := workflowtest.ClusterStates(workflowtest.RequireCancelled[workflowtest.GroupStatus](w))
	require.Equal(t, ranv1.ClusterCancelled, states["c1"])
	require.Equal(t, ranv1.ClusterPending, states["c2"])
}

func TestHoldsReachTheRunningClustersThatTheyApplyTo(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	heard := map[string][][]string{}
	hears := func(cluster string, times int) func(workflow.Context) error {
		return func(ctx workflow.Context) error {
			for range times {
				var state emergency.State
				workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
				heard[cluster] = append(heard[cluster], workflowtest.Scopes(state))
			}
			return nil
		}
	}
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = hears("c1", 2), hears("c2", 4)
	for i, state := range []emergency.State{workflowtest.HeldState(2, "cluster/c2"), workflowtest.HeldState(3), workflowtest.HeldState(4, "all"), workflowtest.HeldState(5)} {
		w.ReceiveHolds(time.Duration(i+1)*time.Minute, state)
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, [][]string{{"all"}, {}}, heard["c1"])
	require.Equal(t, [][]string{{"cluster/c2"}, {}, {"all"}, {}}, heard["c2"])
}

func TestAHeldRolloutContinuesAsNewAndStaysHeld(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Holds = workflowtest.HeldState(7, "cluster/c2")
	clusters.Outcomes["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in rollout.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, int64(7), in.PreviousRun.Held.Number)

	second, again := workflowtest.NewGroupWorld(t)
	second.HoldsUnknown = true // no new subscription
	second.RegisterDelayedCallback(func() {
		require.Empty(t, again.Events)
		require.Equal(t, "ann", workflowtest.StatusOf[workflowtest.GroupStatus](second).Held.By)
	}, time.Hour)
	second.ReceiveHolds(2*time.Hour, workflowtest.HeldState(8))
	second.ExecuteWorkflow(rollout.ClusterGroupUpgrade, in)
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](second).Counts.Complete)
}

// An effect whose attempts all failed has not started. It does not start while the cluster is held, even if the cluster answers again.
func TestAnEffectThatHasOnlyBeenAttemptedWaitsWhileHeld(t *testing.T) {
	for _, step := range []string{"AcquireNode", "Cordon", "Drain", "RunJob"} {
		for name, held := range map[string]struct {
			after int
			err   error
		}{
			"between rounds": {kit.RoundAttempts, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)},
			"in a round":     {1, temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)},
		} {
			if step == "RunJob" && held.after == kit.RoundAttempts {
				continue // it may be running
			}
			t.Run(step+" "+name, func(t *testing.T) {
				w := workflowtest.NewWorld(t)
				w.Locked = true
				w.Fail[step] = func(call int) error {
					if call == held.after {
						w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
					}
					if call <= held.after {
						return held.err
					}
					return nil
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, w.InputsOf(step), held.after)
					requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
				}, 99*time.Hour)
				w.ReleaseAfter(100*time.Hour, 3)
				w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

				require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
				inputs := w.InputsOf(step)
				require.Len(t, inputs, held.after+1)
				if drain, ok := inputs[held.after].(drain.Input); ok {
					require.Equal(t, int32(1), drain.Attempt)
					require.True(t, drain.Deadline.After(w.Now()), "it has all its time")
				}
			})
		}
	}
}

// unseenJob is a Job whose creation was never answered before its cluster is held. Its later attempts end with those errors in order.
func unseenJob(w *workflowtest.World, ends ...error) nodemaintenance.Input {
	w.Fail["RunJob"] = func(call int) error {
		if call == kit.RoundAttempts {
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return ends[min(call-kit.RoundAttempts, len(ends))-1]
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.Action.Job.TimeoutSeconds = 3600
	return in
}

func TestARunningJobWhoseCreationWasNotReportedIsWatchedWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, unseenJob(w, nil))
	require.Equal(t, "ann", workflowtest.RequireResult[workflowtest.NodeStatus](w).Held.By, "it is done, and its node returned, before the release")
	first, second := w.Inputs["RunJob"][0].(jobsactivities.RunJobInput), w.Inputs["RunJob"][kit.RoundAttempts].(jobsactivities.RunJobInput)
	require.Nil(t, first.Held)
	require.Equal(t, "ann", second.Held.By, "it is not created now")
	require.Equal(t, first.Deadline, second.Deadline)
	require.WithinDuration(t, start, w.Now(), 10*time.Minute)
}

func TestAJobThatWasNotCreatedBeforeTheHoldHasItsFullTimeAfterTheRelease(t *testing.T) {
	unanswered := temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	for name, ends := range map[string][]error{
		"the cluster answers":         {temporal.Error(temporal.ErrHeld, "there is no job", nil), nil},
		"the cluster does not answer": {unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			in := unseenJob(w, ends...)
			w.RegisterDelayedCallback(func() {
				require.Less(t, len(w.InputsOf("RunJob")), 500)
				requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
				w.Fail["RunJob"] = nil
			}, 99*time.Hour)
			w.ReleaseAfter(100*time.Hour, 3)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			jobs := w.Inputs["RunJob"]
			last := jobs[len(jobs)-1].(jobsactivities.RunJobInput)
			require.Nil(t, last.Held)
			require.WithinDuration(t, start.Add(101*time.Hour), *last.Deadline, time.Minute)
		})
	}
}

func TestARunningDrainContinuesWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{Evicted: 1}})
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { require.Len(t, w.InputsOf("Drain"), kit.RoundAttempts+1) }, time.Hour)
	w.ReleaseAfter(2*time.Hour, 3)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestANodeWithAnAttemptedCordonMayBeOutOfService(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["AcquireNode"] = func(call int) error {
		if call == 1 {
			return errors.New("the answer was lost")
		}
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		return temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)
	}
	w.Fail["ReturnNode"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "refused", nil))
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
}
