package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/rollout"
)

// clockNoon is the moment from which the periods of these tests count.
var clockNoon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// minutes is a period in minutes after noon.
func minutes(from, to float64) rollout.Period {
	at := func(m float64) time.Time { return clockNoon.Add(time.Duration(m * float64(time.Minute))) }
	return rollout.Period{From: at(from), To: at(to)}
}

func TestALateTimerShowsAnOutage(t *testing.T) {
	require.Zero(t, rollout.LateTimer(clockNoon, clockNoon.Add(10*time.Second)), "a busy worker may delay it")
	require.Equal(t, minutes(0, 5), rollout.LateTimer(clockNoon, clockNoon.Add(5*time.Minute)))
}

func TestTimeWithoutWorkersIsNotCharged(t *testing.T) {
	tests := []struct {
		name                 string
		outage, ran, counted rollout.Period
		left                 time.Duration
		want                 time.Duration
	}{
		{"an outage", minutes(10, 20), minutes(0, 21), rollout.Period{}, time.Hour, 10 * time.Minute},
		{"none", rollout.Period{}, minutes(0, 21), rollout.Period{}, 0, 0},
		{"only while the clock ran: it was paused", minutes(10, 20), minutes(0, 9), rollout.Period{}, 0, 0},
		{"only while the clock ran: it was paused at the end of the outage", minutes(10, 20), minutes(0, 20), rollout.Period{}, time.Hour, 10 * time.Minute},
		{"only while the clock ran: it was started meanwhile", minutes(10, 20), minutes(15, 21), rollout.Period{}, time.Hour, 5 * time.Minute},
		{"what a late timer has shown is taken off once", minutes(10, 20), minutes(0, 21), minutes(18, 20), time.Hour, 8 * time.Minute},
		{"a report that is repeated", minutes(10, 20), minutes(0, 21), minutes(10, 20), 0, 0},
		{"at least a minute is left", minutes(18, 20), minutes(0, 20), rollout.Period{}, -90 * time.Second, 150 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, rollout.Uncounted(test.outage, test.ran, test.counted, test.left))
		})
	}
}

func TestAfterAnOutageABatchKeepsItsTimeAndAtLeastAMinute(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := func(name string, limit int) time.Duration {
			return time.Duration(rapid.IntRange(0, limit).Draw(r, name)) * time.Second
		}
		left, before, late := seconds("left", 3600), seconds("before the timer is due", 300), 11*time.Second+seconds("late", 7200)
		// The outage begins at noon, the timer is due in it, and the first worker sees both the timer and the report.
		due := clockNoon.Add(before)
		now := due.Add(late)
		ran := rollout.Period{From: clockNoon.Add(-time.Hour), To: now}
		leftNow := left - now.Sub(clockNoon)
		timer := rollout.LateTimer(due, now)
		leftNow += rollout.Uncounted(timer, ran, rollout.Period{}, leftNow)
		require.GreaterOrEqual(r, leftNow, time.Minute, "the batch does not time out before the report")
		leftNow += rollout.Uncounted(rollout.Period{From: clockNoon, To: now}, ran, timer, leftNow)
		require.GreaterOrEqual(r, leftNow, max(left, time.Minute))
		require.LessOrEqual(r, leftNow, left+time.Minute+before, "little more than it had")
	})
}
