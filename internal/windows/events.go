package windows

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. An opening has at most one of each of the first five for each receiver. Requests of people cause the others repeatedly.
const (
	// EventUpcoming: the window opens soon.
	EventUpcoming EventKind = "upcoming"
	EventStarted  EventKind = "started"
	// EventCutoff: no new work starts until it closes.
	EventCutoff EventKind = "cutoff"
	EventEnded  EventKind = "ended"
	// EventMissed: no worker ran between the start of an opening and its cutoff.
	EventMissed EventKind = "missed"

	EventCancelled EventKind = "cancelled"
	EventExtended  EventKind = "extended"
	// EventCut: the opening ends early.
	EventCut           EventKind = "cut"
	EventOverridden    EventKind = "overridden"
	EventOverrideEnded EventKind = "overrideEnded"
	EventDefined       EventKind = "defined"
	EventEdited        EventKind = "edited"
)

// Event is an entry in the history of a window.
type Event struct {
	At   time.Time `json:"at"`
	Kind EventKind `json:"kind"`
	// Opening of the event; nil: no particular one.
	Opening *Opening `json:"opening,omitempty"`
	// Lead and Receiver belong to a notification before the start.
	Lead     string `json:"lead,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	// By and Reason are those of the request.
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Confirmed: the event was confirmed to subscribers in advance.
	Confirmed bool `json:"confirmed,omitempty"`
}

// Notifies reports whether receivers get a notification of the event.
func (e Event) Notifies() bool { return e.Kind != EventDefined && e.Kind != EventEdited }

// maxEvents limits the events that a window keeps.
const maxEvents = 30

func (c *State) record(events ...Event) {
	c.Events = append(c.Events, events...)
	if more := len(c.Events) - maxEvents; more > 0 {
		c.Events = append([]Event(nil), c.Events[more:]...)
	}
}

// Status is the status of a window for people and programs.
type Status struct {
	Window string `json:"window"`
	Phase  Phase  `json:"phase"`
	// Source is the object on the hub that defines the window; empty: the CLI did.
	Source string `json:"source,omitempty"`
	// Title is the title of the object.
	Title string `json:"title,omitempty"`
	// Selector selects the clusters of the window; nil: all. Subscribers evaluate it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Opening is the current one; nil: the window is closed. Coming are the next ones.
	Opening  *Opening  `json:"opening,omitempty"`
	Upcoming []Opening `json:"upcoming,omitempty"`
	Override *Override `json:"override,omitempty"`
	// Confirmed: the first upcoming opening is confirmed. For subscribers it starts on time, before the window records the start.
	Confirmed bool `json:"confirmed,omitempty"`
	// ExcludedUntil is the end of the exclusion that closes the current opening; nil: none does.
	ExcludedUntil *time.Time `json:"excludedUntil,omitempty"`
	// Subscribers are the workflows that subscribe to changes.
	Subscribers []string `json:"subscribers,omitempty"`
	// Trouble is the error of an invalid calendar.
	Trouble string `json:"trouble,omitempty"`
	// Answer is what an update has changed, or that nothing changes; empty in the answer to a query.
	Answer string  `json:"answer,omitempty"`
	Events []Event `json:"events,omitempty"`
}

// At returns the status at a moment: a confirmed opening starts without an update.
func (s Status) At(now time.Time) Status {
	if s.Phase != PhaseClosed || !s.Confirmed || now.Before(s.Upcoming[0].Start) {
		return s
	}
	s.Phase, s.Opening, s.Upcoming, s.Confirmed = PhaseOpen, &s.Upcoming[0], s.Upcoming[1:], false
	return s
}

// upcomingShown limits the upcoming openings in a status.
const upcomingShown = 5

// Status returns the status of the window with that name.
func (c *State) Status(name string, now time.Time) Status {
	ahead := c.Upcoming()
	status := Status{
		Window: name, Phase: c.Phase(now), Opening: c.Running, Upcoming: ahead[:min(len(ahead), upcomingShown)], Override: c.Override, Events: c.Events,
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
