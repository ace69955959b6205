package windows

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. An opening has at most one of each of the first five for each receiver; people may order the others repeatedly.
const (
	// EventUpcoming: the window opens soon.
	EventUpcoming EventKind = "upcoming"
	EventStarted  EventKind = "started"
	// EventCutoff: nothing new starts until it closes.
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

// Event is one entry in the history of a window.
type Event struct {
	At   time.Time `json:"at"`
	Kind EventKind `json:"kind"`
	// Opening that it is about; nil: no particular one.
	Opening *Opening `json:"opening,omitempty"`
	// Lead and Receiver are those of a notification sent before the start.
	Lead     string `json:"lead,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	// By and Reason are who ordered it, and why.
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Foretold: subscribers knew in advance when it would happen.
	Foretold bool `json:"foretold,omitempty"`
}

// Told reports whether receivers are notified of events of the kind.
func (e Event) Told() bool { return e.Kind != EventDefined && e.Kind != EventEdited }

// eventsKept is how many events a window remembers.
const eventsKept = 30

func (c *State) record(events ...Event) {
	c.Events = append(c.Events, events...)
	if more := len(c.Events) - eventsKept; more > 0 {
		c.Events = append([]Event(nil), c.Events[more:]...)
	}
}

// Status is the status of a window for people and programs.
type Status struct {
	Window string `json:"window"`
	Phase  Phase  `json:"phase"`
	// Title is the title of the object.
	Title string `json:"title,omitempty"`
	// Selector picks the clusters that the window is for; nil: all. Subscribers evaluate it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Opening is the current one; nil: the window is closed. Coming are the next ones.
	Opening  *Opening  `json:"opening,omitempty"`
	Coming   []Opening `json:"coming,omitempty"`
	Override *Override `json:"override,omitempty"`
	// Confirmed: the first upcoming opening takes place. For its subscribers it starts on time, before the window has recorded the start.
	Confirmed bool `json:"confirmed,omitempty"`
	// ExcludedUntil is when the exclusion ends that closes the current opening; nil: none does.
	ExcludedUntil *time.Time `json:"excludedUntil,omitempty"`
	// Subscribers are the workflows that subscribe to changes.
	Subscribers []string `json:"subscribers,omitempty"`
	// Trouble says why the calendar is invalid.
	Trouble string  `json:"trouble,omitempty"`
	Events  []Event `json:"events,omitempty"`
}

// At returns a status as of a moment: a confirmed opening has started at its start.
func (s Status) At(now time.Time) Status {
	if s.Phase != PhaseClosed || !s.Confirmed || now.Before(s.Coming[0].Start) {
		return s
	}
	s.Phase, s.Opening, s.Coming, s.Confirmed = PhaseOpen, &s.Coming[0], s.Coming[1:], false
	return s
}

// comingShown is how many upcoming openings a status shows.
const comingShown = 5

// Status returns the status of the window with that name.
func (c *State) Status(name string, now time.Time) Status {
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
