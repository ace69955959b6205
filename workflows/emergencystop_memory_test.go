package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// wasTerminated plays that an emergency stop which held c1 was terminated, with two followers.
func (w *toldWorld) wasTerminated() {
	w.recalled = heldState(7, "cluster/c1")
	w.followers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}, {WorkflowID: "node/c2/ops/n1", Cluster: "c2"}}
}

// until fails every call before that one.
func until(succeeds int) func(int) error {
	return func(call int) error {
		if call < succeeds {
			return errors.New("no route to the hub")
		}
		return nil
	}
}

func TestAnEmergencyStopKnowsWhatOneThatWasTerminatedHeldAndTellsThoseThatFollowedIt(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.ends(2)
	carried := w.carriedOver(EmergencyStopInput{})
	require.Equal(t, w.recalled.Holds, carried.State.Holds)
	for id, scope := range map[string][]string{"cgu/ops/june": {"cluster/c1"}, "node/c2/ops/n1": {}} {
		require.Len(t, w.told[id], 1)
		require.Equal(t, scope, scopes(w.told[id][0]), id)
		require.Greater(t, w.told[id][0].Number, w.recalled.Number, "it is news")
	}
	require.NotContains(t, w.called(), "KeepHolds", "nothing has changed")
}

func TestWhoFollowsAndWasNotFoundAtOnceIsFoundLater(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.at(1, func() { w.follows("cgu/ops/july", "") }) // asks itself
	w.at(2, func() { w.followers = append(w.followers, temporal.Subscription{WorkflowID: "cgu/ops/late"}) })
	w.at(80, func() {
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "cgu/ops/late", FirstRunID: "1"})
	})
	w.ends(90)
	carried := w.carriedOver(EmergencyStopInput{})
	require.Len(t, w.told["cgu/ops/late"], 1)
	require.Len(t, w.told["cgu/ops/june"], 1, "nobody is told twice")
	require.Len(t, carried.Followers, 3, "one leaves although its first run is not known")
	require.False(t, carried.Unsought)
}

func TestARequestThatComesBeforeWhatWasHeldIsKnownIsCheckedByThat(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.fail["RecallHolds"] = until(4) // after 1.4 s
	var held, released, unheld *answer
	w.at(1, func() {
		require.Empty(t, statusOf[EmergencyStopStatus](w.world).Holds)
		released = w.asks(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
		unheld = w.asks(temporal.UpdateRelease, emergency.Request{All: true})
		held = w.asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}})
		w.SignalWorkflow(temporal.SignalHold, emergency.Request{Clusters: []string{"c3"}})
	})
	w.ends(2)
	require.ElementsMatch(t, []string{"cluster/c2", "cluster/c3"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
	require.Equal(t, "flood", released.Changes[0].Before.Reason)
	require.ErrorContains(t, unheld.err, "all: not every cluster is held")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(unheld.err))
	require.True(t, held.done)
}

func TestWhileNobodyKnowsWhatWasHeldEverythingIs(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.fail["RecallHolds"] = until(8) // after 16 s
	w.at(2, func() { require.Empty(t, w.told, "it may yet answer") })
	w.at(9, func() {
		require.Equal(t, []string{"all"}, scopes(w.told["cgu/ops/june"][0]))
		require.Contains(t, statusOf[EmergencyStopStatus](w.world).All().String(), "by drydock: what was held before is not known: read what was held before: no route to the hub")
		w.asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}, Actor: "bob"})
	})
	w.ends(20)
	carried := w.carriedOver(EmergencyStopInput{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, scopes(carried.State), "what was held before, and what was asked for since")
	kept := w.inputs["KeepHolds"]
	require.Equal(t, carried.State.Number, kept[len(kept)-1].(emergency.State).Number)
	require.Len(t, kept, 1, "nothing is written over before it is known")
}

func TestAHubThatMayNotBeReadHoldsEverythingUntilItMay(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	granted := false
	w.fail["RecallHolds"] = func(int) error {
		if granted {
			return nil
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster hub: its API server forbids what we ask", nil)
	}
	w.at(9, func() {
		require.Contains(t, statusOf[EmergencyStopStatus](w.world).All().Reason, "its API server forbids what we ask")
		granted = true
	})
	w.ends(60)
	require.Equal(t, []string{"cluster/c1"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
}

func TestWhatNobodyCanReadHoldsEverythingUntilAPersonReleasesIt(t *testing.T) {
	w := newToldWorld(t)
	w.fail["RecallHolds"] = always(temporal.Error(temporal.ErrInvalidSpec, "ConfigMap default/x cannot be read", nil))
	w.fail["KeepHolds"] = w.fail["RecallHolds"]
	w.at(2, func() {
		status := statusOf[EmergencyStopStatus](w.world)
		require.Contains(t, status.All().Reason, "ConfigMap default/x cannot be read")
		require.Contains(t, status.NotKept, "ConfigMap default/x cannot be read")
		w.asks(temporal.UpdateRelease, emergency.Request{All: true})
	})
	w.ends(3)
	require.Empty(t, w.carriedOver(EmergencyStopInput{}).State.Holds)
}

func TestEveryChangeIsKeptOnTheHubAndSaidWhereItIsNot(t *testing.T) {
	w := newToldWorld(t)
	trouble := errors.New("the hub is down")
	w.fail["KeepHolds"] = func(call int) error {
		if call > 1 && trouble != nil {
			return trouble
		}
		return nil
	}
	w.at(1, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.at(2, func() { w.asks(temporal.UpdateHold, emergency.Request{All: true}) })
	w.at(60, func() {
		status := statusOf[EmergencyStopStatus](w.world)
		require.Contains(t, status.NotKept, "the hub is down")
		require.NotNil(t, status.All(), "it is held all the same")
		require.Contains(t, w.details(), "not kept on the hub")
		trouble = nil
	})
	w.at(120, func() { require.Empty(t, statusOf[EmergencyStopStatus](w.world).NotKept) })
	w.ends(121)
	carried := w.carriedOver(EmergencyStopInput{})
	require.Equal(t, carried.State.Number, carried.Kept)
	kept := w.inputs["KeepHolds"]
	require.Equal(t, []string{"cluster/c1"}, scopes(kept[0].(emergency.State)))
	require.Equal(t, []string{"all", "cluster/c1"}, scopes(kept[len(kept)-1].(emergency.State)))
}

func TestWithoutAHubALaterEmergencyStopIsBelievedAllTheSame(t *testing.T) {
	w := newToldWorld(t)
	noHub := always(temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil))
	w.fail["RecallHolds"], w.fail["KeepHolds"] = noHub, noHub
	w.followers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}}
	w.at(7, func() {
		status := statusOf[EmergencyStopStatus](w.world)
		require.NotZero(t, status.Number, "nothing waits for a hub to come")
		require.Empty(t, status.Holds)
	})
	w.ends(60)
	started := time.Now()
	w.SetStartTime(started)
	require.Empty(t, w.carriedOver(EmergencyStopInput{}).State.Holds)
	require.Greater(t, w.told["cgu/ops/june"][0].Number, started.Add(-time.Hour).UnixMilli(), "changes are an hour's worth less than one a millisecond")
}

// Some workers know the hub.
func TestAWorkerWithoutAHubDoesNotMakeTheEmergencyStopForgetWhatWasHeld(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	noHub := func(call int) error {
		if call < roundAttempts {
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.fail["RecallHolds"], w.fail["KeepHolds"] = noHub, noHub
	w.at(10, func() { w.asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}}) })
	w.ends(60)
	carried := w.carriedOver(EmergencyStopInput{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, scopes(carried.State))
	require.Len(t, w.inputsOf("KeepHolds"), roundAttempts)
}

func TestAHubThatIsAwayIsNotTakenForNoneWhereAWorkerKnowsNone(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.fail["RecallHolds"] = func(call int) error {
		switch {
		case call <= roundAttempts:
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		case call <= 4*roundAttempts:
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.ends(3600)
	require.Equal(t, []string{"cluster/c1"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
}

func TestARunThatDoesNotKnowYetWhatWasHeldHandsThatOver(t *testing.T) {
	w := newToldWorld(t)
	w.wasTerminated()
	w.blocked["RecallHolds"] = true
	w.at(9, func() {
		require.Contains(t, statusOf[EmergencyStopStatus](w.world).All().Reason, "what was held before is not known: the hub has not answered within 8s")
	})
	w.ends(10)
	carried := w.carriedOver(EmergencyStopInput{})
	require.True(t, carried.Unrecalled)
	require.True(t, carried.Unsought)
	require.Equal(t, []string{"all"}, scopes(carried.State))

	next := newToldWorld(t)
	next.wasTerminated()
	next.ends(70)
	carried = next.carriedOver(EmergencyStopInput{Carried: carried})
	require.False(t, carried.Unrecalled)
	require.Equal(t, []string{"cluster/c1"}, scopes(carried.State))
}
