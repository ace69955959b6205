package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/rollout"
)

func TestTheNextStepOfABatch(t *testing.T) {
	open := rollout.StartBudget{Size: 3, MaxFailures: 3}
	full := rollout.StartBudget{Size: 3, Running: 3}
	tests := []struct {
		name     string
		state    rollout.BatchState
		decision rollout.BatchDecision
	}{
		{"starts all pending clusters", rollout.BatchState{Budget: open, Pending: 2}, rollout.BatchDecision{Step: rollout.BatchStart, Start: 2}},
		{"starts as many as the budget allows", rollout.BatchState{Budget: open, Pending: 9}, rollout.BatchDecision{Step: rollout.BatchStart, Start: 3}},
		{"waits while the budget is used up", rollout.BatchState{Budget: full, Pending: 1, Busy: 3}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchFull}},
		{
			"waits while the running clusters could reach the limit of failures",
			rollout.BatchState{Budget: rollout.StartBudget{Size: 3, Running: 1, MaxFailures: 1}, Pending: 1, Busy: 1},
			rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchCautious},
		},
		{"ends when all clusters have ended", rollout.BatchState{Budget: open}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchAllStarted}},
		{"waits while a cluster soaks and others wait for it", rollout.BatchState{Budget: open, SoakCounts: true}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchAllStarted}},
		{"waits while it is paused", rollout.BatchState{Budget: open, Pending: 1, Paused: true}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchPaused}},
		{"a paused batch ends when all clusters have ended", rollout.BatchState{Budget: open, Paused: true}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchAllStarted}},
		{
			"too many failures end it, even while a cluster soaks",
			rollout.BatchState{Budget: rollout.StartBudget{Size: 3, MaxFailures: 1, Failed: 1}, Pending: 1, SoakCounts: true},
			rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchTooManyFailures},
		},
		{
			"too many failures do not matter without pending clusters",
			rollout.BatchState{Budget: rollout.StartBudget{Size: 3, MaxFailures: 1, Failed: 1}, SoakCounts: true},
			rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchAllStarted},
		},
		{"a timeout waits for clusters that are being cancelled", rollout.BatchState{Budget: open, Pending: 1, Busy: 1, TimedOut: true}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchTimedOut}},
		{"a timeout waits for clusters that soak", rollout.BatchState{Budget: open, Pending: 1, TimedOut: true, SoakCounts: true}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchTimedOut}},
		{"a timeout ends a batch without running clusters", rollout.BatchState{Budget: open, Pending: 1, TimedOut: true}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchTimedOut}},
		{"a cancellation does not wait for clusters that soak", rollout.BatchState{Budget: open, Cancelled: true, SoakCounts: true}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchCancelled}},
		{"outdated health is checked again", rollout.BatchState{Budget: open, Pending: 1, HealthUnknown: true, HistoryLong: true}, rollout.BatchDecision{Step: rollout.BatchRecheck, Reason: rollout.BatchHealthUnknown}},
		{"a long history continues as new", rollout.BatchState{Budget: open, Pending: 1, HistoryLong: true, Paused: true}, rollout.BatchDecision{Step: rollout.BatchNewRun, Reason: rollout.BatchHistoryLong}},
		{"a long history waits for running clusters", rollout.BatchState{Budget: open, Pending: 1, HistoryLong: true, Busy: 1}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchHistoryLong}},
		{"waits for clusters that are offline", rollout.BatchState{Budget: open, Offline: 1}, rollout.BatchDecision{Step: rollout.BatchWait, Reason: rollout.BatchOffline}},
		{"does not wait for them after a timeout", rollout.BatchState{Budget: open, Offline: 1, TimedOut: true}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchTimedOut}},
		{"ends for relapses while it only waits for them", rollout.BatchState{Budget: open, Offline: 1, Relapses: true}, rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchRelapses}},
		{"starts those that are back before", rollout.BatchState{Budget: open, Offline: 1, Pending: 1, Relapses: true}, rollout.BatchDecision{Step: rollout.BatchStart, Start: 1}},
		{"continues as new while it waits for them", rollout.BatchState{Budget: open, Offline: 1, HistoryLong: true}, rollout.BatchDecision{Step: rollout.BatchNewRun, Reason: rollout.BatchHistoryLong}},
		{
			"too many failures end the wait for them",
			rollout.BatchState{Budget: rollout.StartBudget{Size: 3, MaxFailures: 1, Failed: 1}, Offline: 1},
			rollout.BatchDecision{Step: rollout.BatchEnd, Reason: rollout.BatchTooManyFailures},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.decision, test.state.Decide()) })
	}
}

func TestABatchNeverExceedsItsLimitsNorWaitsWithoutReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		busy, soaking := rapid.IntRange(0, 4).Draw(t, "busy"), rapid.IntRange(0, 3).Draw(t, "soaking")
		b := rollout.BatchState{
			Budget: rollout.StartBudget{
				Size: rapid.IntRange(1, 6).Draw(t, "size"), Running: busy + soaking,
				MaxFailures: rapid.IntRange(0, 4).Draw(t, "max failures"), Failed: rapid.IntRange(0, 5).Draw(t, "failed"),
			},
			Pending: rapid.IntRange(0, 9).Draw(t, "pending"), Offline: rapid.IntRange(0, 2).Draw(t, "offline"), Busy: busy, Relapses: rapid.Bool().Draw(t, "relapses"),
			Cancelled: rapid.Bool().Draw(t, "cancelled"), TimedOut: rapid.Bool().Draw(t, "timed out"), Paused: rapid.Bool().Draw(t, "paused"),
			HealthUnknown: rapid.Bool().Draw(t, "health unknown"), HistoryLong: rapid.Bool().Draw(t, "history long"),
		}
		b.SoakCounts = soaking > 0 && rapid.Bool().Draw(t, "soak counts")
		decision := b.Decide()
		require.Equal(t, decision.Step == rollout.BatchStart, decision.Reason == "", "each refusal has a reason")
		switch decision.Step {
		case rollout.BatchStart:
			require.Positive(t, decision.Start)
			require.LessOrEqual(t, decision.Start, min(b.Pending, b.Budget.Free()))
			require.False(t, b.Cancelled || b.TimedOut || b.Paused || b.HealthUnknown || b.HistoryLong)
		case rollout.BatchWait:
			require.True(t, b.Busy > 0 || soaking > 0 || b.Paused || b.Offline > 0, "the wait would never end")
		default:
			require.Zero(t, b.Busy, "clusters are running")
			require.False(t, b.SoakCounts && !b.Cancelled && decision.Reason != rollout.BatchTooManyFailures, "clusters soak for others")
		}
	})
}
