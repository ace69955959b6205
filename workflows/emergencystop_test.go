package workflows

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// toldWorld plays an emergency stop whose followers are recorded with what they are told.
type toldWorld struct {
	*world
	told map[string][]emergency.State
	// gone are followers that do not exist any more.
	gone map[string]bool
}

func newToldWorld(t *testing.T) *toldWorld {
	w := &toldWorld{world: newWorld(t), told: map[string][]emergency.State{}, gone: map[string]bool{}}
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalHeld, mock.Anything).Return(
		func(_, workflowID, _, _ string, state any) error {
			w.mu.Lock() // several are told at once
			defer w.mu.Unlock()
			if w.gone[workflowID] {
				return errors.New("no such workflow")
			}
			w.told[workflowID] = append(w.told[workflowID], state.(emergency.State))
			return nil
		}).Maybe()
	return w
}

// at does something a while after the workflow began.
func (w *toldWorld) at(seconds int, what func()) {
	w.RegisterDelayedCallback(what, time.Duration(seconds)*time.Second)
}

func (w *toldWorld) follows(id, cluster string) {
	w.SignalWorkflow(temporal.SignalFollowHolds, temporal.Subscription{WorkflowID: id, FirstRunID: "1", Cluster: cluster})
}

// asks sends an update and returns where its answer will be.
func (w *toldWorld) asks(update string, r emergency.Request) *answer {
	a := &answer{}
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { a.refused = err },
		OnComplete: func(result any, err error) {
			a.err = err
			if err == nil {
				a.Answer, a.done = result.(emergency.Answer), true
			}
		},
	}, r)
	return a
}

type answer struct {
	emergency.Answer
	done    bool
	refused error
	err     error
}

// ends makes the run end, as entities do: it continues as new.
func (w *toldWorld) ends(seconds int) {
	w.at(seconds, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "nobody"})
	})
}

// carriedOver runs the emergency stop until it continues as new, and returns what it hands over.
func (w *toldWorld) carriedOver(in EmergencyStopInput) *EmergencyStopCarried {
	w.t.Helper()
	w.ExecuteWorkflow(EmergencyStop, in)
	require.True(w.t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.GetWorkflowError(), &next)
	var out EmergencyStopInput
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out.Carried
}

func scopes(s emergency.State) []string {
	scopes := []string{}
	for _, hold := range s.Holds {
		scopes = append(scopes, string(hold.Scope))
	}
	return scopes
}

var holdC1 = emergency.Request{Clusters: []string{"c1"}, Actor: "ann", Reason: "flood"}

func TestAFollowerIsToldAtOnceAndOfEveryChange(t *testing.T) {
	w := newToldWorld(t)
	w.at(1, func() { w.follows("cgu/ops/june", "") })
	w.at(2, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.at(3, func() { w.follows("node/c2/ops/n1", "c2") })
	w.at(4, func() { w.asks(temporal.UpdateHold, emergency.Request{All: true}) })
	w.at(5, func() { w.asks(temporal.UpdateRelease, emergency.Request{All: true}) })
	w.ends(6)
	carried := w.carriedOver(EmergencyStopInput{})

	var heard [][]string
	number := int64(0)
	for _, state := range w.told["cgu/ops/june"] {
		heard = append(heard, scopes(state))
		require.Greater(t, state.Number, number)
		number = state.Number
	}
	require.Equal(t, [][]string{{}, {"cluster/c1"}, {"all", "cluster/c1"}, {"cluster/c1"}}, heard)
	heard = nil
	for _, state := range w.told["node/c2/ops/n1"] {
		heard = append(heard, scopes(state))
	}
	require.Equal(t, [][]string{{}, {"all"}, {}}, heard, "a maintenance of another cluster is told what concerns it")
	require.Equal(t, []string{"cluster/c1"}, scopes(carried.State))
	require.Len(t, carried.Followers, 2)
}

func TestTheAnswerToAHoldSaysWhatWasBefore(t *testing.T) {
	w := newToldWorld(t)
	var first, second, released *answer
	w.at(1, func() { first = w.asks(temporal.UpdateHold, holdC1) })
	w.at(2, func() {
		require.Contains(t, w.details(), "cluster c1")
		require.Contains(t, w.details(), "flood")
		second = w.asks(temporal.UpdateHold, emergency.Request{Clusters: []string{"c1"}, Actor: "bob", Reason: "fire"})
	})
	w.at(3, func() {
		status := statusOf[EmergencyStopStatus](w.world)
		require.Equal(t, "fire", status.Of("c1").Reason)
		released = w.asks(temporal.UpdateRelease, emergency.Request{Clusters: []string{"c1"}})
	})
	w.ends(4)
	require.Empty(t, w.carriedOver(EmergencyStopInput{}).State.Holds)

	require.Nil(t, first.Changes[0].Before)
	require.Equal(t, "flood", second.Changes[0].Before.Reason)
	require.Equal(t, first.Changes[0].After.Since.Unix(), second.Changes[0].After.Since.Unix(), "held since when it was held first")
	require.Equal(t, "fire", released.Changes[0].Before.Reason)
	require.Nil(t, released.Changes[0].After)
}

// details are the current details of the workflow, as the Web UI shows them.
func (w *toldWorld) details() string {
	value, err := w.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(w.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(w.t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

func TestARequestThatIsWrongChangesNothing(t *testing.T) {
	w := newToldWorld(t)
	var neither, unheld *answer
	w.at(1, func() { neither = w.asks(temporal.UpdateHold, emergency.Request{}) })
	w.at(2, func() { unheld = w.asks(temporal.UpdateRelease, holdC1) })
	w.at(3, func() { w.SignalWorkflow(temporal.SignalHold, emergency.Request{}) })
	w.ends(4)
	require.Empty(t, w.carriedOver(EmergencyStopInput{}).State.Holds)

	require.ErrorContains(t, neither.refused, "clusters: name at least one, or set all")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(neither.refused))
	require.ErrorContains(t, unheld.refused, "clusters[0]")
}

func TestASignalHoldsToo(t *testing.T) {
	w := newToldWorld(t)
	w.at(1, func() { w.follows("cgu/ops/june", "") })
	w.at(2, func() { w.SignalWorkflow(temporal.SignalHold, holdC1) })
	w.ends(3)
	require.Equal(t, []string{"cluster/c1"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
	require.Len(t, w.told["cgu/ops/june"], 2)
}

func TestAFollowerThatIsGoneIsForgottenAndOneThatLeavesToo(t *testing.T) {
	w := newToldWorld(t)
	for i, id := range []string{"stays", "leaves", "dies", "again"} {
		w.at(i+1, func() { w.follows(id, "") })
	}
	w.at(10, func() {
		w.gone["dies"] = true
		// A new run of the same id has begun to follow before the old one says that it leaves.
		w.SignalWorkflow(temporal.SignalFollowHolds, temporal.Subscription{WorkflowID: "again", FirstRunID: "2"})
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "again", FirstRunID: "1"})
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "leaves", FirstRunID: "1"})
	})
	w.at(11, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.ends(12)
	carried := w.carriedOver(EmergencyStopInput{})

	var followers []string
	for _, f := range carried.Followers {
		followers = append(followers, f.WorkflowID+" "+f.FirstRunID)
	}
	require.Equal(t, []string{"stays 1", "again 2"}, followers)
	require.Len(t, w.told["leaves"], 1)
}

func TestHundredsOfFollowersAreToldInTurnsAndNobodyTwice(t *testing.T) {
	w := newToldWorld(t)
	const many = 3*tellAtOnce + 7
	w.at(1, func() {
		for i := range many {
			w.follows(fmt.Sprintf("cgu/ops/%d", i), "")
		}
	})
	w.at(2, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.ends(3)
	require.Len(t, w.carriedOver(EmergencyStopInput{}).Followers, many)
	require.Len(t, w.told, many)
	for id, states := range w.told {
		last := states[len(states)-1]
		require.Equal(t, []string{"cluster/c1"}, scopes(last), id)
		require.True(t, slices.IsSortedFunc(states, func(a, b emergency.State) int { return int(a.Number - b.Number) }), id)
	}
}

func TestTheNextRunGoesOnWhereTheOneBeforeEnded(t *testing.T) {
	w := newToldWorld(t)
	state := heldState(7, "cluster/c1")
	w.at(2, func() { require.Equal(t, state.Holds[0].By, statusOf[EmergencyStopStatus](w.world).Holds[0].By) })
	w.ends(3)
	carried := w.carriedOver(EmergencyStopInput{Carried: &EmergencyStopCarried{State: state, Followers: []follower{
		{Subscription: temporal.Subscription{WorkflowID: "knows"}, Told: 7},
		{Subscription: temporal.Subscription{WorkflowID: "asked last"}},
		{Subscription: temporal.Subscription{WorkflowID: "missed one"}, Told: 6},
	}}})

	require.Equal(t, state.Number, carried.State.Number)
	require.Len(t, carried.Followers, 3)
	require.NotContains(t, w.told, "knows", "nobody is told twice")
	for _, id := range []string{"asked last", "missed one"} {
		require.Len(t, w.told[id], 1)
		require.Equal(t, []string{"cluster/c1"}, scopes(w.told[id][0]))
	}
}

func TestTheEmergencyStopIsNotCancelled(t *testing.T) {
	w := newToldWorld(t)
	w.at(1, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.at(2, func() { w.CancelWorkflow() })
	w.at(3, func() { w.follows("cgu/ops/june", "") })
	w.ends(4)
	require.Equal(t, []string{"cluster/c1"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
	require.Len(t, w.told["cgu/ops/june"], 1)
	require.False(t, sdktemporal.IsCanceledError(w.GetWorkflowError()))
}

// heldState is a state in which the scopes are held by ann.
func heldState(number int64, scopes ...drydockv1.HoldScope) emergency.State {
	state := emergency.State{Number: number}
	for _, scope := range scopes {
		state.Holds = append(state.Holds, drydockv1.Hold{Scope: scope, By: "ann", Reason: "flood"})
	}
	return state
}
