// Package windows decides when maintenance may run: the phase of an announced maintenance, the openings of a window by its calendar across daylight saving
// time changes, and whether work may start now. Decisions depend only on arguments, never on the time zone of the process.
package windows

import (
	"errors"
	"fmt"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// ErrInvalidSchedule: a maintenance ends before it starts, so it has no phase.
var ErrInvalidSchedule = errors.New("invalid schedule")

// MaintenanceState is the phase of a maintenance at a moment, and its next change.
type MaintenanceState struct {
	Phase sreportalv1.MaintenancePhase `json:"phase"`
	// NextTransition is the start of an upcoming maintenance and the end of one in progress; nil once it is completed.
	NextTransition *time.Time `json:"nextTransition"`
	// RequeueAfterSeconds is when the phase has changed, in whole seconds from now, at least 1; nil without a next one.
	RequeueAfterSeconds *int64 `json:"requeueAfterSeconds"`
}

// StateAt returns the state of a maintenance at now, or ErrInvalidSchedule.
func StateAt(now, start, end time.Time) (MaintenanceState, error) {
	phase, err := ComputePhase(now, start, end)
	if err != nil {
		return MaintenanceState{}, err
	}
	state := MaintenanceState{Phase: phase}
	if next, changes := NextTransition(now, start, end); changes {
		seconds := wholeSeconds(now, next)
		if phase == sreportalv1.PhaseInProgress {
			next = end
		}
		next = next.UTC()
		state.NextTransition, state.RequeueAfterSeconds = &next, &seconds
	}
	return state, nil
}

// ComputePhase returns the phase at now: upcoming before the start, in progress from the start to the end (inclusive), and completed afterwards. It
// returns ErrInvalidSchedule if the end is not after the start.
func ComputePhase(now, start, end time.Time) (sreportalv1.MaintenancePhase, error) {
	switch {
	case !end.After(start):
		return "", fmt.Errorf("%w: the end, %s, is not after the start, %s", ErrInvalidSchedule, instant(end), instant(start))
	case now.Before(start):
		return sreportalv1.PhaseUpcoming, nil
	case now.After(end):
		return sreportalv1.PhaseCompleted, nil
	}
	return sreportalv1.PhaseInProgress, nil
}

// NextTransition returns the first moment after now at which the phase changes, and false once the maintenance is completed. The end is still in
// progress, so the next phase begins a nanosecond later. A moment has no limit; a duration could not exceed 292 years.
func NextTransition(now, start, end time.Time) (time.Time, bool) {
	switch {
	case now.Before(start):
		return start, true
	case now.After(end):
		return time.Time{}, false
	}
	return end.Add(time.Nanosecond), true
}

// wholeSeconds returns the seconds from one moment to a later one, rounded up.
func wholeSeconds(from, to time.Time) int64 {
	seconds := to.Unix() - from.Unix()
	if to.Nanosecond() > from.Nanosecond() {
		seconds++
	}
	return seconds
}

// instant formats a moment for a message.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
