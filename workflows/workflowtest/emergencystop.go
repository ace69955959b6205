package workflowtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/emergencystop"
)

// toldWorld plays an emergency stop whose followers are recorded with what they are told.
type toldWorld struct {
	*World
	Told map[string][]emergency.State
	// Gone are followers that do not exist any more.
	Gone map[string]bool
}

func NewToldWorld(t *testing.T) *toldWorld {
	w := &toldWorld{World: NewWorld(t), Told: map[string][]emergency.State{}, Gone: map[string]bool{}}
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalHeld, mock.Anything).Return(
		func(_, workflowID, _, _ string, state any) error {
			w.Mu.Lock() // several are told at once
			defer w.Mu.Unlock()
			if w.Gone[workflowID] {
				return errors.New("no such workflow")
			}
			w.Told[workflowID] = append(w.Told[workflowID], state.(emergency.State))
			return nil
		}).Maybe()
	return w
}

// At does something a while after the workflow began.
func (w *toldWorld) At(seconds int, what func()) {
	w.RegisterDelayedCallback(what, time.Duration(seconds)*time.Second)
}

func (w *toldWorld) Follows(id, cluster string) {
	w.SignalWorkflow(temporal.SignalFollowHolds, temporal.Subscription{WorkflowID: id, FirstRunID: "1", Cluster: cluster})
}

// Asks sends an update and returns where its answer will be.
func (w *toldWorld) Asks(update string, r emergency.Request) *Answer {
	a := &Answer{}
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { a.Refused = err },
		OnComplete: func(result any, err error) {
			a.Err = err
			if err == nil {
				a.Answer, a.Done = result.(emergency.Answer), true
			}
		},
	}, r)
	return a
}

type Answer struct {
	emergency.Answer
	Done    bool
	Refused error
	Err     error
}

// Ends makes the run end, as entities do: it continues as new.
func (w *toldWorld) Ends(seconds int) {
	w.At(seconds, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalLeaveHolds, temporal.Subscription{WorkflowID: "nobody"})
	})
}

// CarriedOver runs the emergency stop until it continues as new, and returns what it hands over.
func (w *toldWorld) CarriedOver(in emergencystop.Input) *emergencystop.Carried {
	w.T.Helper()
	w.ExecuteWorkflow(emergencystop.EmergencyStop, in)
	require.True(w.T, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var out emergencystop.Input
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out.Carried
}

func Scopes(s emergency.State) []string {
	scopes := []string{}
	for _, hold := range s.Holds {
		scopes = append(scopes, string(hold.Scope))
	}
	return scopes
}

var HoldC1 = emergency.Request{Clusters: []string{"c1"}, Actor: "ann", Reason: "flood"}

// Details are the current details of the workflow, as the Web UI shows them.
func (w *toldWorld) Details() string {
	value, err := w.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(w.T, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(w.T, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// HeldState is a state in which the scopes are held by ann.
func HeldState(number int64, scopes ...drydockv1.HoldScope) emergency.State {
	state := emergency.State{Number: number}
	for _, scope := range scopes {
		state.Holds = append(state.Holds, drydockv1.Hold{Scope: scope, By: "ann", Reason: "flood"})
	}
	return state
}

// WasTerminated plays that an emergency stop which held c1 was terminated, with two followers.
func (w *toldWorld) WasTerminated() {
	w.Recalled = HeldState(7, "cluster/c1")
	w.Followers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}, {WorkflowID: "node/c2/ops/n1", Cluster: "c2"}}
}
