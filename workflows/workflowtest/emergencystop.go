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

// EmergencyStopWorld simulates the subscribers of an emergency stop.
type EmergencyStopWorld struct {
	*World
	// Notified are the states that each subscriber received, by workflow ID.
	Notified map[string][]emergency.State
	// Gone are subscribers that no longer exist.
	Gone map[string]bool
}

// NewEmergencyStopWorld returns a world without subscribers.
func NewEmergencyStopWorld(t *testing.T) *EmergencyStopWorld {
	w := &EmergencyStopWorld{World: NewWorld(t), Notified: map[string][]emergency.State{}, Gone: map[string]bool{}}
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalHeld, mock.Anything).Return(
		func(_, workflowID, _, _ string, state any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			if w.Gone[workflowID] {
				return errors.New("no such workflow")
			}
			w.Notified[workflowID] = append(w.Notified[workflowID], state.(emergency.State))
			return nil
		}).Maybe()
	return w
}

// At calls back that many seconds after the start of the workflow.
func (w *EmergencyStopWorld) At(seconds int, callback func()) {
	w.RegisterDelayedCallback(callback, time.Duration(seconds)*time.Second)
}

// Subscribe subscribes a workflow to the holds of a cluster, or to all.
func (w *EmergencyStopWorld) Subscribe(id, cluster string) {
	w.SignalWorkflow(temporal.SignalSubscribeHolds, temporal.Subscription{WorkflowID: id, FirstRunID: "1", Cluster: cluster})
}

// Update sends an update. The returned answer is filled in when the workflow answers.
func (w *EmergencyStopWorld) Update(update string, r emergency.Request) *Answer {
	a := &Answer{}
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { a.Rejected = err },
		OnComplete: func(result any, err error) {
			a.Err = err
			if err == nil {
				a.Answer, a.Done = result.(emergency.Answer), true
			}
		},
	}, r)
	return a
}

// Answer is the answer to an update.
type Answer struct {
	emergency.Answer
	Done bool
	// Rejected is the error of the validator, Err that of the handler.
	Rejected error
	Err      error
}

// ContinueAsNewAt lets the run continue as new.
func (w *EmergencyStopWorld) ContinueAsNewAt(seconds int) {
	w.At(seconds, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalUnsubscribeHolds, temporal.Subscription{WorkflowID: "not-subscribed"})
	})
}

// CarriedOver runs the emergency stop until it continues as new, and returns the input of the next run.
func (w *EmergencyStopWorld) CarriedOver(in emergencystop.Input) *emergencystop.Carried {
	w.T.Helper()
	w.ExecuteWorkflow(emergencystop.EmergencyStop, in)
	require.True(w.T, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var out emergencystop.Input
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out.Carried
}

// Scopes returns the scopes that are held.
func Scopes(s emergency.State) []string {
	scopes := []string{}
	for _, hold := range s.Holds {
		scopes = append(scopes, string(hold.Scope))
	}
	return scopes
}

// HoldC1 is a request to hold cluster c1.
var HoldC1 = emergency.Request{Clusters: []string{"c1"}, Actor: "ann", Reason: "flood"}

// Details returns the current details of the workflow.
func (w *World) Details() string {
	value, err := w.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(w.T, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(w.T, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// HeldState returns a state in which ann holds the scopes.
func HeldState(number int64, scopes ...drydockv1.HoldScope) emergency.State {
	state := emergency.State{Number: number}
	for _, scope := range scopes {
		state.Holds = append(state.Holds, drydockv1.Hold{Scope: scope, By: "ann", Reason: "flood"})
	}
	return state
}

// WasTerminated simulates an earlier emergency stop with a hold of c1 and two subscribers, which was terminated.
func (w *EmergencyStopWorld) WasTerminated() {
	w.LoadedHolds = HeldState(7, "cluster/c1")
	w.Subscribers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}, {WorkflowID: "node/c2/ops/n1", Cluster: "c2"}}
}
