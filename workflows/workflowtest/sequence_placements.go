package workflowtest

import (
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Stops are what keeps anything new from being put on c1, and what ends that.
var Stops = map[string]struct {
	Reason     string
	Stop, GoOn func(*World)
}{
	"held": {
		emergency.ReasonHeld,
		func(w *World) { w.SignalWorkflow(temporal.SignalHeld, HeldState(2, "cluster/c1")) },
		func(w *World) { w.SignalWorkflow(temporal.SignalHeld, HeldState(3)) },
	},
	"paused": {
		policy.ReasonPaused,
		func(w *World) { w.SignalWorkflow(temporal.SignalPause, nil) },
		func(w *World) { w.SignalWorkflow(temporal.SignalResume, nil) },
	},
}
