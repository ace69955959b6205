package rollout

import "time"

const (
	// lateness is the delay of a timer that shows that no worker was running.
	lateness = 10 * time.Second
	// afterOutage is the minimum remaining time of a batch after an outage. An activity of a dead worker times out after 30 s, and its retry takes as
	// long to report the current state.
	afterOutage = time.Minute
	// longestInterval limits the extra time that a rollout gets after an outage.
	longestInterval = 5 * time.Minute
)

// ClockInterval is the interval of the timer that detects outages during a batch with that time limit. A late timer is the only sign of an outage in
// a workflow: with one timer at the deadline of the batch, an outage that ends before it would take time from the clusters.
func ClockInterval(timeout time.Duration) time.Duration {
	return min(max(timeout/10, lateness), longestInterval)
}

// Outage returns the time that does not count after a timer fired: none if it fired in time, otherwise all time since it was set. left is the
// remaining time of the batch. The batch has at least a minute after an outage, so that clusters can report what they finished meanwhile.
func Outage(set, due, now time.Time, left time.Duration) time.Duration {
	if now.Sub(due) <= lateness {
		return 0
	}
	return max(now.Sub(set), afterOutage-left)
}
