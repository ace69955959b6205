// Package emergency decides about the emergency stop: holds, their releases, and their messages.
package emergency

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// State is the set of holds. It is a value: every change returns the next one.
type State struct {
	// Number grows with every change, so the later of two states has the higher one. 0 is no state: the holds are unknown.
	Number int64 `json:"number"`
	// Holds, that of every cluster first, then by name. A rollout appends the closed maintenance windows of its clusters.
	Holds []drydockv1.Hold `json:"holds,omitempty"`
	// Closes is a hold that begins later by itself; nil: none.
	Closes *Closing `json:"closes,omitempty"`
}

// Closing is a hold that begins when maintenance windows close. It is sent in advance, so that its receiver does not treat the windows as open after
// an outage.
type Closing struct {
	At   time.Time      `json:"at"`
	Hold drydockv1.Hold `json:"hold"`
	// StopsAt is when running steps stop too; zero: they may finish.
	StopsAt time.Time `json:"stopsAt,omitzero"`
}

// At returns the state as of now. Of the hold of windows and the announced one, the strictest applies.
func (s State) At(now time.Time) State {
	if s.Closes == nil || now.Before(s.Closes.At) {
		return s
	}
	hold := s.Closes.Hold
	if s.Closes.StopsAt.IsZero() || now.Before(s.Closes.StopsAt) {
		s.Holds = append(slices.Clone(s.Holds), hold)
		return s
	}
	hold.OnOverrun = drydockv1.OverrunPause // only subscribers of the windows decide whether running work is undone
	s.Holds = slices.Concat([]drydockv1.Hold{hold}, s.Holds)
	return s
}

// Request asks to hold or to release clusters: the named ones, or all.
type Request struct {
	Clusters []string `json:"clusters,omitempty"`
	All      bool     `json:"all,omitempty"`
	Actor    string   `json:"actor,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

// Scopes are the scopes of a request.
func (r Request) Scopes() []drydockv1.HoldScope {
	if r.All {
		return []drydockv1.HoldScope{drydockv1.HoldAll}
	}
	var scopes []drydockv1.HoldScope
	for _, cluster := range r.Clusters {
		scopes = append(scopes, drydockv1.HoldCluster(cluster))
	}
	return scopes
}

// Change is the change of one scope.
type Change struct {
	Scope drydockv1.HoldScope `json:"scope"`
	// Before and After are nil when the scope was not, or is not, held.
	Before *drydockv1.Hold `json:"before,omitempty"`
	After  *drydockv1.Hold `json:"after,omitempty"`
}

// Answer is the result of a request.
type Answer struct {
	Changes []Change `json:"changes"`
	// Holds are all the holds after the change.
	Holds []drydockv1.Hold `json:"holds"`
	// Subscribers is how many workflows receive it.
	Subscribers int `json:"subscribers"`
}

// Of returns the hold of a cluster; nil: it is not held. A hold of all clusters comes first; maintenance windows come last, because they may let
// running work finish.
func (s State) Of(cluster string) *drydockv1.Hold {
	concerns := concerning(cluster)
	if hold := s.first(func(h drydockv1.Hold) bool { return h.Window == "" && concerns(h) }); hold != nil {
		return hold
	}
	return s.Closed(cluster)
}

// Closed returns the hold of a cluster's maintenance windows, regardless of other holds; nil: none.
func (s State) Closed(cluster string) *drydockv1.Hold {
	concerns := concerning(cluster)
	return s.first(func(h drydockv1.Hold) bool { return h.Window != "" && concerns(h) })
}

// concerning reports whether a hold is for a cluster, or for all.
func concerning(cluster string) func(drydockv1.Hold) bool {
	scope := drydockv1.HoldCluster(cluster)
	return func(h drydockv1.Hold) bool { return h.Scope == drydockv1.HoldAll || h.Scope == scope }
}

// All returns the hold of every cluster, or nil.
func (s State) All() *drydockv1.Hold { return s.find(drydockv1.HoldAll) }

// ForCluster keeps the holds that apply to one cluster; an empty name keeps all.
func (s State) ForCluster(cluster string) State {
	if cluster == "" {
		return s
	}
	about := State{Number: s.Number, Closes: s.Closes}
	concerns := concerning(cluster)
	for _, hold := range s.Holds {
		if concerns(hold) {
			about.Holds = append(about.Holds, hold)
		}
	}
	return about
}

// Same reports whether two states have the same holds, with the same start and reason, now and later.
func (s State) Same(other State) bool {
	return slices.EqualFunc(s.Holds, other.Holds, drydockv1.Hold.Same) && s.Closes.same(other.Closes)
}

func (c *Closing) same(other *Closing) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.At.Equal(other.At) && c.Hold.Same(other.Hold) && c.StopsAt.Equal(other.StopsAt)
}

// Hold adds holds. An existing hold keeps its start, and takes the new actor and reason.
func (s State) Hold(r Request, now time.Time) (State, []Change) {
	next := State{Number: s.Number + 1, Holds: slices.Clone(s.Holds)}
	var changes []Change
	for _, scope := range r.Scopes() {
		hold := drydockv1.Hold{Scope: scope, By: r.Actor, Reason: r.Reason, Since: metav1.NewTime(now)}
		before := s.find(scope)
		if before != nil {
			hold.Since = before.Since
		}
		next.Holds = append(next.without(scope), hold)
		changes = append(changes, Change{Scope: scope, Before: before, After: &hold})
	}
	next.sort()
	return next, changes
}

// Release removes holds. A cluster that is held by name and with all others is held until both are released.
func (s State) Release(r Request) (State, []Change) {
	next := State{Number: s.Number + 1, Holds: slices.Clone(s.Holds)}
	var changes []Change
	for _, scope := range r.Scopes() {
		next.Holds = next.without(scope)
		changes = append(changes, Change{Scope: scope, Before: s.find(scope)})
	}
	return next, changes
}

// ChangesFrom returns the holds that an earlier state did not have, or had with another actor or reason, and those that only it had.
func (s State) ChangesFrom(earlier State) (changes []Change) {
	for _, hold := range s.Holds {
		if before := earlier.find(hold.Scope); before == nil || before.By != hold.By || before.Reason != hold.Reason {
			changes = append(changes, Change{Scope: hold.Scope, Before: before, After: &hold})
		}
	}
	for _, hold := range earlier.Holds {
		if s.find(hold.Scope) == nil {
			changes = append(changes, Change{Scope: hold.Scope, Before: &hold})
		}
	}
	return changes
}

// sort puts the hold of every cluster, which has no name, first.
func (s State) sort() {
	slices.SortFunc(s.Holds, func(a, b drydockv1.Hold) int { return cmp.Compare(a.Scope.Cluster(), b.Scope.Cluster()) })
}

func (s State) find(scope drydockv1.HoldScope) *drydockv1.Hold {
	return s.first(func(h drydockv1.Hold) bool { return h.Scope == scope })
}

func (s State) first(wanted func(drydockv1.Hold) bool) *drydockv1.Hold {
	for _, hold := range s.Holds {
		if wanted(hold) {
			return &hold
		}
	}
	return nil
}

func (s State) without(scope drydockv1.HoldScope) []drydockv1.Hold {
	return slices.DeleteFunc(slices.Clone(s.Holds), func(h drydockv1.Hold) bool { return h.Scope == scope })
}
