package slots_test

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
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/workflowtest"
)

func granted(slot scheduling.Slot) scheduling.Slot {
	slot.Granted = true
	return slot
}

func TestANewSchedulerGrantsNothingBeforeItsResyncIsComplete(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.Owners = []string{"july", "august"}
	w.RunSteps(
		func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) },
		func() {
			require.Empty(t, w.Grants())
			require.Subset(t, w.Resynced, []string{"july", "august"})
			wait := workflowtest.StatusOf[slots.SchedulerStatus](w.World).Wait
			require.Equal(t, scheduling.ReasonSlotOwnersUnknown, wait.Reason)
			require.Contains(t, wait.Message, "july, august")
			w.Request("july", granted(workflowtest.SlotFor("b", 1)))
		},
		func() {
			require.Empty(t, w.Grants(), "august has not answered")
			w.Owners = []string{"july"} // august has closed
		},
		func() {},
		func() {
			require.Empty(t, w.Grants(), "july has the one slot")
			require.Equal(t, scheduling.NoSlot, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Queue[1].Reason)
			w.Release("july", 1)
		},
		func() { require.Equal(t, []string{"june a"}, w.Grants()) },
	)
	carried := w.Carried()
	require.True(t, carried.Resynced)
	require.Empty(t, carried.Answered)
}

// Temporal lists a workflow only some time after its start.
func TestAResyncAfterATerminationListsTheOwnersAgain(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) }, 0)
	w.RegisterDelayedCallback(func() { w.Owners = []string{"july"} }, 3*time.Second)
	w.RegisterDelayedCallback(func() { w.Request("july", granted(workflowtest.SlotFor("b", 1))) }, 30*time.Second)
	w.RunSteps(func() {
		require.Contains(t, w.Resynced, "july")
		require.Empty(t, w.Grants(), "july has the one slot")
		require.Nil(t, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Wait)
	})
	require.True(t, w.Carried().Resynced)
}

func TestTheFirstSchedulerOfAClusterGrantsWithoutAPause(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RegisterDelayedCallback(func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) }, 0)
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.Grants()) }, time.Second)
	w.RunSteps()
	w.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", First: true})
	require.True(t, w.IsWorkflowCompleted())
}

func TestAResyncContinuesInTheNextRun(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.Owners = []string{"july", "august"}
	w.RunSteps(func() { w.SendRequests("july") }, func() {})
	carried := w.Carried()
	require.False(t, carried.Resynced)
	require.Equal(t, []string{"july"}, carried.Answered)
}

func TestTheNumberOfMessagesInProgressIsLimited(t *testing.T) {
	w := workflowtest.NewSchedulerWorldWithoutResponses(t)
	const many = 3*slots.MaxSignals + 1
	underWay, most := 0, 0
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalSlotResponse, mock.Anything).After(time.Second).Return(
		func(_, _, _, _ string, _ any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			underWay++
			most = max(most, underWay)
			w.RegisterDelayedCallback(func() {
				w.Mu.Lock()
				defer w.Mu.Unlock()
				underWay--
			}, time.Second)
			return nil
		}).Maybe()
	w.RunSteps(func() {
		update := scheduling.NodeUpdate{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(many))}}
		for i := range many {
			node := fmt.Sprintf("n%d", i)
			w.Request("june-"+node, workflowtest.SlotFor(node, 1))
			update.Nodes = append(update.Nodes, scheduling.ObservedNode{Node: scheduling.Node{Name: node}})
		}
		w.ShowNodes(update)
	})
	carried := w.Carried()
	require.Len(t, carried.Slots.Requesters, many)
	for _, r := range carried.Slots.Requesters {
		require.Equal(t, []int64{1}, r.Sent.Granted)
	}
	require.Greater(t, most, 1)
	require.LessOrEqual(t, most, 2*slots.MaxSignals)
}

func TestTheNextRunListsTheNodesAgain(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() {
			w.ShowAllNodes()
			w.Request("june", workflowtest.SlotFor("a", 1), workflowtest.SlotFor("b", 2))
		},
		func() { require.Equal(t, []string{"june a"}, w.Grants()) },
	)
	carried := w.Carried()
	require.Empty(t, carried.Slots.Nodes, "many nodes would not fit into a message")
	require.False(t, carried.Slots.AllListed)
	require.Len(t, carried.Slots.Requesters[0].Slots, 2)

	next := workflowtest.NewSchedulerWorld(t)
	next.RunSteps(
		func() { next.ShowNodes(scheduling.NodeUpdate{Last: true}) },
		func() {
			wait := workflowtest.StatusOf[slots.SchedulerStatus](next.World).Wait
			require.Equal(t, scheduling.ReasonNodesUnknown, wait.Reason, "an update of the former watch is not the complete list")
			next.ShowAllNodes()
			next.RequestsOf("june").Version = 1
			next.RequestsOf("june").Slots = []scheduling.Slot{granted(workflowtest.SlotFor("a", 1)), workflowtest.SlotFor("b", 2)}
			next.Names["june2"] = "b"
			next.Release("june", 1)
		},
		func() { require.Contains(t, next.Grants(), "june b") },
	)
	next.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", Carried: &carried})
	require.True(t, next.IsWorkflowCompleted())
}

func TestShortRunsCheckTheOwnersOfSlots(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	began := w.Now()
	carried := &slots.SchedulerCarried{Resynced: true, StartedAt: began, OwnersCheckedAt: began.Add(-slots.CheckOwnersEvery + 5*time.Second)}
	w.RequestsOf("june").Slots = []scheduling.Slot{granted(workflowtest.SlotFor("a", 1))}
	carried.Slots.Receive(*w.RequestsOf("june"), began)
	w.RegisterDelayedCallback(func() { require.Empty(t, w.InputsOf("FindClosedOwners")) }, 4*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.InputsOf("FindClosedOwners"), 1)
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalSlotRequests, scheduling.SlotRequests{})
	}, 6*time.Second)
	w.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", Carried: carried})
	require.True(t, w.IsWorkflowCompleted())
}
