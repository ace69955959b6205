package workflows

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

func (w *world) releaseAfter(d time.Duration, number int64) {
	w.simulateAfter(d, func() { w.SignalWorkflow(temporal.SignalHeld, heldState(number)) })
}

func requireHeldWait(t *testing.T, s nodeStatus) {
	t.Helper()
	require.NotNil(t, s.Wait)
	require.Equal(t, emergency.ReasonHeld, s.Wait.Reason)
	require.Contains(t, s.Wait.Message, "by ann: flood")
	require.Contains(t, s.Wait.Message, "`drydock release --cluster c1`")
	require.Equal(t, "ann", s.Held.By)
}

// A step that is at work when its cluster is held finishes; the next one that disrupts does not begin until the release.
func TestAHeldNodeStartsNoFurtherDisruption(t *testing.T) {
	for _, tt := range []struct {
		during string
		last   string
		next   string
		state  maintenancev1.NodeState
	}{
		{"CheckNodeMaintenance", "PlanMaintenance", "TakeNode", maintenancev1.NodePending},
		{"TakeNode", "AwaitNodeLocks", "Cordon", maintenancev1.NodeScheduled},
		{"AwaitNodeLocks", "AwaitNodeLocks", "Cordon", maintenancev1.NodeScheduled},
		{"Cordon", "AwaitPodCompletion", "Drain", maintenancev1.NodeWaitForPodCompletion},
		{"AwaitPodCompletion", "AwaitPodCompletion", "Drain", maintenancev1.NodeWaitForPodCompletion},
		{"Drain", "Drain", "RunJob", maintenancev1.NodeDraining},
	} {
		t.Run("after "+tt.during, func(t *testing.T) {
			w := newWorld(t)
			w.locked = true
			w.fail[tt.during] = func(call int) error {
				if call == 1 {
					w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				called := w.called()
				require.Equal(t, tt.last, called[len(called)-1])
				status := statusOf[nodeStatus](w)
				require.Equal(t, tt.state, status.State)
				requireHeldWait(t, status)
			}, 99*time.Hour)
			w.releaseAfter(100*time.Hour, 3)
			w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

			status := requireResult[nodeStatus](w)
			require.Nil(t, status.Held)
			require.Nil(t, status.Wait)
			called := w.called()
			require.Equal(t, tt.next, called[slices.Index(called, tt.last)+1], "after the release it goes on")
		})
	}
}

func TestWhatIsHeldIsCheckedAndReturnedAllTheSame(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, "all"))
		return nil
	}
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	status := requireResult[nodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, w.called(), "AwaitNodeHealthy")
	require.Contains(t, w.called(), "ReturnNode")
}

func TestAHeldNodeIsNotHandedOver(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, "all"))
		return nil
	}
	w.RegisterDelayedCallback(func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeDraining, status.State, "nobody is told that the node is ready")
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
	}, time.Hour)
	w.releaseAfter(2*time.Hour, 3)
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
}

func TestANodeThatNobodyWorksOnIsReturnedWhileHeld(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, "all"))
		return nil
	}
	in := handOver()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

func TestADrainIsNotTriedAgainWhileHeld(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = func(call int) error {
		if call > 1 {
			return nil
		}
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
		return temporal.Error(temporal.ErrDrainTimedOut, "1 pod left", nil)
	}
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.inputs["Drain"], 1)
		requireHeldWait(t, statusOf[nodeStatus](w))
	}, 99*time.Hour)
	w.releaseAfter(100*time.Hour, 3)
	in := wholeMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.Len(t, w.inputs["Drain"], 2)
}

func TestAHeldMaintenanceIsCancelled(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run("by "+by, func(t *testing.T) {
			w := newWorld(t)
			w.fail["TakeNode"] = func(int) error {
				w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
				return nil
			}
			w.RegisterDelayedCallback(func() {
				if by == "signal" {
					w.SignalWorkflow(temporal.SignalCancel, nil)
				} else {
					w.CancelWorkflow()
				}
			}, time.Hour)
			w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
			require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
			require.Contains(t, w.called(), "ReturnNode")
			require.NotContains(t, w.called(), "Drain")
		})
	}
}

func TestUntilItIsKnownWhatIsHeldANodeIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.untold = true
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance"}, w.called())
		require.Equal(t, emergency.ReasonUnknown, statusOf[nodeStatus](w).Wait.Reason)
	}, 99*time.Hour)
	w.releaseAfter(100*time.Hour, 1)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
}

func TestWhatIsSaidLateAboutAHoldCountsNoMore(t *testing.T) {
	w := newWorld(t)
	w.held = heldState(5, "cluster/c1")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, heldState(4)) }, time.Hour)
	w.RegisterDelayedCallback(func() { require.NotNil(t, statusOf[nodeStatus](w).Held) }, 2*time.Hour)
	w.releaseAfter(3*time.Hour, 6)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
}

func TestTheHoldOfAnotherClusterHoldsNobodyHere(t *testing.T) {
	w := newWorld(t)
	w.held = heldState(5, "cluster/c2")
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
}

// Of a rollout's nodes, each knows what its parent knows, and asks nobody.
func TestANodeOfARolloutIsHeldByWhatItsParentSays(t *testing.T) {
	w := newWorld(t)
	w.untold = true
	in := wholeMaintenance()
	in.TaskQueue, in.Parent, in.Held = temporal.TaskQueue, "cgu/ops/june/c1", heldState(2, "cluster/c1")
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.called())
		requireHeldWait(t, statusOf[nodeStatus](w))
	}, time.Hour)
	w.releaseAfter(2*time.Hour, 3)
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
}

func TestAHeldClusterStartsNoNodeAndThoseAtWorkFinish(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 4, 2)
	nodes.takes = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1")) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "+w1", "-w0", "-w1"}, nodes.story())
		status := statusOf[ranv1.ClusterUpgradeStatus](w)
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "by ann: flood")
		require.Equal(t, "ann", status.Held.By)
	}, 99*time.Hour)
	w.releaseAfter(100*time.Hour, 3)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, int32(4), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestAClusterThatIsPausedAndHeldGoesOnWhenBothHaveEnded(t *testing.T) {
	for _, last := range []string{"the release", "the resume"} {
		t.Run("with "+last, func(t *testing.T) {
			w, nodes := newClusterWorld(t, 0, 2, 1)
			in := oneCluster()
			in.Held = heldState(2, "all")
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 0)
			release := func() { w.SignalWorkflow(temporal.SignalHeld, heldState(3)) }
			resume := func() { w.SignalWorkflow(temporal.SignalResume, nil) }
			ends := []func(){resume, release}
			if last == "the resume" {
				slices.Reverse(ends)
			}
			w.RegisterDelayedCallback(ends[0], time.Hour)
			w.RegisterDelayedCallback(func() { require.Empty(t, nodes.events) }, 2*time.Hour)
			w.RegisterDelayedCallback(ends[1], 3*time.Hour)
			w.ExecuteWorkflow(ClusterUpgrade, in)
			require.Equal(t, int32(2), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
		})
	}
}

func TestAClusterThatIsHeldFromTheStartAsksItsWorkloadsForNothing(t *testing.T) {
	w, _ := newClusterWorld(t, 1, 1, 1)
	in := oneCluster()
	in.Held = heldState(2, "cluster/c1")
	w.RegisterDelayedCallback(func() {
		require.NotContains(t, w.called(), "RequestClusterMaintenance")
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, in)
	require.Equal(t, ranv1.ClusterCancelled, requireCancelled[ranv1.ClusterStatus](w).State)
}

func TestAClusterPassesOnToItsNodesWhatConcernsThem(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 1, 1)
	var heard [][]string
	nodes.ends["w0"] = func(ctx workflow.Context) error {
		for range 2 {
			var state emergency.State
			workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
			heard = append(heard, scopes(state))
		}
		return nil
	}
	for i, state := range []emergency.State{heldState(2, "cluster/c2"), heldState(3, "cluster/c1", "cluster/c2"), heldState(4, "cluster/c2")} {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, state) }, time.Duration(i+1)*time.Minute)
	}
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, [][]string{{"cluster/c1"}, {}}, heard)
}

// hear lets the emergency stop say something a while after the rollout began.
func (w *world) hear(after time.Duration, state emergency.State) {
	w.simulateAfter(after, func() { w.SignalWorkflow(temporal.SignalHeld, state) })
}

func TestARolloutStartsNoHeldClusterAndTheOthersGoOn(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2", "c3"}, []string{"c4", "c5"})
	w.held = heldState(2, "cluster/c2", "cluster/c5")
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "+c3", "-c1", "-c3"}, clusters.story())
		status := statusOf[groupStatus](w)
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
	w.hear(100*time.Hour, heldState(3))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

	status := requireResult[groupStatus](w)
	require.Equal(t, int32(5), status.Counts.Complete)
	require.Nil(t, status.Held)
	require.Nil(t, status.Clusters[1].Held)
}

func TestARolloutThatIsStartedWhileAllIsHeldWaitsAndSaysSo(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.held = heldState(2, "all")
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.events)
		status := statusOf[groupStatus](w)
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "every cluster is held")
		require.Contains(t, status.Wait.Message, "`drydock release --all`")
		require.Equal(t, ranv1.ClusterPending, status.Clusters[0].State)
		require.NotNil(t, status.Clusters[0].Held)
		require.Nil(t, status.Clusters[1].Held, "its turn has not come, and the rollout says that all are held")
		require.Nil(t, status.Status.Deadline)
	}, 99*time.Hour)
	w.hear(100*time.Hour, heldState(3))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
}

func TestUntilItIsKnownWhatIsHeldARolloutStartsNothing(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	w.untold = true
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.events)
		require.Equal(t, emergency.ReasonUnknown, statusOf[groupStatus](w).Wait.Reason)
	}, 99*time.Hour)
	w.hear(100*time.Hour, heldState(1))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete, "the wait is not charged")
}

func TestHeldTimeIsNotChargedToTheBatch(t *testing.T) {
	for _, scope := range []drydockv1.HoldScope{"all", "cluster/c1"} {
		t.Run(string(scope), func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"})
			clusters.ends["c1"] = never
			start := w.Now()
			w.hear(20*time.Minute, heldState(2, scope))
			w.RegisterDelayedCallback(func() {
				require.Nil(t, statusOf[groupStatus](w).Status.CurrentBatchDeadline)
				require.Nil(t, statusOf[groupStatus](w).Status.Deadline)
			}, 5*time.Hour)
			w.hear(10*time.Hour, heldState(3))
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})

			requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
			require.WithinDuration(t, start.Add(10*time.Hour+40*time.Minute+time.Minute), w.Now(), 5*time.Second)
		})
	}
}

func TestTheClockRunsWhileAClusterOfAnotherBatchIsHeld(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = never
	start := w.Now()
	w.held = heldState(2, "cluster/c2", "cluster/elsewhere")
	w.when(func() bool { return clusterStates(statusOf[groupStatus](w))["c1"] == ranv1.ClusterTimedOut }, func() {
		require.WithinDuration(t, start.Add(31*time.Minute), w.Now(), 5*time.Second)
		require.Equal(t, emergency.ReasonHeld, statusOf[groupStatus](w).Wait.Reason)
	})
	w.hear(100*time.Hour, heldState(3))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, ranv1.ClusterComplete, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonTimedOut))["c2"])
}

func TestTheClockRunsAgainWhenTheHeldClusterOfABatchIsOver(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	clusters.ends["c2"] = never
	clusters.takes = 10 * time.Hour
	start := w.Now()
	w.hear(20*time.Minute, heldState(2, "cluster/c1"))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	require.Equal(t, ranv1.ClusterComplete, clusterStates(requireFailure[groupStatus](w, ranv1.ReasonTimedOut))["c1"])
	require.WithinDuration(t, start.Add(10*time.Hour+41*time.Minute), w.Now(), 5*time.Second)
}

func TestARolloutThatIsPausedAndHeldGoesOnWhenBothHaveEnded(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	clusters.ends["c1"] = never
	start := w.Now()
	pause := func(after time.Duration, signal string) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signal, temporal.SignalRequest{Actor: "bob"}) }, after)
	}
	pause(10*time.Minute, temporal.SignalPause)
	w.hear(20*time.Minute, heldState(2, "all"))
	pause(5*time.Hour, temporal.SignalResume)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, emergency.ReasonHeld, statusOf[groupStatus](w).Wait.Reason)
		require.Nil(t, statusOf[groupStatus](w).Status.Deadline)
	}, 6*time.Hour)
	pause(7*time.Hour, temporal.SignalPause)
	w.hear(8*time.Hour, heldState(3))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "Paused", statusOf[groupStatus](w).Wait.Reason)
		require.Nil(t, statusOf[groupStatus](w).Status.Deadline)
	}, 9*time.Hour)
	pause(10*time.Hour, temporal.SignalResume)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(10*time.Hour+50*time.Minute+time.Minute), w.Now(), 5*time.Second)
}

func TestAHeldRolloutIsCancelled(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	clusters.ends["c1"] = never
	w.held = heldState(2, "cluster/c2")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	states := clusterStates(requireCancelled[groupStatus](w))
	require.Equal(t, ranv1.ClusterCancelled, states["c1"])
	require.Equal(t, ranv1.ClusterPending, states["c2"])
}

func TestHoldsReachTheClustersAtWorkThatTheyConcern(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	heard := map[string][][]string{}
	hears := func(cluster string, times int) func(workflow.Context) error {
		return func(ctx workflow.Context) error {
			for range times {
				var state emergency.State
				workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
				heard[cluster] = append(heard[cluster], scopes(state))
			}
			return nil
		}
	}
	clusters.ends["c1"], clusters.ends["c2"] = hears("c1", 2), hears("c2", 4)
	for i, state := range []emergency.State{heldState(2, "cluster/c2"), heldState(3), heldState(4, "all"), heldState(5)} {
		w.hear(time.Duration(i+1)*time.Minute, state)
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	requireResult[groupStatus](w)
	require.Equal(t, [][]string{{"all"}, {}}, heard["c1"])
	require.Equal(t, [][]string{{"cluster/c2"}, {}, {"all"}, {}}, heard["c2"])
}

func TestAHeldRolloutContinuesAsNewAndStaysHeld(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.held = heldState(7, "cluster/c2")
	clusters.ends["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in ClusterGroupUpgradeInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, int64(7), in.Carried.Held.Number)

	second, again := newGroupWorld(t)
	second.untold = true // nobody asks again
	second.RegisterDelayedCallback(func() {
		require.Empty(t, again.events)
		require.Equal(t, "ann", statusOf[groupStatus](second).Held.By)
	}, time.Hour)
	second.hear(2*time.Hour, heldState(8))
	second.ExecuteWorkflow(ClusterGroupUpgrade, in)
	require.Equal(t, int32(2), requireResult[groupStatus](second).Counts.Complete)
}

// What is only tried again and again has not begun: while its cluster is held it does not, whenever the cluster answers again.
func TestWhatHasOnlyBeenTriedDoesNotBeginWhileHeld(t *testing.T) {
	for _, step := range []string{"TakeNode", "Cordon", "Drain", "RunJob"} {
		for name, held := range map[string]struct {
			after int
			err   error
		}{
			"between rounds": {roundAttempts, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)},
			"in a round":     {1, temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)},
		} {
			if step == "RunJob" && held.after == roundAttempts {
				continue // it may be at work
			}
			t.Run(step+" "+name, func(t *testing.T) {
				w := newWorld(t)
				w.locked = true
				w.fail[step] = func(call int) error {
					if call == held.after {
						w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
					}
					if call <= held.after {
						return held.err
					}
					return nil
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, w.inputsOf(step), held.after)
					requireHeldWait(t, statusOf[nodeStatus](w))
				}, 99*time.Hour)
				w.releaseAfter(100*time.Hour, 3)
				w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

				require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
				inputs := w.inputsOf(step)
				require.Len(t, inputs, held.after+1)
				if drain, ok := inputs[held.after].(activities.DrainInput); ok {
					require.Equal(t, int32(1), drain.Attempt)
					require.True(t, drain.Deadline.After(w.Now()), "it has all its time")
				}
			})
		}
	}
}

// unseenJob is a Job of which nobody has heard when its cluster is held: attempts at it were not answered. Then come those ends, one after the other.
func unseenJob(w *world, ends ...error) NodeMaintenanceInput {
	w.fail["RunJob"] = func(call int) error {
		if call == roundAttempts {
			w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
		}
		if call <= roundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return ends[min(call-roundAttempts, len(ends))-1]
	}
	in := wholeMaintenance()
	in.Object.Spec.Action.Job.TimeoutSeconds = 3600
	return in
}

func TestAJobThatIsAtWorkThoughNobodyHasHeardOfItIsLookedAfterWhileHeld(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.ExecuteWorkflow(NodeMaintenance, unseenJob(w, nil))
	require.Equal(t, "ann", requireResult[nodeStatus](w).Held.By, "it is done, and its node returned, before the release")
	first, second := w.inputs["RunJob"][0].(activities.RunJobInput), w.inputs["RunJob"][roundAttempts].(activities.RunJobInput)
	require.Nil(t, first.Held)
	require.Equal(t, "ann", second.Held.By, "it is not created now")
	require.Equal(t, first.Deadline, second.Deadline)
	require.WithinDuration(t, start, w.Now(), 10*time.Minute)
}

func TestAJobThatWasNotCreatedBeforeTheHoldHasAllItsTimeAfterTheRelease(t *testing.T) {
	unanswered := temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	for name, ends := range map[string][]error{
		"the cluster answers":         {temporal.Error(temporal.ErrHeld, "there is no job", nil), nil},
		"the cluster does not answer": {unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			in := unseenJob(w, ends...)
			w.RegisterDelayedCallback(func() {
				require.Less(t, len(w.inputsOf("RunJob")), 500)
				requireHeldWait(t, statusOf[nodeStatus](w))
				w.fail["RunJob"] = nil
			}, 99*time.Hour)
			w.releaseAfter(100*time.Hour, 3)
			w.ExecuteWorkflow(NodeMaintenance, in)
			requireResult[nodeStatus](w)
			jobs := w.inputs["RunJob"]
			last := jobs[len(jobs)-1].(activities.RunJobInput)
			require.Nil(t, last.Held)
			require.WithinDuration(t, start.Add(101*time.Hour), *last.Deadline, time.Minute)
		})
	}
}

func TestADrainThatHasBegunGoesOnWhileHeld(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{Evicted: 1}})
			w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
		}
		if call <= roundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { require.Len(t, w.inputsOf("Drain"), roundAttempts+1) }, time.Hour)
	w.releaseAfter(2*time.Hour, 3)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
}

func TestANodeThatWasTriedToBeTakenMayBeOutOfService(t *testing.T) {
	w := newWorld(t)
	w.fail["TakeNode"] = func(call int) error {
		if call == 1 {
			return errors.New("the answer was lost")
		}
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1"))
		return temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)
	}
	w.fail["ReturnNode"] = always(temporal.Error(temporal.ErrInvalidSpec, "refused", nil))
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.True(t, requireFailure[nodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
}
