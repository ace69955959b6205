package windows

import (
	"fmt"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// State is the state of a window: its calendar's upcoming openings and what people have ordered in addition. Its methods change it with time and on
// request. They read no calendar; the caller does, see Foresee.
type State struct {
	// Window is the object; nil: the window is not defined.
	Window *drydockv1.MaintenanceWindow `json:"window,omitempty"`
	// Since is when it was last defined or edited.
	Since time.Time `json:"since"`
	// Schedule has the upcoming openings, read from the calendar as of the moment Read; zero: read before it was cancelled.
	Schedule Schedule  `json:"outlook"`
	Read     time.Time `json:"read"`
	// Running is the current opening; nil: the window is closed.
	Running *Opening `json:"running,omitempty"`
	// LastHandled is the start by the calendar of the last opening that has started, was missed or cancelled. No opening up to it is handled again. Free is
	// when that opening ended.
	LastHandled time.Time `json:"dealt"`
	Free        time.Time `json:"free"`
	// Amendments change upcoming openings.
	Amendments []Amendment `json:"amendments,omitempty"`
	// Override opens the window in an emergency.
	Override *Override `json:"override,omitempty"`
	// Cancelled: it has no more openings.
	Cancelled bool `json:"cancelled,omitempty"`
	// Confirmed is the start of the opening that subscribers know takes place unless a person changes it.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// Announced has, for each lead of each receiver, the last opening whose notification is handled.
	Announced []Lead `json:"announced,omitempty"`
	// Pending has notifications that are still pending for openings before that one.
	Pending []Lead `json:"owed,omitempty"`
	// CutOff: subscribers know that the current opening is past its cutoff.
	CutOff bool `json:"cutOff,omitempty"`
	// CheckedUntil is the time of the last check for exclusions that started or ended.
	CheckedUntil time.Time `json:"looked,omitzero"`
	// Events are the most recent events, oldest first.
	Events []Event `json:"events,omitempty"`
}

// Amendment changes one opening.
type Amendment struct {
	// Start of the opening by the calendar.
	Start     time.Time  `json:"start"`
	End       *time.Time `json:"end,omitempty"`
	Forced    bool       `json:"forced,omitempty"`
	Cancelled bool       `json:"cancelled,omitempty"`
}

// Override opens a window regardless of its calendar and its exclusions.
type Override struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	// Ended is who ended it early, and why; nil: it was not ended early.
	Ended *Request `json:"ended,omitempty"`
}

// Phase is the state of a window as people see it.
type Phase string

// The phases.
const (
	// PhaseUndefined: the window is not defined.
	PhaseUndefined Phase = "Undefined"
	PhaseClosed    Phase = "Closed"
	PhaseOpen      Phase = "Open"
	// PhaseCutoff: it is open, but nothing new starts.
	PhaseCutoff Phase = "Cutoff"
	// PhaseExcluded: an exclusion that was added during the opening closes it.
	PhaseExcluded Phase = "Excluded"
	// PhaseOverridden: a person opened it in an emergency.
	PhaseOverridden Phase = "Overridden"
	// PhaseOver: it has no more openings.
	PhaseOver Phase = "Over"
)

// Phase returns the phase of the window.
func (c *State) Phase(now time.Time) Phase {
	switch {
	case c.overridden(now):
		return PhaseOverridden
	case c.Window == nil:
		return PhaseUndefined
	case c.Excluding(now) != nil:
		return PhaseExcluded
	case c.Running != nil && now.Before(c.Running.CutoffAt()):
		return PhaseOpen
	case c.Running != nil:
		return PhaseCutoff
	case c.Cancelled || (c.Schedule.Last || c.Schedule.NoMore) && len(c.Coming()) == 0:
		return PhaseOver
	}
	return PhaseClosed
}

func (c *State) overridden(now time.Time) bool {
	return c.Override != nil && now.Before(c.Override.Until)
}

// Excluding is the exclusion that closes the current opening; nil: none.
func (c *State) Excluding(now time.Time) *Span {
	if c.Running == nil || c.Running.Forced || !now.Before(c.Running.End) {
		return nil
	}
	for _, s := range c.Schedule.Excluded {
		if !now.Before(s.Start) && now.Before(s.End) {
			return &s
		}
	}
	return nil
}

// coming is an upcoming opening; planned is its start by the calendar, which identifies it.
type coming struct {
	Opening
	planned time.Time
}

// Coming returns the upcoming openings with the changes that people ordered.
func (c *State) Coming() []Opening {
	var openings []Opening
	for _, o := range c.coming() {
		openings = append(openings, o.Opening)
	}
	return openings
}

func (c *State) coming() []coming { return c.amended(c.Schedule.Openings) }

// amended returns the upcoming openings of the calendar with the changes that people ordered.
func (c *State) amended(openings []Opening) []coming {
	free := c.Free
	if c.Running != nil {
		free = c.Running.End
	}
	var ahead []coming
	for _, o := range openings {
		next := coming{o, o.Start}
		amended := c.amendment(o.Start)
		if amended.End != nil {
			next.End, next.Forced = *amended.End, amended.Forced
		}
		if next.Start = later(next.Start, free); !o.Start.After(c.LastHandled) || amended.Cancelled || c.Cancelled || !next.End.After(next.Start) {
			continue
		}
		free = next.End
		ahead = append(ahead, next)
	}
	return ahead
}

func (c *State) amendment(start time.Time) Amendment {
	i := slices.IndexFunc(c.Amendments, func(a Amendment) bool { return a.Start.Equal(start) })
	if i < 0 {
		return Amendment{Start: start}
	}
	return c.Amendments[i]
}

// Pass returns the events that have happened until now, each once, in order. An event that the window could not handle in time, because no worker
// ran, is handled late while that is useful, or missed. Of many due notifications it returns a few: call it until it returns nothing.
func (c *State) Pass(now time.Time) []Event {
	var happened []Event
	add := func(e Event) {
		if e.At = now; e.Foretold {
			e.At = e.Opening.Start
		}
		happened = append(happened, e)
	}
	for c.Window != nil {
		ahead := c.coming()
		switch {
		case c.Running != nil && !now.Before(c.Running.End):
			add(Event{Kind: EventEnded, Opening: c.Running, Message: "closed"})
			c.Free, c.Running, c.CutOff = c.Running.End, nil, false
			continue
		case c.Running != nil && !c.CutOff && !now.Before(c.Running.CutoffAt()):
			c.CutOff = true
			add(Event{Kind: EventCutoff, Opening: c.Running, Message: "nothing new starts until it closes"})
			continue
		case c.Running == nil && len(ahead) > 0 && !now.Before(ahead[0].Start):
			if e, worth := c.begin(ahead[0], now); worth {
				add(e)
			}
			continue
		}
		for _, e := range c.announce(now) {
			add(e)
		}
		if len(ahead) > 0 && !now.Before(c.confirmsAt(ahead[0].Opening)) {
			c.Confirmed = ahead[0].Start
		}
		break
	}
	if c.Override != nil && !now.Before(c.Override.Until) {
		ended := Event{Kind: EventOverrideEnded, By: c.Override.By, Message: "the emergency override has expired"}
		if by := c.Override.Ended; by != nil {
			ended.By, ended.Reason, ended.Message = by.Actor, by.Reason, "the emergency override was ended before its time"
		}
		add(ended)
		c.Override = nil
	}
	c.record(happened...)
	return happened
}

// Crossed reports whether an exclusion started or ended since the last call. Subscribers must know, because it applies to all the windows that they
// name.
func (c *State) Crossed(now time.Time) bool {
	since := c.CheckedUntil
	c.CheckedUntil = now
	return slices.ContainsFunc(c.Schedule.Excluded, func(s Span) bool {
		return s.Start.After(since) && !s.Start.After(now) || s.End.After(since) && !s.End.After(now)
	})
}

// begin starts an opening, or finds that it is too late. An opening before the definition of the window is not missed.
func (c *State) begin(next coming, now time.Time) (Event, bool) {
	c.LastHandled = next.planned
	c.Amendments = slices.DeleteFunc(c.Amendments, func(a Amendment) bool { return !a.Start.After(c.LastHandled) })
	past := func(l Lead) bool { return !l.Start.After(c.LastHandled) }
	c.Announced, c.Pending = slices.DeleteFunc(c.Announced, past), slices.DeleteFunc(c.Pending, past)
	opening := next.Opening
	opening.Begun = true
	begun := c.confirmed(opening) && now.Before(opening.End) // by its subscribers
	if !now.Before(opening.CutoffAt()) && !begun {
		c.Free = opening.End
		return Event{Kind: EventMissed, Opening: &opening, Message: "missed: no worker ran between its start and its cutoff"}, !opening.Start.Before(c.Since)
	}
	c.Running = &opening
	event := Event{Kind: EventStarted, Opening: &opening, Foretold: c.confirmed(opening), Message: "open until " + clock(opening.End)}
	if late := now.Sub(opening.Start); late > lateness+c.recordAfter(opening) && !opening.Start.Before(c.Since) {
		done := "opened"
		if event.Foretold {
			done = "recorded"
		}
		event.Foretold = false
		event.Message += fmt.Sprintf("; %s %s late", done, late.Round(time.Second))
	}
	return event, true
}

// lateness is the shortest delay that is reported: timers may be this late.
const lateness = 2 * time.Second

// length of a duration that was checked when the window was defined.
func length(d drydockv1.Duration) time.Duration {
	elapsed, _ := d.Elapsed()
	return elapsed
}

// Next returns the next moment after now at which the window has something to do; false: none.
func (c *State) Next(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []coming) []time.Time {
		o := ahead[0].Opening
		moments := []time.Time{o.Start, c.confirmsAt(o)}
		if c.confirmed(o) {
			moments = []time.Time{o.Start.Add(c.recordAfter(o))}
		}
		return append(moments, c.notificationsDue()...)
	})
}

// nextUpdate returns the next moment at which subscribers receive an update, unless a person changes the window before; false: none.
func (c *State) nextUpdate(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []coming) []time.Time {
		o := ahead[0].Opening
		if c.confirmed(o) {
			return []time.Time{o.CutoffAt(), o.End}
		}
		return []time.Time{o.Start, c.confirmsAt(o)}
	})
}

// next returns the first moment after now at which something happens. ahead lists the moments of upcoming openings.
func (c *State) next(now time.Time, ahead func([]coming) []time.Time) (time.Time, bool) {
	var next time.Time
	at := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if c.Override != nil {
		at(c.Override.Until)
	}
	if c.Window == nil {
		return next, !next.IsZero()
	}
	if c.Running != nil {
		at(c.Running.End)
		at(c.Running.CutoffAt())
	}
	if !c.Schedule.Last {
		at(c.Schedule.again())
		at(c.Free) // after a missed opening, see Stale
	}
	for _, excluded := range c.Schedule.Excluded { // an exclusion applies to other windows even when this one has no more openings
		at(excluded.Start)
		at(excluded.End)
	}
	if coming := c.coming(); len(coming) > 0 {
		for _, moment := range ahead(coming) {
			at(moment)
		}
	}
	return next, !next.IsZero()
}

// Stale reports whether the calendar must be read again, and from which moment. Handle all past openings with Pass first. After a missed opening,
// wait for its end: what is read before is stale at once.
func (c *State) Stale(now time.Time) (from time.Time, stale bool) {
	switch {
	case c.Window == nil || c.Schedule.Last:
		return time.Time{}, false
	case !now.Before(c.Schedule.again()):
		return c.Schedule.again(), true
	case c.Cancelled:
		return now, c.Read.IsZero()
	}
	return c.Free, c.Free.After(c.Read) && !c.Free.After(now) && len(c.coming()) < 2
}

// SetSchedule stores what the calendar says from a moment on.
func (c *State) SetSchedule(from time.Time, outlook Schedule) { c.Read, c.Schedule = from, outlook }

// clock formats a moment for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
