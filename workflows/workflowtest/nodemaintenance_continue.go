package workflowtest

import (
	"slices"

	"drydock.dev/drydock/internal/scheduling"
)

func (w *World) CalledTimes(activity string, times int) func() bool {
	return func() bool { return len(w.InputsOf(activity)) >= times }
}

// Waiting are the requests of a set that are not granted.
func Waiting(set scheduling.SlotRequests) []scheduling.Slot {
	return slices.DeleteFunc(slices.Clone(set.Slots), func(s scheduling.Slot) bool { return s.Granted })
}
