package workflowtest

import (
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// Say sends signals one after the other, a minute apart, beginning after the first.
func (w *World) Say(signals ...func()) {
	for i, signal := range signals {
		w.RegisterDelayedCallback(signal, time.Duration(i+1)*time.Minute)
	}
}

func (w *World) Signal(name, requestor string) func() {
	return func() { w.SignalWorkflow(name, temporal.SignalRequest{Requestor: requestor}) }
}

// KeepsNode requires that the node is not on its way back.
func (w *World) KeepsNode(state maintenancev1.NodeState) func() {
	return func() {
		require.Equal(w.T, state, StatusOf[NodeStatus](w).State)
		require.NotContains(w.T, w.Called(), "AwaitNodeHealthy")
	}
}
