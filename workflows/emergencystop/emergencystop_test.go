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

func TestASubscriberIsNotifiedOnSubscriptionAndOfEveryChange(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.At(1, func() { w.Subscribe("cgu/ops/june", "") })
	w.At(2, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(3, func() { w.Subscribe("node/c2/ops/n1", "c2") })
	w.At(4, func() { w.Update(temporal.UpdateHold, emergency.Request{All: true}) })
	w.At(5, func() { w.Update(temporal.UpdateRelease, emergency.Request{All: true}) })
	w.ContinueAsNewAt(6)
	carried := w.CarriedOver(emergencystop.Input{})

	var received [][]string
	number := int64(0)
	for _, state := range w.Notified["cgu/ops/june"] {
		received = append(received, workflowtest.Scopes(state))
		require.Greater(t, state.Number, number)
		number = state.Number
	}
	require.Equal(t, [][]string{{}, {"cluster/c1"}, {"all", "cluster/c1"}, {"cluster/c1"}}, received)
	received = nil
	for _, state := range w.Notified["node/c2/ops/n1"] {
		received = append(received, workflowtest.Scopes(state))
	}
	require.Equal(t, [][]string{{}, {"all"}, {}}, received, "a subscriber of one cluster receives the holds that apply to it")
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
	require.Len(t, carried.Subscribers, 2)
}

func TestTheAnswerToARequestContainsTheFormerHolds(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	var first, second, released *workflowtest.Answer
	w.At(1, func() { first = w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		require.Contains(t, w.Details(), "cluster c1")
		require.Contains(t, w.Details(), "flood")
		second = w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c1"}, Actor: "bob", Reason: "fire"})
	})
	w.At(3, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Equal(t, "fire", status.Of("c1").Reason)
		released = w.Update(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
	})
	w.ContinueAsNewAt(4)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)

	require.Nil(t, first.Changes[0].Before)
	require.Equal(t, "flood", second.Changes[0].Before.Reason)
	require.Equal(t, first.Changes[0].After.Since.Unix(), second.Changes[0].After.Since.Unix(), "a changed hold keeps its start")
	require.Equal(t, "fire", released.Changes[0].Before.Reason)
	require.Nil(t, released.Changes[0].After)
	require.Equal(t, []string{
		"Earlier holds loaded holds=0",
		"Hold set scope=cluster c1 actor=ann reason=flood",
		"Hold set scope=cluster c1 actor=bob reason=fire",
		"Hold released scope=cluster c1",
		"Emergency stop continues as new holds=0",
	}, w.Log.Lines("scope", "actor", "reason", "holds"))
}

func TestAnInvalidRequestIsRejected(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	var neither, unheld *workflowtest.Answer
	w.At(1, func() { neither = w.Update(temporal.UpdateHold, emergency.Request{}) })
	w.At(2, func() { unheld = w.Update(temporal.UpdateRelease, workflowtest.HoldC1) })
	w.At(3, func() { w.SignalWorkflow(temporal.SignalHold, emergency.Request{}) })
	w.ContinueAsNewAt(4)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)

	require.ErrorContains(t, neither.Rejected, "clusters: name at least one, or set all")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(neither.Rejected))
	require.ErrorContains(t, unheld.Rejected, "clusters[0]")
}

func TestASignalHoldsClusters(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.At(1, func() { w.Subscribe("cgu/ops/june", "") })
	w.At(2, func() { w.SignalWorkflow(temporal.SignalHold, workflowtest.HoldC1) })
	w.ContinueAsNewAt(3)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Len(t, w.Notified["cgu/ops/june"], 2)
}

func TestSubscribersThatUnsubscribeOrEndAreRemoved(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	for i, id := range []string{"subscribed", "unsubscribed", "ended", "restarted"} {
		w.At(i+1, func() { w.Subscribe(id, "") })
	}
	w.At(10, func() {
		w.Gone["ended"] = true
		// The new run of an ID subscribes before the old one unsubscribes.
		w.SignalWorkflow(temporal.SignalSubscribeHolds, temporal.Subscription{WorkflowID: "restarted", FirstRunID: "2"})
		w.SignalWorkflow(temporal.SignalUnsubscribeHolds, temporal.Subscription{WorkflowID: "restarted", FirstRunID: "1"})
		w.SignalWorkflow(temporal.SignalUnsubscribeHolds, temporal.Subscription{WorkflowID: "unsubscribed", FirstRunID: "1"})
	})
	w.At(11, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.ContinueAsNewAt(12)
	carried := w.CarriedOver(emergencystop.Input{})

	var subscribers []string
	for _, f := range carried.Subscribers {
		subscribers = append(subscribers, f.WorkflowID+" "+f.FirstRunID)
	}
	require.Equal(t, []string{"subscribed 1", "restarted 2"}, subscribers)
	require.Len(t, w.Notified["unsubscribed"], 1)
}

func TestManySubscribersAreNotifiedInBatches(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	const many = 3*kit.MaxNotifications + 7
	w.At(1, func() {
		for i := range many {
			w.Subscribe(fmt.Sprintf("cgu/ops/%d", i), "")
		}
	})
	w.At(2, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.ContinueAsNewAt(3)
	require.Len(t, w.CarriedOver(emergencystop.Input{}).Subscribers, many)
	require.Len(t, w.Notified, many)
	for id, states := range w.Notified {
		last := states[len(states)-1]
		require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(last), id)
		require.True(t, slices.IsSortedFunc(states, func(a, b emergency.State) int { return int(a.Number - b.Number) }), id)
	}
}

func TestTheNextRunNotifiesOnlySubscribersThatLackTheState(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	state := workflowtest.HeldState(7, "cluster/c1")
	w.At(2, func() {
		require.Equal(t, state.Holds[0].By, workflowtest.StatusOf[emergencystop.Status](w.World).Holds[0].By)
	})
	w.ContinueAsNewAt(3)
	carried := w.CarriedOver(emergencystop.Input{Carried: &emergencystop.Carried{State: state, Subscribers: []kit.Subscriber{
		{Subscription: temporal.Subscription{WorkflowID: "up to date"}, Notified: 7},
		{Subscription: temporal.Subscription{WorkflowID: "new"}},
		{Subscription: temporal.Subscription{WorkflowID: "outdated"}, Notified: 6},
	}}})

	require.Equal(t, state.Number, carried.State.Number)
	require.Len(t, carried.Subscribers, 3)
	require.NotContains(t, w.Notified, "up to date", "it has the state already")
	for _, id := range []string{"new", "outdated"} {
		require.Len(t, w.Notified[id], 1)
		require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.Notified[id][0]))
	}
}

func TestTheEmergencyStopIgnoresCancellation(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.At(1, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() { w.CancelWorkflow() })
	w.At(3, func() { w.Subscribe("cgu/ops/june", "") })
	w.ContinueAsNewAt(4)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Len(t, w.Notified["cgu/ops/june"], 1)
	require.False(t, sdktemporal.IsCanceledError(w.GetWorkflowError()))
}

func TestASubscriberThatHasTheStateIsNotifiedOfTheNextOne(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	const id = "node/c1/ops/n1"
	w.At(1, func() {
		known := workflowtest.StatusOf[emergencystop.Status](w.World).Number
		w.SignalWorkflow(temporal.SignalSubscribeHolds, temporal.Subscription{WorkflowID: id, FirstRunID: "1", Cluster: "c1", Known: known})
	})
	w.At(2, func() {
		require.Empty(t, w.Notified[id])
		w.Update(temporal.UpdateHold, workflowtest.HoldC1)
	})
	w.ContinueAsNewAt(3)
	w.CarriedOver(emergencystop.Input{})
	require.Len(t, w.Notified[id], 1)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.Notified[id][0]))
}
