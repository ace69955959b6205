package emergency

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// doubter holds everything while it is not known what was held before.
const doubter = "drydock"

// First is the first state of an emergency stop that nobody has told yet what is held. Its number is greater than that of any state before: an
// earlier emergency stop may have been terminated, and whoever it has told must believe this one.
func First(now time.Time) State { return State{Number: now.UnixMilli()} }

// Doubt holds every cluster, because what was held before is not known. Whoever knows better may release that.
func (s State) Doubt(why string, now time.Time) State {
	next, _ := s.Hold(Request{All: true, Actor: doubter, Reason: "what was held before is not known: " + why}, now)
	return next
}

// Recall adds what was held before to what is held since, and ends the doubt about it.
func (s State) Recall(before State) State {
	next := State{Number: max(s.Number, before.Number) + 1, Holds: s.Holds}
	if all := s.All(); all != nil && all.By == doubter {
		next.Holds = next.without(drydockv1.HoldAll)
	}
	for _, hold := range before.Holds {
		if next.find(hold.Scope) == nil {
			next.Holds = append(next.without(hold.Scope), hold)
		}
	}
	next.sort()
	return next
}
