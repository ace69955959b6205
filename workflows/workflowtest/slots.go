package workflowtest

import (
	"time"

	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// SchedulerStarts replaces the scheduler by one without state, which asks for all sets.
func (w *World) SchedulerStarts(at int64) {
	w.Scheduler.State, w.Scheduler.startedAt = scheduling.SlotState{}, time.Unix(at, 0).UTC()
	w.SignalWorkflow(temporal.SignalResync, scheduling.Resync{Scheduler: w.Scheduler.startedAt})
}
