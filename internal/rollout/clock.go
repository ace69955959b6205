package rollout

import "time"

const (
	// lateness is the delay of a timer that shows that no worker was running.
	lateness = 10 * time.Second
	// afterOutage is the minimum remaining time of a batch after an outage. An activity of a dead worker times out after 30 s, and its retry takes as
	// long to report the current state.
	afterOutage = time.Minute
)

// Period is a period of time; the zero value is empty.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Length is the length of a period; 0 if it ends before it starts.
func (p Period) Length() time.Duration { return max(0, p.To.Sub(p.From)) }

// And returns the common part of two periods.
func (p Period) And(other Period) Period {
	if other.From.After(p.From) {
		p.From = other.From
	}
	if other.To.Before(p.To) {
		p.To = other.To
	}
	return p
}

// LateTimer returns the part of an outage that a timer shows, from when it was due; empty if it fired in time. When the outage began is not known yet: an
// activity reports it once a worker runs it again.
func LateTimer(due, now time.Time) Period {
	if now.Sub(due) <= lateness {
		return Period{}
	}
	return Period{due, now}
}

// Uncounted returns how much of an outage to take off a clock, which last ran during ran. counted is the part that was taken off before. left is the
// remaining time of the batch: it has at least a minute after an outage, so that clusters can report what they finished meanwhile.
func Uncounted(outage, ran, counted Period, left time.Duration) time.Duration {
	charged := outage.And(ran)
	uncounted := charged.Length() - charged.And(counted).Length()
	if uncounted <= 0 {
		return 0
	}
	return max(uncounted, afterOutage-left)
}
