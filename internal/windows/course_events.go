package windows

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventKind is what has happened to a window.
type EventKind string

// The kinds of events. Of the first five, an opening has at most one for each receiver; people may order the others again and again.
const (
	// EventUpcoming: it opens soon.
	EventUpcoming EventKind = "upcoming"
	EventStarted  EventKind = "started"
	// EventCutoff: nothing new starts until it closes.
	EventCutoff EventKind = "cutoff"
	EventEnded  EventKind = "ended"
	// EventMissed: it should have opened, and nobody was there.
	EventMissed EventKind = "missed"

	EventCancelled EventKind = "cancelled"
	EventExtended  EventKind = "extended"
	// EventCut: it is to end before its time.
	EventCut           EventKind = "cut"
	EventOverridden    EventKind = "overridden"
	EventOverrideEnded EventKind = "overrideEnded"
	EventDefined       EventKind = "defined"
	EventEdited        EventKind = "edited"
)

// Event is something that has happened to a window.
type Event struct {
	At   time.Time `json:"at"`
	Kind EventKind `json:"kind"`
	// Opening that it is about; nil: none in particular.
	Opening *Opening `json:"opening,omitempty"`
	// Lead before the start, and the receiver that it is for, of word that is sent in advance.
	Lead     string `json:"lead,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	// By and Reason are whose wish it was, and why.
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Foretold: those that follow the window have known before that it would happen then.
	Foretold bool `json:"foretold,omitempty"`
}

// Told reports whether receivers are told of events of the kind.
func (e Event) Told() bool { return e.Kind != EventDefined && e.Kind != EventEdited }

// eventsKept is how many events a window remembers.
const eventsKept = 30

func (c *Course) record(events ...Event) {
	c.Events = append(c.Events, events...)
	if more := len(c.Events) - eventsKept; more > 0 {
		c.Events = append([]Event(nil), c.Events[more:]...)
	}
}

// Status is how a window stands, for people and programs that ask.
type Status struct {
	Window string `json:"window"`
	Phase  Phase  `json:"phase"`
	// Title is that of the object.
	Title string `json:"title,omitempty"`
	// Selector picks the clusters that it is for; nil: all. Who follows it finds out which those are.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Opening is the one at hand; nil: it is closed. Coming are the next.
	Opening  *Opening  `json:"opening,omitempty"`
	Coming   []Opening `json:"coming,omitempty"`
	Override *Override `json:"override,omitempty"`
	// Confirmed: the first of those to come takes place. It begins at its start by all that follow the window, before the window has taken that down.
	Confirmed bool `json:"confirmed,omitempty"`
	// ExcludedUntil is when the exclusion ends that keeps the opening at hand closed; nil: none does.
	ExcludedUntil *time.Time `json:"excludedUntil,omitempty"`
	// Followers are the workflows that are told of changes.
	Followers []string `json:"followers,omitempty"`
	// Trouble says why its calendar could not be read.
	Trouble string  `json:"trouble,omitempty"`
	Events  []Event `json:"events,omitempty"`
}

// At returns a status that was asked for at a moment as it is at that moment: an opening that was confirmed has begun at its start.
func (s Status) At(now time.Time) Status {
	if s.Phase != PhaseClosed || !s.Confirmed || now.Before(s.Coming[0].Start) {
		return s
	}
	s.Phase, s.Opening, s.Coming, s.Confirmed = PhaseOpen, &s.Coming[0], s.Coming[1:], false
	return s
}

// comingShown is how many openings ahead a status has.
const comingShown = 5

// Status returns how the window of that name stands.
func (c *Course) Status(name string, now time.Time) Status {
	ahead := c.Coming()
	status := Status{
		Window: name, Phase: c.Phase(now), Opening: c.Running, Coming: ahead[:min(len(ahead), comingShown)], Override: c.Override, Events: c.Events,
	}
	status.Confirmed = c.Running == nil && len(ahead) > 0 && c.confirmed(ahead[0])
	if excluding := c.Excluding(now); excluding != nil {
		status.ExcludedUntil = utc(excluding.End)
	}
	if c.Window != nil {
		status.Title, status.Selector = c.Window.Spec.Title, c.Window.Spec.Selector
	}
	return status
}
