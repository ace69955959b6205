package gates_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

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
		require.Equal(t, "flood", status.Clusters[4].Held.Reason, "it was held before its batch starts")
		require.Empty(t, status.Clusters[4].Reason, "but it does not wait for the release yet")
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

// Both happen while no worker runs, such as before the first one after a restore of Temporal.
func TestARolloutThatIsHeldInTheTaskInWhichItsBatchBeginsWaits(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["LookUpClusters"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHeld, workflowtest.HeldState(2, "all"))
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { require.Empty(t, clusters.Events) }, 99*time.Hour)
	w.ReceiveHolds(100*time.Hour, workflowtest.HeldState(3))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
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
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete, "the timeout excludes the wait")
}

func TestTheTimeoutOfABatchExcludesHeldTime(t *testing.T) {
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
	w.Holds = workflowtest.HeldState(2, "cluster/c2", "cluster/other")
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
	received := map[string][][]string{}
	receives := func(cluster string, times int) func(workflow.Context) error {
		return func(ctx workflow.Context) error {
			for range times {
				var state emergency.State
				workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
				received[cluster] = append(received[cluster], workflowtest.Scopes(state))
			}
			return nil
		}
	}
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = receives("c1", 2), receives("c2", 4)
	for i, state := range []emergency.State{workflowtest.HeldState(2, "cluster/c2"), workflowtest.HeldState(3), workflowtest.HeldState(4, "all"), workflowtest.HeldState(5)} {
		w.ReceiveHolds(time.Duration(i+1)*time.Minute, state)
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, [][]string{{"all"}, {}}, received["c1"])
	require.Equal(t, [][]string{{"cluster/c2"}, {}, {"all"}, {}}, received["c2"])
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
