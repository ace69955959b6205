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
	require.Equal(t, 10*time.Second, rollout.ClockInterval(time.Minute), "but not more often than a look may be late")
	require.Equal(t, 5*time.Minute, rollout.ClockInterval(24*time.Hour), "nor so rarely that much would be given back that was worked")
}

func TestTimeWithoutWorkersIsNotCharged(t *testing.T) {
	arranged := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	due := arranged.Add(time.Minute)
	tests := []struct {
		name  string
		after time.Duration
		left  time.Duration
		want  time.Duration
	}{
		{"a look in time gives nothing back", time.Minute, time.Hour, 0},
		{"nor does one as late as a busy worker may be", 70 * time.Second, 0, 0},
		{"an outage is not charged", 5 * time.Minute, time.Hour, 5 * time.Minute},
		{"one that lasted beyond the deadline is not, either", 5 * time.Minute, -4 * time.Minute, 5 * time.Minute},
		{"and a minute is left in any case", 90 * time.Second, -80 * time.Second, 140 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, rollout.Outage(arranged, due, arranged.Add(test.after), test.left))
		})
	}
}

func TestAfterAnOutageABatchKeepsItsTimeAndAtLeastAMinute(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(r, name)) * time.Second
		}
		left, pause, late := seconds("left", 3600), seconds("pause", 300), seconds("late", 7200)
		arranged := time.Unix(0, 0)
		due := arranged.Add(pause)
		now := due.Add(late)
		leftNow := left - now.Sub(arranged)
		given := rollout.Outage(arranged, due, now, leftNow)
		if late <= 10*time.Second {
			require.Zero(r, given)
			return
		}
		require.Equal(r, max(left, time.Minute), leftNow+given)
	})
}
