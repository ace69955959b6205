package workflowtest

import (
	"time"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

func (w *World) ReleaseAfter(d time.Duration, number int64) {
	w.SimulateAfter(d, func() { w.SignalWorkflow(temporal.SignalHeld, HeldState(number)) })
}

// ReceiveHolds lets the emergency stop say something a while after the rollout began.
func (w *World) ReceiveHolds(after time.Duration, state emergency.State) {
	w.SimulateAfter(after, func() { w.SignalWorkflow(temporal.SignalHeld, state) })
}
