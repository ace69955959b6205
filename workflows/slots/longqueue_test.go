package slots_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/workflowtest"
)

// many is a number of waiting owners that no activity handles at once.
const many = 250

// longQueue shows all nodes, grants a slot to june, and lets many owners wait.
func longQueue(w *workflowtest.SchedulerWorld) {
	w.ShowAllNodes()
	w.Request("june", workflowtest.SlotFor("a", 1))
	for i := range many {
		w.Request(fmt.Sprintf("owner-%d", i), workflowtest.SlotFor("b", int64(2+i)))
	}
}

func TestManyOwnersLearnInFewActivitiesWhyTheyWait(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() { longQueue(w) },
		func() {
			reasons := map[string][]string{}
			for _, response := range w.Responses {
				if response.Wait != nil && response.Wait.Reason != scheduling.ReasonSlotOwnersUnknown {
					reasons[response.Owner.WorkflowID] = append(reasons[response.Owner.WorkflowID], response.Wait.Reason)
				}
			}
			require.Len(t, reasons, many, "each owner but june waits")
			require.Equal(t, []string{string(scheduling.NoSlot)}, reasons["owner-0"])
			require.Equal(t, []string{string(scheduling.LowerRank)}, reasons["owner-1"])
			for _, batch := range w.InputsOf("SendResponses") {
				require.LessOrEqual(t, len(batch.([]scheduling.SlotResponse)), 100)
			}
			require.LessOrEqual(t, len(w.InputsOf("SendResponses")), 6)
			require.Equal(t, []string{"june a"}, w.Grants())
		},
	)
	w.Carried()
}

// The delivery may take seconds if Temporal is busy.
func TestSlotsAreGrantedWhileReportsDelayTheNextRun(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	var delivery []byte
	w.RegisterActivityWithOptions(func(ctx context.Context, _ []scheduling.SlotResponse) ([]scheduling.SlotOwner, error) {
		delivery = activity.GetInfo(ctx).TaskToken
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "SendResponses", DisableAlreadyRegisteredCheck: true})
	for minute, step := range []func(){
		func() {
			w.ShowAllNodes()
			w.Request("june", workflowtest.SlotFor("a", 1))
			w.Request("july", workflowtest.SlotFor("b", 2))
			w.Request("august", workflowtest.SlotFor("c", 3))
		},
		func() {
			require.NotEmpty(t, delivery)
			w.SetContinueAsNewSuggested(true)
			w.Release("june", 1)
		},
		func() { w.Release("july", 2) },
		func() {
			require.Equal(t, []string{"june a", "july b", "august c"}, w.Grants())
			require.False(t, w.IsWorkflowCompleted())
			require.NoError(t, w.CompleteActivity(delivery, []scheduling.SlotOwner{}, nil))
		},
	} {
		w.RegisterDelayedCallback(step, time.Duration(minute)*time.Minute)
	}
	require.Len(t, w.Carried().Slots.Requesters, 1, "august has the slot")
}

// Temporal would have to describe thousands of workflows each half minute.
func TestWaitingOwnersAreCheckedInRounds(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(func() { longQueue(w) }, func() {}, func() {})
	w.Carried()
	checked := map[string]int{}
	for _, holders := range w.InputsOf("FindClosedOwners")[:3] {
		require.LessOrEqual(t, len(holders.([]scheduling.Holder)), 100)
	}
	for _, holders := range w.InputsOf("FindClosedOwners") {
		for _, holder := range holders.([]scheduling.Holder) {
			checked[holder.WorkflowID]++
		}
	}
	require.Len(t, checked, many+1)
	require.Greater(t, checked["june"], checked["owner-0"], "an owner with a slot is checked each time")
}

func TestManyClosedOwnersAreFoundAtOnce(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	for i := range many {
		w.ClosedOwners = append(w.ClosedOwners, closedOwner(fmt.Sprintf("owner-%d", i)))
	}
	w.RunSteps(func() { longQueue(w) }, func() {
		require.Len(t, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Queue, 1, "june has the slot")
	})
	w.Carried()
}

func TestAQueueIsReadInParts(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	read := func(request temporal.StatusRequest) (status slots.SchedulerStatus) {
		answer, err := w.QueryWorkflow(temporal.QueryStatus, request)
		require.NoError(t, err)
		require.NoError(t, answer.Get(&status))
		require.Equal(t, 1, status.Slots)
		require.Equal(t, many, status.Waiting, "the numbers are those of the whole queue")
		return status
	}
	w.RunSteps(func() { longQueue(w) }, func() {
		require.Len(t, read(temporal.StatusRequest{}).Queue, many+1)
		var parts []scheduling.QueueEntry
		request := temporal.StatusRequest{Limit: 100}
		for more := true; more; more = request.Cursor != "" {
			part := read(request)
			require.LessOrEqual(t, len(part.Queue), 100)
			parts, request.Cursor = append(parts, part.Queue...), part.NextCursor
		}
		require.Equal(t, read(temporal.StatusRequest{}).Queue, parts)

		one := read(temporal.StatusRequest{Filter: "owner-7"}).Queue
		require.Len(t, one, 1)
		require.Equal(t, 8, one[0].Rank)
		require.Len(t, read(temporal.StatusRequest{Filter: "a"}).Queue, 1, "of the node")
		_, err := w.QueryWorkflow(temporal.QueryStatus, temporal.StatusRequest{Cursor: "first"})
		require.ErrorContains(t, err, `cursor "first": use the nextCursor of the status before`)
	})
	w.Carried()
}

func TestARepeatedSetIsNoReasonToDecide(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	before := 0
	w.RunSteps(
		func() { longQueue(w) },
		func() {
			before = len(w.Responses)
			for i := range many {
				w.SendRequests(fmt.Sprintf("owner-%d", i))
			}
		},
		func() { require.Len(t, w.Responses, before) },
	)
	w.RegisterDelayedCallback(func() { require.Len(t, w.Responses, before) }, 2*time.Minute+time.Second)
	w.Carried()
}
