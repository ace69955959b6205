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

// until fails every call before the given one.
func until(succeeds int) func(int) error {
	return func(call int) error {
		if call < succeeds {
			return errors.New("no route to the hub")
		}
		return nil
	}
}

func TestANewEmergencyStopLoadsTheHoldsAndSubscribersOfATerminatedOne(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.ContinueAsNewAt(2)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, w.LoadedHolds.Holds, carried.State.Holds)
	for id, scope := range map[string][]string{"cgu/ops/june": {"cluster/c1"}, "node/c2/ops/n1": {}} {
		require.Len(t, w.Notified[id], 1)
		require.Equal(t, scope, workflowtest.Scopes(w.Notified[id][0]), id)
		require.Greater(t, w.Notified[id][0].Number, w.LoadedHolds.Number, "subscribers accept only higher numbers")
	}
	require.NotContains(t, w.Called(), "SaveHolds", "nothing has changed")
}

func TestASecondSearchFindsSubscribersThatTheFirstMissed(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.At(1, func() { w.Subscribe("cgu/ops/july", "") }) // subscribes itself
	w.At(2, func() { w.Subscribers = append(w.Subscribers, temporal.Subscription{WorkflowID: "cgu/ops/late"}) })
	w.At(80, func() {
		w.SignalWorkflow(temporal.SignalUnsubscribeHolds, temporal.Subscription{WorkflowID: "cgu/ops/late", FirstRunID: "1"})
	})
	w.ContinueAsNewAt(90)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Len(t, w.Notified["cgu/ops/late"], 1)
	require.Len(t, w.Notified["cgu/ops/june"], 1, "it has the state already")
	require.Len(t, carried.Subscribers, 3, "a subscriber whose first run is unknown can unsubscribe")
	require.False(t, carried.NotSearched)
}

func TestAnEarlyRequestIsCheckedAgainstTheLoadedHolds(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Fail["LoadHolds"] = until(4) // after 1.4 s
	var held, released, unheld *workflowtest.Answer
	w.At(1, func() {
		require.Empty(t, workflowtest.StatusOf[emergencystop.Status](w.World).Holds)
		released = w.Update(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
		unheld = w.Update(temporal.UpdateRelease, emergency.Request{All: true})
		held = w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}})
		w.SignalWorkflow(temporal.SignalHold, emergency.Request{Clusters: []string{"c3"}})
	})
	w.ContinueAsNewAt(2)
	require.ElementsMatch(t, []string{"cluster/c2", "cluster/c3"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Equal(t, "flood", released.Changes[0].Before.Reason)
	require.ErrorContains(t, unheld.Err, "all: not every cluster is held")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(unheld.Err))
	require.True(t, held.Done)
}

func TestAllClustersAreHeldWhileTheEarlierHoldsAreUnknown(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Fail["LoadHolds"] = until(8) // after 16 s
	w.At(2, func() { require.Empty(t, w.Notified, "the hub may still answer") })
	w.At(9, func() {
		require.Equal(t, []string{"all"}, workflowtest.Scopes(w.Notified["cgu/ops/june"][0]))
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().String(), "by drydock: the saved holds are unknown: load earlier holds: no route to the hub")
		w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}, Actor: "bob"})
	})
	w.ContinueAsNewAt(20)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(carried.State), "the earlier holds and the new one")
	saved := w.Inputs["SaveHolds"]
	require.Equal(t, carried.State.Number, saved[len(saved)-1].(emergency.State).Number)
	require.Len(t, saved, 1, "the earlier holds are not overwritten before they are loaded")
}

func TestAHubThatForbidsReadingHoldsAllClustersUntilItAllowsIt(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	granted := false
	w.Fail["LoadHolds"] = func(int) error {
		if granted {
			return nil
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster hub: its API server forbids the request", nil)
	}
	w.At(9, func() {
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().Reason, "its API server forbids the request")
		granted = true
	})
	w.ContinueAsNewAt(60)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
	require.Subset(t, w.Log.Lines("scope", "actor", "holds"), []string{
		"Hold set scope=every cluster actor=drydock",
		"Earlier holds loaded holds=1",
		"Hold set scope=cluster c1 actor=ann",
		"Hold released scope=every cluster",
	})
}

func TestUnreadableHoldsHoldAllClustersUntilAPersonReleasesThem(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.Fail["LoadHolds"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "ConfigMap default/x cannot be read", nil))
	w.Fail["SaveHolds"] = w.Fail["LoadHolds"]
	w.At(2, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Contains(t, status.All().Reason, "ConfigMap default/x cannot be read")
		require.Contains(t, status.NotSaved, "ConfigMap default/x cannot be read")
		w.Update(temporal.UpdateRelease, emergency.Request{All: true})
	})
	w.ContinueAsNewAt(3)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)
}

func TestEveryChangeIsSavedOnTheHubOrTheStatusReportsWhyNot(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	trouble := errors.New("the hub is down")
	w.Fail["SaveHolds"] = func(call int) error {
		if call > 1 && trouble != nil {
			return trouble
		}
		return nil
	}
	w.At(1, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() { w.Update(temporal.UpdateHold, emergency.Request{All: true}) })
	w.At(60, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.Contains(t, status.NotSaved, "the hub is down")
		require.NotNil(t, status.All(), "the hold is in effect")
		require.Contains(t, w.Details(), "not saved on the hub")
		trouble = nil
	})
	w.At(120, func() { require.Empty(t, workflowtest.StatusOf[emergencystop.Status](w.World).NotSaved) })
	w.ContinueAsNewAt(121)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, carried.State.Number, carried.Saved)
	saved := w.Inputs["SaveHolds"]
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(saved[0].(emergency.State)))
	require.Equal(t, []string{"all", "cluster/c1"}, workflowtest.Scopes(saved[len(saved)-1].(emergency.State)))
}

func TestWithoutAHubANewEmergencyStopStartsWithoutHolds(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	noHub := workflowtest.Always(temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil))
	w.Fail["LoadHolds"], w.Fail["SaveHolds"] = noHub, noHub
	w.Subscribers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}}
	w.At(7, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.NotZero(t, status.Number, "the workflow does not wait for a hub")
		require.Empty(t, status.Holds)
	})
	w.ContinueAsNewAt(60)
	started := time.Now()
	w.SetStartTime(started)
	require.Empty(t, w.CarriedOver(emergencystop.Input{}).State.Holds)
	require.Greater(t, w.Notified["cgu/ops/june"][0].Number, started.Add(-time.Hour).UnixMilli(), "state numbers start near the time in milliseconds")
}

func TestWithoutAHubThereIsNothingToWaitFor(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Fail["LoadHolds"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrNotFound, "no worker has a hub", nil)
		}
		return nil
	}
	w.At(1, func() {
		status := workflowtest.StatusOf[emergencystop.Status](w.World)
		require.NotZero(t, status.Number)
		require.Empty(t, status.Holds)
		w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}})
	})
	w.ContinueAsNewAt(70)
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State), "a worker with the hub has started since")
}

// A worker with the hub has started since the first look. What it has saved is loaded before it is replaced.
func TestAHoldDoesNotReplaceEarlierOnesThatAreNotLoaded(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Fail["LoadHolds"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrNotFound, "no worker has a hub", nil)
		}
		return nil
	}
	w.At(30, func() { w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}}) })
	w.ContinueAsNewAt(40)
	carried := w.CarriedOver(emergencystop.Input{})
	require.False(t, carried.NoHub)
	for _, saved := range w.Inputs["SaveHolds"] {
		require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(saved.(emergency.State)))
	}
	require.NotEmpty(t, w.Inputs["SaveHolds"])
}

// Some workers know the hub.
func TestAWorkerWithoutAHubDoesNotLoseTheEarlierHolds(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	noHub := func(call int) error {
		if call < kit.RoundAttempts {
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.Fail["LoadHolds"], w.Fail["SaveHolds"] = noHub, noHub
	w.At(10, func() { w.Update(temporal.UpdateHold, emergency.Request{Clusters: []string{"c2"}}) })
	w.ContinueAsNewAt(60)
	carried := w.CarriedOver(emergencystop.Input{})
	require.Equal(t, []string{"cluster/c1", "cluster/c2"}, workflowtest.Scopes(carried.State))
	require.Len(t, w.InputsOf("SaveHolds"), kit.RoundAttempts)
}

func TestAnUnreachableHubIsNotMistakenForNoHub(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Fail["LoadHolds"] = func(call int) error {
		switch {
		case call <= kit.RoundAttempts:
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		case call <= 4*kit.RoundAttempts:
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.ContinueAsNewAt(3600)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
}

func TestLoadingContinuesInTheNextRun(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.WasTerminated()
	w.Blocked["LoadHolds"] = true
	w.At(9, func() {
		require.Contains(t, workflowtest.StatusOf[emergencystop.Status](w.World).All().Reason, "the saved holds are unknown: the hub has not answered within 8s")
	})
	w.ContinueAsNewAt(10)
	carried := w.CarriedOver(emergencystop.Input{})
	require.True(t, carried.NotLoaded)
	require.True(t, carried.NotSearched)
	require.Equal(t, []string{"all"}, workflowtest.Scopes(carried.State))

	next := workflowtest.NewEmergencyStopWorld(t)
	next.WasTerminated()
	next.ContinueAsNewAt(70)
	carried = next.CarriedOver(emergencystop.Input{Carried: carried})
	require.False(t, carried.NotLoaded)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
}
