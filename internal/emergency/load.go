package emergency

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// unknownActor is the actor of the hold while the saved holds are unknown.
const unknownActor = "drydock"

// Initial is the initial state of an emergency stop without saved holds. Its number is greater than that of any state before, because an earlier
// emergency stop may have been terminated, and its subscribers must accept this state.
func Initial(now time.Time) State { return State{Number: now.UnixMilli()} }

// HoldUnknown holds every cluster, because the saved holds are unknown. A person who knows the holds may release it.
func (s State) HoldUnknown(why string, now time.Time) State {
	next, _ := s.Hold(Request{All: true, Actor: unknownActor, Reason: "the saved holds are unknown: " + why}, now)
	return next
}

// Load adds the saved holds to the current ones, and ends the hold of HoldUnknown.
func (s State) Load(before State) State {
	next := State{Number: max(s.Number, before.Number) + 1, Holds: s.Holds}
	if all := s.All(); all != nil && all.By == unknownActor {
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
