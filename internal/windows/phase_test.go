package windows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// moment parses RFC 3339.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestThePhaseAtEveryBoundary(t *testing.T) {
	start, end := moment("2026-03-28T02:00:00Z"), moment("2026-03-28T06:00:00Z")
	for _, test := range []struct{ name, now, state string }{
		{"long before", "2026-03-27T23:00:00Z", `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 10800}`},
		{"a second before the start", "2026-03-28T01:59:59Z", `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 1}`},
		{"a nanosecond more than a second before", "2026-03-28T01:59:58.999999999Z", `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 2}`},
		{"a nanosecond before the start", "2026-03-28T01:59:59.999999999Z", `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 1}`},
		{"at the start", "2026-03-28T02:00:00Z", `{"phase": "in_progress", "nextTransition": "2026-03-28T06:00:00Z", "requeueAfterSeconds": 14401}`},
		{"at the start, in another zone", "2026-03-28T03:00:00+01:00", `{"phase": "in_progress", "nextTransition": "2026-03-28T06:00:00Z", "requeueAfterSeconds": 14401}`},
		{"a nanosecond before the end", "2026-03-28T05:59:59.999999999Z", `{"phase": "in_progress", "nextTransition": "2026-03-28T06:00:00Z", "requeueAfterSeconds": 1}`},
		{"at the end", "2026-03-28T06:00:00Z", `{"phase": "in_progress", "nextTransition": "2026-03-28T06:00:00Z", "requeueAfterSeconds": 1}`},
		{"a nanosecond after the end", "2026-03-28T06:00:00.000000001Z", `{"phase": "completed", "nextTransition": null, "requeueAfterSeconds": null}`},
		{"in a thousand years", "3026-01-01T00:00:00Z", `{"phase": "completed", "nextTransition": null, "requeueAfterSeconds": null}`},
		{"a thousand years before", "1026-03-28T02:00:00Z", `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 31556995200}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, err := windows.StateAt(moment(test.now), start, end)
			require.NoError(t, err)
			text, err := json.Marshal(state)
			require.NoError(t, err)
			require.JSONEq(t, test.state, string(text))
		})
	}
}

func TestAMaintenanceWithoutLengthHasNoPhase(t *testing.T) {
	start := moment("2026-03-28T02:00:00Z")
	for _, end := range []time.Time{start, start.Add(-time.Nanosecond), start.Add(-time.Hour), {}} {
		state, err := windows.StateAt(start, start, end)
		require.ErrorIs(t, err, windows.ErrInvalidSchedule)
		require.Zero(t, state, "an earlier phase is cleared")
		phase, err := windows.ComputePhase(start.Add(time.Minute), start, end)
		require.ErrorIs(t, err, windows.ErrInvalidSchedule)
		require.Empty(t, phase)
	}
}

func TestThePhaseChangesAtTheNextTransitionAndNotBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := moment("2026-03-28T02:00:00Z")
		near := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-1e12, 1e12), rapid.Int64Range(-9e18, 9e18))
		start := base.Add(time.Duration(near.Draw(t, "start")))
		end := start.Add(time.Duration(rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 9e18)).Draw(t, "length")))
		now := rapid.SampledFrom([]time.Time{base, start, end}).Draw(t, "near").Add(time.Duration(near.Draw(t, "now")))

		phase, err := windows.ComputePhase(now, start, end)
		require.NoError(t, err)
		next, changes := windows.NextTransition(now, start, end)
		require.Equal(t, phase != sreportalv1.PhaseCompleted, changes, "only a completed maintenance has no next transition")
		if !changes {
			return
		}
		require.True(t, next.After(now))
		then, err := windows.ComputePhase(next, start, end)
		require.NoError(t, err)
		require.NotEqual(t, phase, then)
		before, err := windows.ComputePhase(next.Add(-time.Nanosecond), start, end)
		require.NoError(t, err)
		require.Equal(t, phase, before)

		state, err := windows.StateAt(now, start, end)
		require.NoError(t, err)
		require.Equal(t, phase, state.Phase)
		shown := map[sreportalv1.MaintenancePhase]time.Time{sreportalv1.PhaseUpcoming: start, sreportalv1.PhaseInProgress: end}
		require.True(t, state.NextTransition.Equal(shown[phase]), "people see the start or the end itself")
		require.GreaterOrEqual(t, *state.RequeueAfterSeconds, int64(1))
		woken := time.Unix(now.Unix()+*state.RequeueAfterSeconds, int64(now.Nanosecond()))
		require.False(t, woken.Before(next), "whole seconds reach the transition")
		require.True(t, woken.Add(-time.Second).Before(next), "one second less does not")
	})
}
