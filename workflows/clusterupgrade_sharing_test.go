package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// sharedWorld is a cluster of which the peer has node n1. Children that are told to join it do as the test says, and so do those that are not. It
// returns whom each child was told to join, in order.
func sharedWorld(t *testing.T, join, alone func(workflow.Context) (nodeStatus, error)) (*world, *[]scheduling.Asker) {
	w := newWorld(t)
	w.slots, w.nodes.Workers = 2, []string{"n1", "n2"}
	w.occupy(peer)
	var joined []scheduling.Asker
	w.registerAs(temporal.NodeMaintenance, func(ctx workflow.Context, in NodeMaintenanceInput) (nodeStatus, error) {
		if in.Join != nil {
			require.Nil(t, in.Slot)
			joined = append(joined, *in.Join)
			return join(ctx)
		}
		joined = append(joined, scheduling.Asker{})
		status, err := alone(ctx)
		if err == nil {
			giveBack(ctx, in)
		}
		return status, err
	})
	return w, &joined
}

// completesIn completes after a while.
func completesIn(d time.Duration) func(workflow.Context) (nodeStatus, error) {
	return func(ctx workflow.Context) (nodeStatus, error) {
		err := workflow.Sleep(ctx, d)
		return nodeStatus{State: maintenancev1.NodeCompleted, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}, err
	}
}

func TestARolloutIsDoneWithANodeThatTheMaintenanceWhichHadItHasReturned(t *testing.T) {
	w, joined := sharedWorld(t, completesIn(time.Hour), completesIn(time.Second))
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	result := requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, result.Nodes)
	require.ElementsMatch(t, []scheduling.Asker{{}, peer}, *joined)
	require.Len(t, w.book.Parties, 1, "it does not ask for a slot any more")
}

// As many nodes as one turn tells of are with the peer, and nearly as many have a slot at once.
func TestOneTaskDoesNotStartAllNodesThatHaveASlotAndJoinAllOthersAsWell(t *testing.T) {
	const nodes = 2*childrenAtOnce - 1
	w, joined := sharedWorld(t, completesIn(time.Hour), completesIn(time.Hour))
	w.nodes.Workers, w.slots = nil, nodes+1
	var taken []scheduling.Slot
	for i := range nodes {
		node := fmt.Sprintf("w%d", i)
		w.nodes.Workers = append(w.nodes.Workers, node)
		if i < childrenAtOnce {
			taken = append(taken, scheduling.Slot{
				Request:     scheduling.Request{Namespace: "gpu", Name: node, Node: node, Requestor: "gpu.example.com"},
				Maintenance: peer.WorkflowID, Number: int64(i + 2), Since: w.Now(),
			})
		}
	}
	w.RegisterDelayedCallback(func() { w.callScheduler(scheduling.Call{Asker: peer, Slots: taken}) }, 0)
	tasks := 0
	w.SetOnTimerScheduledListener(func(_ string, pause time.Duration) {
		if pause == time.Millisecond {
			tasks++
		}
	})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, ranv1.NodeCounts{Total: nodes, Done: nodes}, requireResult[ranv1.ClusterStatus](w).Nodes)
	require.Len(t, *joined, nodes)
	require.NotZero(t, tasks, "what is left has to wait for another task")
}

func TestANodeThatCannotBeSharedWaitsForASlotAndIsAskedForOnce(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"": func(*world) {},
		"though no slot is waited for meanwhile": func(w *world) {
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, heldState(2, drydockv1.HoldCluster("c1"))) }, 20*time.Minute)
			w.releaseAfter(40*time.Minute, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, joined := sharedWorld(t, func(workflow.Context) (nodeStatus, error) {
				return nodeStatus{State: maintenancev1.NodePending}, nil
			}, completesIn(time.Second))
			meanwhile(w)
			w.RegisterDelayedCallback(w.vacate, time.Hour)
			w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
			result := requireResult[ranv1.ClusterStatus](w)
			require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, result.Nodes)
			require.ElementsMatch(t, []scheduling.Asker{{}, peer, {}}, *joined)
			require.Greater(t, result.CompletedAt.Sub(result.StartedAt.Time), time.Hour)
		})
	}
}

// It had given the node back before it heard that it was asked, and refused for as long as it waited for the node again.
func TestAMaintenanceThatHasItsNodeAnewIsAskedOnceMoreToShareIt(t *testing.T) {
	asked := 0
	w, joined := sharedWorld(t, func(ctx workflow.Context) (nodeStatus, error) {
		if asked++; asked == 1 {
			return nodeStatus{State: maintenancev1.NodePending}, nil
		}
		return completesIn(time.Minute)(ctx)
	}, completesIn(time.Second))
	again := scheduling.Slot{
		Request:     scheduling.Request{Namespace: "gpu", Name: "n1", Node: "n1", Requestor: "gpu.example.com"},
		Maintenance: peer.WorkflowID, Number: 2, Since: w.Now().Add(-time.Hour),
	}
	w.RegisterDelayedCallback(func() {
		w.slots = 0 // nobody gets the node meanwhile
		w.vacate()
		w.callScheduler(scheduling.Call{Asker: peer, Slots: []scheduling.Slot{again}})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, 1, asked, "it waits for the node itself")
		w.slots = 2
		w.callScheduler(scheduling.Call{Asker: peer, Slots: []scheduling.Slot{again}})
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, requireResult[ranv1.ClusterStatus](w).Nodes)
	require.ElementsMatch(t, []scheduling.Asker{{}, peer, peer}, *joined)
}

func TestANodeThatWasLeftBecauseTheWindowClosedMayBeSharedInTheNextOne(t *testing.T) {
	closed := closedState(2, drydockv1.OverrunFinish)
	both := emergency.State{Number: 2, Holds: append(heldState(1, drydockv1.HoldCluster("c1")).Holds, closed.Holds...)}
	for name, state := range map[string]emergency.State{"": closed, "while the cluster is held": both} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			w, joined := sharedWorld(t, func(ctx workflow.Context) (nodeStatus, error) {
				if asked++; asked > 1 {
					return completesIn(time.Minute)(ctx)
				}
				workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, nil)
				return nodeStatus{State: maintenancev1.NodePending}, nil
			}, completesIn(time.Second))
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, state) }, time.Hour)
			w.releaseAfter(24*time.Hour, 3)
			w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
			require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, requireResult[ranv1.ClusterStatus](w).Nodes)
			require.ElementsMatch(t, []scheduling.Asker{{}, peer, peer}, *joined)
		})
	}
}

// A child that shares its node has left by itself before it hears that it is cancelled.
func TestANodeThatWasLeftBecauseTheWindowClosedIsReturnedWhenTheNextOneCloses(t *testing.T) {
	asked := 0
	w, joined := sharedWorld(t, func(ctx workflow.Context) (nodeStatus, error) {
		workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, nil)
		return nodeStatus{State: maintenancev1.NodePending}, nil
	}, func(ctx workflow.Context) (nodeStatus, error) {
		if asked++; asked == 1 {
			return completesIn(time.Second)(ctx)
		}
		return completesIn(time.Hour)(ctx)
	})
	closes := func(after time.Duration, number int64) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(number, drydockv1.OverrunCancel)) }, after)
	}
	closes(time.Hour, 2)
	w.RegisterDelayedCallback(w.vacate, 2*time.Hour)
	w.releaseAfter(24*time.Hour, 3)
	closes(24*time.Hour+30*time.Minute, 4)
	w.releaseAfter(48*time.Hour, 5)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, requireResult[ranv1.ClusterStatus](w).Nodes)
	require.ElementsMatch(t, []scheduling.Asker{{}, peer, {}, {}}, *joined)
}

func TestARolloutWhoseWorkIsAJobSharesNoNode(t *testing.T) {
	w, joined := sharedWorld(t, completesIn(time.Second), completesIn(time.Second))
	w.RegisterDelayedCallback(w.vacate, time.Hour)
	in := oneCluster()
	in.Remediation.Action = &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: "ops"}}
	w.ExecuteWorkflow(ClusterUpgrade, in)
	requireResult[ranv1.ClusterStatus](w)
	require.ElementsMatch(t, []scheduling.Asker{{}, {}}, *joined)
}

func TestARolloutThatHasFailedDoesNotWaitForWhoeverHasASharedNode(t *testing.T) {
	w, _ := sharedWorld(t, func(ctx workflow.Context) (nodeStatus, error) {
		err := workflow.Sleep(ctx, 1000*time.Hour)
		return nodeStatus{State: maintenancev1.NodeCancelled}, err
	}, func(ctx workflow.Context) (nodeStatus, error) {
		_ = workflow.Sleep(ctx, time.Hour)
		return nodeStatus{}, failsWith(maintenancev1.NodeFailed, temporal.ErrDrainTimedOut)(ctx)
	})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	result := requireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.Less(t, result.CompletedAt.Sub(result.StartedAt.Time), 2*time.Hour)
	require.Equal(t, int32(1), result.Nodes.Failed)
}
