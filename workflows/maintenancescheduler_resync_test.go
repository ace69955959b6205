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
	w.owners = []string{"july", "august"}
	w.after(
		func() { w.seeAll(); w.request("june", slotFor("a", 1)) },
		func() {
			require.Empty(t, w.grants())
			require.Subset(t, w.resynced, []string{"july", "august"})
			wait := statusOf[MaintenanceSchedulerStatus](w.world).Wait
			require.Equal(t, scheduling.ReasonSlotOwnersUnknown, wait.Reason)
			require.Contains(t, wait.Message, "july, august")
			w.request("july", granted(slotFor("b", 1)))
		},
		func() {
			require.Empty(t, w.grants(), "august has not answered")
			w.owners = []string{"july"} // it is over
		},
		func() {},
		func() {
			require.Empty(t, w.grants(), "july has the one slot")
			require.Equal(t, scheduling.NoSlot, statusOf[MaintenanceSchedulerStatus](w.world).Queue[1].Reason)
			w.release("july", 1)
		},
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	carried := w.carried()
	require.True(t, carried.Resynced)
	require.Empty(t, carried.Answered)
}

// Temporal finds a workflow only some time after it has begun.
func TestASchedulerAfterOneThatWasTerminatedLooksOnceMoreForThoseThatHadJustBegun(t *testing.T) {
	w := newSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.seeAll(); w.request("june", slotFor("a", 1)) }, 0)
	w.RegisterDelayedCallback(func() { w.owners = []string{"july"} }, 3*time.Second)
	w.RegisterDelayedCallback(func() { w.request("july", granted(slotFor("b", 1))) }, 30*time.Second)
	w.after(func() {
		require.Contains(t, w.resynced, "july")
		require.Empty(t, w.grants(), "july has the one slot")
		require.Nil(t, statusOf[MaintenanceSchedulerStatus](w.world).Wait)
	})
	require.True(t, w.carried().Resynced)
}

func TestTheFirstSchedulerOfAClusterGrantsAtOnce(t *testing.T) {
	w := newSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.seeAll(); w.request("june", slotFor("a", 1)) }, 0)
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.grants()) }, time.Second)
	w.after()
	w.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", First: true})
	require.True(t, w.IsWorkflowCompleted())
}

func TestASchedulerThatContinuesAsNewBeforeAllHaveAnsweredKnowsWhoHas(t *testing.T) {
	w := newSchedulerWorld(t)
	w.owners = []string{"july", "august"}
	w.after(func() { w.send("july") }, func() {})
	carried := w.carried()
	require.False(t, carried.Resynced)
	require.Equal(t, []string{"july"}, carried.Answered)
}

func TestOnlySoManyAreToldAtATime(t *testing.T) {
	w := bareSchedulerWorld(t)
	const many = 3*sendAtOnce + 1
	underWay, most := 0, 0
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalSlotResponse, mock.Anything).After(time.Second).Return(
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
		update := scheduling.NodeUpdate{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(many))}}
		for i := range many {
			node := fmt.Sprintf("n%d", i)
			w.request("june-"+node, slotFor(node, 1))
			update.Nodes = append(update.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: node}})
		}
		w.see(update)
	})
	carried := w.carried()
	require.Len(t, carried.Slots.Requesters, many)
	for _, r := range carried.Slots.Requesters {
		require.Equal(t, []int64{1}, r.Sent.Granted)
	}
	require.Greater(t, most, 1)
	require.LessOrEqual(t, most, 2*sendAtOnce)
}

func TestTheNextRunSeesTheNodesForItself(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.seeAll(); w.request("june", slotFor("a", 1), slotFor("b", 2)) },
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	carried := w.carried()
	require.Empty(t, carried.Slots.Nodes, "a message stays under 256 KiB, however many there are")
	require.False(t, carried.Slots.AllSeen)
	require.Len(t, carried.Slots.Requesters[0].Slots, 2)

	next := newSchedulerWorld(t)
	next.after(
		func() { next.see(scheduling.NodeUpdate{Last: true}) },
		func() {
			wait := statusOf[MaintenanceSchedulerStatus](next.world).Wait
			require.Equal(t, scheduling.ReasonNodesUnknown, wait.Reason, "what the watch of the run before shows last is not all")
			next.seeAll()
			next.setOf("june").Version = 1
			next.setOf("june").Slots = []scheduling.Slot{granted(slotFor("a", 1)), slotFor("b", 2)}
			next.names["june2"] = "b"
			next.release("june", 1)
		},
		func() { require.Contains(t, next.grants(), "june b") },
	)
	next.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", Carried: &carried})
	require.True(t, next.IsWorkflowCompleted())
}

func TestRunsThatAreShorterThanTheIntervalLookAfterThoseWithSlots(t *testing.T) {
	w := newSchedulerWorld(t)
	began := w.Now()
	carried := &MaintenanceSchedulerCarried{Resynced: true, StartedAt: began, OwnersCheckedAt: began.Add(-checkOwnersEvery + 5*time.Second)}
	w.setOf("june").Slots = []scheduling.Slot{granted(slotFor("a", 1))}
	carried.Slots.Take(*w.setOf("june"), began)
	w.RegisterDelayedCallback(func() { require.Empty(t, w.inputsOf("FindClosedOwners")) }, 4*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.inputsOf("FindClosedOwners"), 1)
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalSlotRequests, scheduling.SlotRequests{})
	}, 6*time.Second)
	w.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", Carried: carried})
	require.True(t, w.IsWorkflowCompleted())
}
