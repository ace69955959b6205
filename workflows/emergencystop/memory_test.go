package emergencystop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

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
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.Ends(2)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, w.Recalled.Holds, carried.State.Holds)
	for id, scope := range map[string][]string{"cgu/ops/june": {"cluster/c1"}, "node/c2/ops/n1": {}} {
		require.Len(t, w.Told[id], 1)
		require.Equal(t, scope, workflowtest.Scopes(w.Told[id][0]), id)
		require.Greater(t, w.Told[id][0].Number, w.Recalled.Number, "it is news")
	}
	require.NotContains(t, w.Called(), "KeepHolds", "nothing has changed")
}

func TestWhoFollowsAndWasNotFoundAtOnceIsFoundLater(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.At(1, func() { w.Follows("cgu/ops/july", "") }) // asks itself
	w.At(2, func() { w.Followers = append(w.Followers, temporal.Subscription{WorkflowID: "cgu/ops/late"}) })
	w.At(80, func() {
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "cgu/ops/late", FirstRunID: "1"})
	})
	w.Ends(90)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Len(t, w.Told["cgu/ops/late"], 1)
	require.Len(t, w.Told["cgu/ops/june"], 1, "nobody is told twice")
	require.Len(t, carried.Followers, 3, "one leaves although its first run is not known")
	require.False(t, carried.Unsought)
}

func TestARequestThatComesBeforeWhatWasHeldIsKnownIsCheckedByThat(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.Fail["RecallHolds"] = until(4) // after 1.4 s
	var held, released, unheld *workflowtest.Answer
	w.At(1, func() {
		require.Empty(t, workflowtest.StatusOf[emergencystop.Status](w.World).Holds)
		released = w.Asks(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
		unheld = w.Asks(temporal.UpdateRelease, emergency.Request{All: true})
		held = w.Asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}})
		w.SignalWorkflow(temporal.SignalHold, emergency.Request{Clusters: []string{"c3"}})
	})
	w.Ends(2)
	require.ElementsMatch(t, []string{"cluster/c2", "cluster/c3"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Equal(t, "flood", released.Changes[0].Before.Reason)
	require.ErrorContains(t, unheld.Err, "all: not every cluster is held")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(unheld.Err))
	require.True(t, held.Done)
}

func TestWhileNobodyKnowsWhatWasHeldEverythingIs(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.Fail["RecallHolds"] = until(8) // after 16 s
	w.At(2, func() { require.Empty(t, w.Told, "it may yet answer") })
	w.At(9, func() {
		require.Equal(t, []string{"all"}, workflowtest.Scopes(w.Told["cgu/ops/june"][0]))
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().String(), "by drydock: the saved holds are unknown: read what was held before: no route to the hub")
		w.Asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}, Actor: "bob"})
	})
	w.Ends(20)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(carried.State), "what was held before, and what was asked for since")
	kept := w.Inputs["KeepHolds"]
	require.Equal(t, carried.State.Number, kept[len(kept)-1].(emergency.State).Number)
	require.Len(t, kept, 1, "nothing is written over before it is known")
}

func TestAHubThatMayNotBeReadHoldsEverythingUntilItMay(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	granted := false
	w.Fail["RecallHolds"] = func(int) error {
		if granted {
			return nil
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster hub: its API server forbids what we ask", nil)
	}
	w.At(9, func() {
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().Reason, "its API server forbids what we ask")
		granted = true
	})
	w.Ends(60)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
}

func TestWhatNobodyCanReadHoldsEverythingUntilAPersonReleasesIt(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.Fail["RecallHolds"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "ConfigMap default/x cannot be read", nil))
	w.Fail["KeepHolds"] = w.Fail["RecallHolds"]
	w.At(2, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Contains(t, status.All().Reason, "ConfigMap default/x cannot be read")
		require.Contains(t, status.NotKept, "ConfigMap default/x cannot be read")
		w.Asks(temporal.UpdateRelease, emergency.Request{All: true})
	})
	w.Ends(3)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)
}

func TestEveryChangeIsKeptOnTheHubAndSaidWhereItIsNot(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	trouble := errors.New("the hub is down")
	w.Fail["KeepHolds"] = func(call int) error {
		if call > 1 && trouble != nil {
			return trouble
		}
		return nil
	}
	w.At(1, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() { w.Asks(temporal.UpdateHold, emergency.Request{All: true}) })
	w.At(60, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Contains(t, status.NotKept, "the hub is down")
		require.NotNil(t, status.All(), "it is held all the same")
		require.Contains(t, w.Details(), "not kept on the hub")
		trouble = nil
	})
	w.At(120, func() { require.Empty(t, workflowtest.StatusOf[emergencystop.Status](w.World).NotKept) })
	w.Ends(121)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, carried.State.Number, carried.Kept)
	kept := w.Inputs["KeepHolds"]
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(kept[0].(emergency.State)))
	require.Equal(t, []string{"all", "cluster/c1"}, workflowtest.Scopes(kept[len(kept)-1].(emergency.State)))
}

func TestWithoutAHubALaterEmergencyStopIsBelievedAllTheSame(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	noHub := workflowtest.Always(temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil))
	w.Fail["RecallHolds"], w.Fail["KeepHolds"] = noHub, noHub
	w.Followers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}}
	w.At(7, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.NotZero(t, status.Number, "nothing waits for a hub to come")
		require.Empty(t, status.Holds)
	})
	w.Ends(60)
	started := time.Now()
	w.SetStartTime(started)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)
	require.Greater(t, w.Told["cgu/ops/june"][0].Number, started.Add(-time.Hour).UnixMilli(), "changes are an hour's worth less than one a millisecond")
}

// Some workers know the hub.
func TestAWorkerWithoutAHubDoesNotMakeTheEmergencyStopForgetWhatWasHeld(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	noHub := func(call int) error {
		if call < kit.RoundAttempts {
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.Fail["RecallHolds"], w.Fail["KeepHolds"] = noHub, noHub
	w.At(10, func() { w.Asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}}) })
	w.Ends(60)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(carried.State))
	require.Len(t, w.InputsOf("KeepHolds"), kit.RoundAttempts)
}

func TestAHubThatIsAwayIsNotTakenForNoneWhereAWorkerKnowsNone(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.Fail["RecallHolds"] = func(call int) error {
		switch {
		case call <= kit.RoundAttempts:
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		case call <= 4*kit.RoundAttempts:
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.Ends(3600)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
}

func TestARunThatDoesNotKnowYetWhatWasHeldHandsThatOver(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.WasTerminated()
	w.Blocked["RecallHolds"] = true
	w.At(9, func() {
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().Reason, "the saved holds are unknown: the hub has not answered within 8s")
	})
	w.Ends(10)
	carried := w.CarriedOver(emergencystop.Input{})
	require.True(t, carried.Unrecalled)
	require.True(t, carried.Unsought)
	require.Equal(t, []string{"all"}, workflowtest.Scopes(carried.State))

	next := workflowtest.NewToldWorld(t)
	next.WasTerminated()
	next.Ends(70)
	carried = next.CarriedOver(emergencystop.Input{Carried: carried})
	require.False(t, carried.Unrecalled)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
}
