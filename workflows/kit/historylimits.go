package kit

import (
	"errors"

	"go.temporal.io/sdk/workflow"
)

// ContinueAsNewSignals is the number of signals after which a run continues as new. The server ends a run at 10,000.
const ContinueAsNewSignals = 5000

// ShouldContinueAsNew reports whether the run's history is long enough to continue as new at the next good moment.
func ShouldContinueAsNew(ctx workflow.Context, signals int) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || signals >= ContinueAsNewSignals
}

// MaxEvents and MaxBytes are the server's limits of the history of a run.
const (
	MaxEvents = 51_200
	MaxBytes  = 50 << 20
)

// HistoryUsed returns the used fraction of the history limits.
func HistoryUsed(ctx workflow.Context) float64 {
	info := workflow.GetInfo(ctx)
	return max(float64(info.GetCurrentHistoryLength())/MaxEvents, float64(info.GetCurrentHistorySize())/MaxBytes)
}

// ErrHistoryLong ends a step whose retries have made the history long. The run then continues as new and repeats the step.
var ErrHistoryLong = errors.New("the history of the run is long")
