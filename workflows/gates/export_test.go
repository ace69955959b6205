package gates

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/windows"
)

// HoldsOfWindow returns Holds with the state of one window.
func HoldsOfWindow(ctx workflow.Context, known windows.Snapshot) *Holds {
	return &Holds{ctx: ctx, Windows: Windows{ctx: ctx, Names: []string{known.Window}, snapshots: map[string]windows.Snapshot{known.Window: known}}}
}
