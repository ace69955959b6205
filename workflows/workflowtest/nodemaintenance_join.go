package workflowtest

import (
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Peer is another maintenance, which the test plays, of the same node.
var Peer = scheduling.SlotOwner{WorkflowID: "node/c1/gpu/n1", FirstRunID: "run-of-peer"}

// Occupy gives the node to the peer, or to another holder, before the maintenance under test asks for a slot.
func (w *World) Occupy(holder scheduling.SlotOwner) {
	w.RegisterDelayedCallback(func() {
		w.RequestSlots(scheduling.SlotRequests{
			Owner: holder, Version: 1, Namespace: "gpu", Requestor: "gpu.example.com", Maintenances: "node/c1/gpu/",
			Slots: []scheduling.Slot{{Number: 1, Name: "n1", Node: "n1", Since: w.Now()}},
		})
	}, 0)
}

// Vacate lets the peer return the node.
func (w *World) Vacate() {
	w.RequestSlots(scheduling.SlotRequests{Owner: Peer, Version: 2})
}

// Joins adds a requestor to the maintenance under test.
func (w *World) Joins(id string) func() {
	return func() { w.Answers(w.Join(id), "") }
}

func (w *World) Join(id string) *Asked {
	return w.Ask(temporal.UpdateJoin, temporal.SignalRequest{Requestor: id, Actor: "kim"})
}

// Answers requires, at the end of the test, that an update was carried out, or refused for that problem.
func (w *World) Answers(a *Asked, problem string) {
	w.T.Cleanup(func() {
		if problem != "" {
			require.ErrorContains(w.T, a.Refused, problem)
			return
		}
		require.NoError(w.T, a.Refused)
		require.NoError(w.T, a.Err)
		require.NotNil(w.T, a.Result)
	})
}
