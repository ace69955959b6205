package rollout

import "time"

const (
	// lateness is by how much a look at the clock may come late before it means that no worker was there.
	lateness = 10 * time.Second
	// afterOutage is the least time that a batch has when workers are back: an activity whose worker died is given up after 30 s, and is then
	// as long again about finding what has happened meanwhile and telling it.
	afterOutage = time.Minute
	// longestInterval bounds what a rollout is given too much after an outage.
	longestInterval = 5 * time.Minute
)

// ClockInterval is how often a rollout looks at the clock while a batch with that budget is at work. A look that comes late is the only
// sign of an outage of the workers that a workflow gets.
func ClockInterval(budget time.Duration) time.Duration {
	return min(max(budget/10, lateness), longestInterval)
}

// Outage returns how much time a batch is given back at a look at the clock: none if the look came when it was due. One that came late
// shows that no worker was there. Since when is not known, only that one was when the look was arranged: all that has passed since then
// is not charged. Left is what would be left of the batch's budget without that; after an outage it is never less than a minute, in which
// clusters can tell that they have finished meanwhile.
func Outage(arranged, due, now time.Time, left time.Duration) time.Duration {
	if now.Sub(due) <= lateness {
		return 0
	}
	return max(now.Sub(arranged), afterOutage-left)
}
