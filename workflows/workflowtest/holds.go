package workflowtest

import (
	"time"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// ReleaseAfter sends a state without holds after a delay.
func (w *World) ReleaseAfter(d time.Duration, number int64) {
	w.SimulateAfter(d, func() { w.SignalWorkflow(temporal.SignalHeld, HeldState(number)) })
}

// ReceiveHolds sends a state of the emergency stop after a delay.
func (w *World) ReceiveHolds(after time.Duration, state emergency.State) {
	w.SimulateAfter(after, func() { w.SignalWorkflow(temporal.SignalHeld, state) })
}
