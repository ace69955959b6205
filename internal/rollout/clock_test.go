package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/rollout"
)

func TestTheOutageTimerFiresTenTimesABatch(t *testing.T) {
	require.Equal(t, 2*time.Minute, rollout.ClockInterval(20*time.Minute))
	require.Equal(t, 10*time.Second, rollout.ClockInterval(time.Minute), "but not more often than a timer may be late")
	require.Equal(t, 5*time.Minute, rollout.ClockInterval(24*time.Hour), "and at least every five minutes")
}

func TestTimeWithoutWorkersIsNotCharged(t *testing.T) {
	set := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	due := set.Add(time.Minute)
	tests := []struct {
		name  string
		after time.Duration
		left  time.Duration
		want  time.Duration
	}{
		{"a timer in time adds nothing", time.Minute, time.Hour, 0},
		{"a timer that a busy worker delays adds nothing", 70 * time.Second, 0, 0},
		{"an outage is not charged", 5 * time.Minute, time.Hour, 5 * time.Minute},
		{"an outage beyond the deadline is not charged", 5 * time.Minute, -4 * time.Minute, 5 * time.Minute},
		{"at least a minute is left", 90 * time.Second, -80 * time.Second, 140 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, rollout.Outage(set, due, set.Add(test.after), test.left))
		})
	}
}

func TestAfterAnOutageABatchKeepsItsTimeAndAtLeastAMinute(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := func(name string, limit int) time.Duration {
			return time.Duration(rapid.IntRange(0, limit).Draw(r, name)) * time.Second
		}
		left, pause, late := seconds("left", 3600), seconds("pause", 300), seconds("late", 7200)
		set := time.Unix(0, 0)
		due := set.Add(pause)
		now := due.Add(late)
		leftNow := left - now.Sub(set)
		added := rollout.Outage(set, due, now, leftNow)
		if late <= 10*time.Second {
			require.Zero(r, added)
			return
		}
		require.Equal(r, max(left, time.Minute), leftNow+added)
	})
}
