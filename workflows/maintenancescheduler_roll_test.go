package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

func granted(slot scheduling.Slot) scheduling.Slot {
	slot.Granted = true
	return slot
}

func TestASchedulerThatRemembersNothingGrantsNothingUntilItKnowsWhoHasSlots(t *testing.T) {
	w := newSchedulerWorld(t)
	w.askers = []string{"july", "august"}
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) },
		func() {
			require.Empty(t, w.grants())
			require.Subset(t, w.called, []string{"july", "august"})
			wait := statusOf[MaintenanceSchedulerStatus](w.world).Wait
			require.Equal(t, scheduling.ReasonAskersUnknown, wait.Reason)
			require.Contains(t, wait.Message, "july, august")
			w.call("july", scheduling.Call{Slots: []scheduling.Slot{granted(slotFor("b", 1))}, All: true})
		},
		func() {
			require.Empty(t, w.grants(), "august has not answered")
			w.askers = []string{"july"} // it is over
		},
		func() {},
		func() {
			require.Empty(t, w.grants(), "july has the one slot")
			require.Equal(t, scheduling.NoSlot, statusOf[MaintenanceSchedulerStatus](w.world).Queue[1].Reason)
			w.call("july", returns("b", 1))
		},
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	carried := w.carried()
	require.True(t, carried.Complete)
	require.Empty(t, carried.Heard)
}

// Temporal finds a workflow only some time after it has begun.
func TestASchedulerAfterOneThatWasTerminatedLooksOnceMoreForThoseThatHadJustBegun(t *testing.T) {
	w := newSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) }, 0)
	w.RegisterDelayedCallback(func() { w.askers = []string{"july"} }, 3*time.Second)
	w.RegisterDelayedCallback(func() { w.call("july", scheduling.Call{Slots: []scheduling.Slot{granted(slotFor("b", 1))}, All: true}) }, 30*time.Second)
	w.after(func() {
		require.Contains(t, w.called, "july")
		require.Empty(t, w.grants(), "july has the one slot")
		require.Nil(t, statusOf[MaintenanceSchedulerStatus](w.world).Wait)
	})
	require.True(t, w.carried().Complete)
}

func TestTheFirstSchedulerOfAClusterGrantsAtOnce(t *testing.T) {
	w := newSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) }, 0)
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.grants()) }, time.Second)
	w.after()
	w.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", First: true})
	require.True(t, w.IsWorkflowCompleted())
}

func TestASchedulerThatContinuesAsNewBeforeAllHaveAnsweredKnowsWhoHas(t *testing.T) {
	w := newSchedulerWorld(t)
	w.askers = []string{"july", "august"}
	w.after(func() { w.call("july", scheduling.Call{All: true}) }, func() {})
	carried := w.carried()
	require.False(t, carried.Complete)
	require.Equal(t, []string{"july"}, carried.Heard)
}

func TestOnlySoManyAreToldAtATime(t *testing.T) {
	w := &schedulerWorld{world: newWorld(t)}
	w.play()
	const many = 3*tellAtOnce + 1
	underWay, most := 0, 0
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalTurn, mock.Anything).After(time.Second).Return(
		func(_, _, _, _ string, _ any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			underWay++
			most = max(most, underWay)
			w.RegisterDelayedCallback(func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				underWay--
			}, time.Second)
			return nil
		}).Maybe()
	w.after(func() {
		sight := scheduling.Sight{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(many))}}
		for i := range many {
			node := fmt.Sprintf("n%d", i)
			w.call("june-"+node, asks(slotFor(node, 1)))
			sight.Nodes = append(sight.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: node}})
		}
		w.see(sight)
	})
	carried := w.carried()
	require.Len(t, carried.Book.Parties, many)
	for _, party := range carried.Book.Parties {
		require.True(t, party.Slots[0].Told)
	}
	require.Greater(t, most, 1)
	require.LessOrEqual(t, most, 2*tellAtOnce)
}

func TestTheNextRunSeesTheNodesForItself(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1), slotFor("b", 2))) },
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	carried := w.carried()
	require.Empty(t, carried.Book.Nodes, "a message stays under 256 KiB, however many there are")
	require.False(t, carried.Book.Whole)
	require.Len(t, carried.Book.Parties[0].Slots, 2)

	next := newSchedulerWorld(t)
	next.after(
		func() { next.see(scheduling.Sight{Last: true}) },
		func() {
			wait := statusOf[MaintenanceSchedulerStatus](next.world).Wait
			require.Equal(t, scheduling.ReasonNodesUnknown, wait.Reason, "what the watch of the run before shows last is not all")
			next.seeAll()
			next.call("june", returns("a", 1))
		},
		func() { require.Equal(t, []string{"june b"}, next.grants()) },
	)
	next.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", Carried: &carried})
	require.True(t, next.IsWorkflowCompleted())
}

func TestRunsThatAreShorterThanTheIntervalLookAfterThoseWithSlots(t *testing.T) {
	w := newSchedulerWorld(t)
	began := w.Now()
	carried := &MaintenanceSchedulerCarried{Complete: true, StartedAt: began, LookedAfter: began.Add(-lostInterval + 5*time.Second)}
	carried.Book.Take(scheduling.Call{Asker: scheduling.Asker{WorkflowID: "june", FirstRunID: "run"}, Slots: []scheduling.Slot{granted(slotFor("a", 1))}}, began)
	w.RegisterDelayedCallback(func() { require.Empty(t, w.inputsOf("FindLost")) }, 4*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.inputsOf("FindLost"), 1)
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalCall, scheduling.Call{})
	}, 6*time.Second)
	w.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", Carried: carried})
	require.True(t, w.IsWorkflowCompleted())
}
