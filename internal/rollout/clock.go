package rollout

import "time"

const (
	// lateness is the delay of a timer above which it shows that no worker was running.
	lateness = 10 * time.Second
	// afterOutage is the minimum time that a batch has after an outage. An activity of a dead worker times out after 30 s, and its retry takes as long
	// to report what happened meanwhile.
	afterOutage = time.Minute
	// longestInterval limits the extra time that a rollout gets after an outage.
	longestInterval = 5 * time.Minute
)

// ClockInterval is the interval of the timer that detects outages while a batch with that budget is in progress. For a workflow, a late timer is the
// only sign that no worker was running.
func ClockInterval(budget time.Duration) time.Duration {
	return min(max(budget/10, lateness), longestInterval)
}

// Outage returns the time that is not charged to a batch after its timer fired: none if it fired in time. If it fired late, no worker was running,
// and nothing since the timer was set counts. left is the rest of the budget without that. After an outage it is never less than a minute, so that
// clusters can report that they finished meanwhile.
func Outage(arranged, due, now time.Time, left time.Duration) time.Duration {
	if now.Sub(due) <= lateness {
		return 0
	}
	return max(now.Sub(arranged), afterOutage-left)
}
