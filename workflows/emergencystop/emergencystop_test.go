package emergencystop_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAFollowerIsToldAtOnceAndOfEveryChange(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.At(1, func() { w.Follows("cgu/ops/june", "") })
	w.At(2, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(3, func() { w.Follows("node/c2/ops/n1", "c2") })
	w.At(4, func() { w.Asks(temporal.UpdateHold, emergency.Request{All: true}) })
	w.At(5, func() { w.Asks(temporal.UpdateRelease, emergency.Request{All: true}) })
	w.Ends(6)
	carried := w.CarriedOver(emergencystop.Input{})

	var heard [][]string
	number := int64(0)
	for _, state := range w.Told["cgu/ops/june"] {
		heard = append(heard, workflowtest.Scopes(state))
		require.Greater(t, state.Number, number)
		number = state.Number
	}
	require.Equal(t, [][]string{{}, {"cluster/c1"}, {"all", "cluster/c1"}, {"cluster/c1"}}, heard)
	heard = nil
	for _, state := range w.Told["node/c2/ops/n1"] {
		heard = append(heard, workflowtest.Scopes(state))
	}
	require.Equal(t, [][]string{{}, {"all"}, {}}, heard, "a maintenance of another cluster is told what concerns it")
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
	require.Len(t, carried.Followers, 2)
}

func TestTheAnswerToAHoldSaysWhatWasBefore(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	var first, second, released *workflowtest.Answer
	w.At(1, func() { first = w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		require.Contains(t, w.Details(), "cluster c1")
		require.Contains(t, w.Details(), "flood")
		second = w.Asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c1"}, Actor: "bob", Reason: "fire"})
	})
	w.At(3, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Equal(t, "fire", status.Of("c1").Reason)
		released = w.Asks(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
	})
	w.Ends(4)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)

	require.Nil(t, first.Changes[0].Before)
	require.Equal(t, "flood", second.Changes[0].Before.Reason)
	require.Equal(t, first.Changes[0].After.Since.Unix(), second.Changes[0].After.Since.Unix(), "held since when it was held first")
	require.Equal(t, "fire", released.Changes[0].Before.Reason)
	require.Nil(t, released.Changes[0].After)
}

func TestARequestThatIsWrongChangesNothing(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	var neither, unheld *workflowtest.Answer
	w.At(1, func() { neither = w.Asks(temporal.UpdateHold, emergency.Request{}) })
	w.At(2, func() { unheld = w.Asks(temporal.UpdateRelease, workflowtest.HoldC1) })
	w.At(3, func() { w.SignalWorkflow(temporal.SignalHold, emergency.Request{}) })
	w.Ends(4)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)

	require.ErrorContains(t, neither.Refused, "clusters: name at least one, or set all")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(neither.Refused))
	require.ErrorContains(t, unheld.Refused, "clusters[0]")
}

func TestASignalHoldsToo(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.At(1, func() { w.Follows("cgu/ops/june", "") })
	w.At(2, func() { w.SignalWorkflow(temporal.SignalHold, workflowtest.HoldC1) })
	w.Ends(3)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Len(t, w.Told["cgu/ops/june"], 2)
}

func TestAFollowerThatIsGoneIsForgottenAndOneThatLeavesToo(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	for i, id := range []string{"stays", "leaves", "dies", "again"} {
		w.At(i+1, func() { w.Follows(id, "") })
	}
	w.At(10, func() {
		w.Gone["dies"] = true
		// A new run of the same id has begun to follow before the old one says that it leaves.
		w.SignalWorkflow(temporal.SignalFollowHolds, temporal.Subscription{WorkflowID: "again", FirstRunID: "2"})
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "again", FirstRunID: "1"})
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "leaves", FirstRunID: "1"})
	})
	w.At(11, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.Ends(12)
	carried := w.CarriedOver(emergencystop.Input{})

	var followers []string
	for _, f := range carried.Followers {
		followers = append(followers, f.WorkflowID+" "+f.FirstRunID)
	}
	require.Equal(t, []string{"stays 1", "again 2"}, followers)
	require.Len(t, w.Told["leaves"], 1)
}

func TestHundredsOfFollowersAreToldInTurnsAndNobodyTwice(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	const many = 3*kit.NotifyAtOnce + 7
	w.At(1, func() {
		for i := range many {
			w.Follows(fmt.Sprintf("cgu/ops/%d", i), "")
		}
	})
	w.At(2, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.Ends(3)
	require.Len(t, w.CarriedOver(emergencystop.Input{}).Followers, many)
	require.Len(t, w.Told, many)
	for id, states := range w.Told {
		last := states[len(states)-1]
		require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(last), id)
		require.True(t, slices.IsSortedFunc(states, func(a, b emergency.State) int { return int(a.Number - b.Number) }), id)
	}
}

func TestTheNextRunGoesOnWhereTheOneBeforeEnded(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	state := workflowtest.HeldState(7, "cluster/c1")
	w.At(2, func() {
		require.Equal(t, state.Holds[0].By, workflowtest.StatusOf[emergencystop.Status](w.World).Holds[0].By)
	})
	w.Ends(3)
	carried := w.CarriedOver(emergencystop.Input{Carried: &emergencystop.Carried{State: state, Followers: []kit.Subscriber{
		{Subscription: temporal.Subscription{WorkflowID: "knows"}, Notified: 7},
		{Subscription: temporal.Subscription{WorkflowID: "asked last"}},
		{Subscription: temporal.Subscription{WorkflowID: "missed one"}, Notified: 6},
	}}})

	require.Equal(t, state.Number, carried.State.Number)
	require.Len(t, carried.Followers, 3)
	require.NotContains(t, w.Told, "knows", "nobody is told twice")
	for _, id := range []string{"asked last", "missed one"} {
		require.Len(t, w.Told[id], 1)
		require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.Told[id][0]))
	}
}

func TestTheEmergencyStopIsNotCancelled(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.At(1, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() { w.CancelWorkflow() })
	w.At(3, func() { w.Follows("cgu/ops/june", "") })
	w.Ends(4)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Len(t, w.Told["cgu/ops/june"], 1)
	require.False(t, sdktemporal.IsCanceledError(w.GetWorkflowError()))
}
