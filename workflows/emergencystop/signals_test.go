package emergencystop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAHoldSignalBeforeAReleaseIsReleased(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	var release *workflowtest.Answer
	w.At(1, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, workflowtest.HoldC1)
		release = w.Update(temporal.UpdateRelease, workflowtest.HoldC1)
	})
	w.ContinueAsNewAt(3)
	carried := w.CarriedOver(emergencystop.Input{})
	require.True(t, release.Done)
	require.Empty(t, carried.State.Holds)
}

func TestAReleaseBeforeTheHoldSignalIsHandledIsRejected(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	var release *workflowtest.Answer
	w.At(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, workflowtest.HoldC1)
		release = w.Update(temporal.UpdateRelease, workflowtest.HoldC1)
	})
	w.ContinueAsNewAt(3)
	carried := w.CarriedOver(emergencystop.Input{})
	require.ErrorContains(t, release.Rejected, "clusters[0]: c1 is not held by its name")
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
}

func TestAHoldSignalAfterAReleaseHolds(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	w.At(1, func() { w.Update(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		w.Update(temporal.UpdateRelease, workflowtest.HoldC1)
		w.SignalWorkflow(temporal.SignalHold, workflowtest.HoldC1)
	})
	w.ContinueAsNewAt(3)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
}

func TestSignalsAtTheEndOfARunAreHandledInOrder(t *testing.T) {
	w := workflowtest.NewEmergencyStopWorld(t)
	subscribe := func(signal, run string) workflowtest.SignalWithPayload {
		return workflowtest.SignalWithPayload{Name: signal, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	w.At(1, func() {
		for _, s := range []workflowtest.SignalWithPayload{
			subscribe(temporal.SignalSubscribeHolds, "1"), subscribe(temporal.SignalUnsubscribeHolds, "1"), subscribe(temporal.SignalSubscribeHolds, "1"),
			{Name: temporal.SignalHold, Payload: emergency.Request{All: true}},
		} {
			w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
		}
	})
	w.At(2, func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(emergencystop.EmergencyStop, emergencystop.Input{Carried: &emergencystop.Carried{State: emergency.State{Number: 1}, Saved: 1}})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in emergencystop.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, []string{"all"}, workflowtest.Scopes(in.Carried.State))
	require.Len(t, in.Carried.Subscribers, 1)
}
