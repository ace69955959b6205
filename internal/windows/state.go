package windows

import (
	"fmt"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// State is the state of a window: its schedule and the changes that people requested. Its methods change it with time and on request. The caller reads the
// calendar; see SetSchedule.
type State struct {
	// Window is the object; nil: the window is not defined.
	Window *drydockv1.MaintenanceWindow `json:"window,omitempty"`
	// Since is when it was last defined or edited.
	Since time.Time `json:"since"`
	// Schedule has the upcoming openings by the calendar, from the moment Read on. A cancellation resets Read.
	Schedule Schedule  `json:"schedule"`
	Read     time.Time `json:"read"`
	// Running is the current opening; nil: the window is closed.
	Running *Opening `json:"running,omitempty"`
	// LastHandled is the start, by the calendar, of the last opening that has started, was missed or was cancelled. No earlier opening is handled again.
	// LastEnd is its end.
	LastHandled time.Time `json:"lastHandled"`
	LastEnd     time.Time `json:"lastEnd"`
	// Amendments change upcoming openings.
	Amendments []Amendment `json:"amendments,omitempty"`
	// Override opens the window in an emergency.
	Override *Override `json:"override,omitempty"`
	// Cancelled: all further openings are cancelled.
	Cancelled bool `json:"cancelled,omitempty"`
	// CutShort is the last opening that was cancelled while it was current, with the end that it had; nil: none.
	CutShort *Opening `json:"cutShort,omitempty"`
	// Confirmed is the start of the opening that was confirmed to subscribers.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// Announced has the last handled notification for each lead of each receiver.
	Announced []Lead `json:"announced,omitempty"`
	// Pending has earlier notifications that are not handled.
	Pending []Lead `json:"pending,omitempty"`
	// CutOff: subscribers were notified of the cutoff of the current opening.
	CutOff bool `json:"cutOff,omitempty"`
	// CheckedUntil is the time of the last call of ExclusionChanged.
	CheckedUntil time.Time `json:"checkedUntil,omitzero"`
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
	// Ended is the request that ended it early; nil: none.
	Ended *Request `json:"ended,omitempty"`
}

// Phase is the phase of a window.
type Phase string

// The phases.
const (
	// PhaseUndefined: the window is not defined.
	PhaseUndefined Phase = "Undefined"
	PhaseClosed    Phase = "Closed"
	PhaseOpen      Phase = "Open"
	// PhaseCutoff: it is open, but no new work starts.
	PhaseCutoff Phase = "Cutoff"
	// PhaseExcluded: an exclusion that was added during the opening closes the window.
	PhaseExcluded Phase = "Excluded"
	// PhaseOverridden: an emergency override opens it.
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
	case c.Cancelled || (c.Schedule.Last || c.Schedule.NoMore) && len(c.Upcoming()) == 0:
		return PhaseOver
	}
	return PhaseClosed
}

func (c *State) overridden(now time.Time) bool {
	return c.Override != nil && now.Before(c.Override.Until)
}

// Excluding returns the exclusion that closes the current opening; nil: none.
func (c *State) Excluding(now time.Time) *Span {
	if c.Running == nil || c.Running.Forced || !now.Before(c.Running.End) {
		return nil
	}
	return c.Schedule.excludedAt(now)
}

// upcomingOpening is an upcoming opening. planned is its start by the calendar, which identifies it.
type upcomingOpening struct {
	Opening
	planned time.Time
}

// Upcoming returns the upcoming openings with the requested changes.
func (c *State) Upcoming() []Opening {
	var openings []Opening
	for _, o := range c.upcoming() {
		openings = append(openings, o.Opening)
	}
	return openings
}

func (c *State) upcoming() []upcomingOpening { return c.amended(c.Schedule.Openings) }

// amended returns the upcoming openings of the calendar with the requested changes.
func (c *State) amended(openings []Opening) []upcomingOpening {
	free := c.LastEnd
	if c.Running != nil {
		free = c.Running.End
	}
	var ahead []upcomingOpening
	for _, o := range openings {
		next := upcomingOpening{o, o.Start}
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

// Advance advances the state to now and returns the events since the last call, in order. An event that was not handled in time, because no worker ran, is
// handled late while that is useful, or missed. Of many due notifications it returns only some: call it until it returns nothing.
func (c *State) Advance(now time.Time) []Event {
	var happened []Event
	add := func(e Event) {
		if e.At = now; e.Confirmed {
			e.At = e.Opening.Start
		}
		happened = append(happened, e)
	}
	for c.Window != nil {
		ahead := c.upcoming()
		switch {
		case c.Running != nil && !now.Before(c.Running.End):
			add(Event{Kind: EventEnded, Opening: c.Running, Message: "closed"})
			c.LastEnd, c.Running, c.CutOff = c.Running.End, nil, false
			continue
		case c.Running != nil && !c.CutOff && !now.Before(c.Running.CutoffAt()):
			c.CutOff = true
			add(Event{Kind: EventCutoff, Opening: c.Running, Message: "no new work starts until it closes"})
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
			ended.By, ended.Reason, ended.Message = by.Actor, by.Reason, "the emergency override was ended early"
		}
		add(ended)
		c.Override = nil
	}
	c.record(happened...)
	return happened
}

// ExclusionChanged reports whether an exclusion has started or ended since the last call. Subscribers must know, because it applies to all their windows.
func (c *State) ExclusionChanged(now time.Time) bool {
	since := c.CheckedUntil
	c.CheckedUntil = now
	return slices.ContainsFunc(c.Schedule.Excluded, func(s Span) bool {
		return s.Start.After(since) && !s.Start.After(now) || s.End.After(since) && !s.End.After(now)
	})
}

// begin starts an opening, or records that it was missed. It returns false if the event is not worth a report: the opening is older than the definition.
func (c *State) begin(next upcomingOpening, now time.Time) (Event, bool) {
	c.LastHandled = next.planned
	c.Amendments = slices.DeleteFunc(c.Amendments, func(a Amendment) bool { return !a.Start.After(c.LastHandled) })
	past := func(l Lead) bool { return !l.Start.After(c.LastHandled) }
	c.Announced, c.Pending = slices.DeleteFunc(c.Announced, past), slices.DeleteFunc(c.Pending, past)
	opening := next.Opening
	opening.Begun = true
	begun := c.confirmed(opening) && now.Before(opening.End) // subscribers have started
	if !now.Before(opening.CutoffAt()) && !begun {
		c.LastEnd = opening.End
		return Event{Kind: EventMissed, Opening: &opening, Message: "missed: no worker ran between its start and its cutoff"}, !opening.Start.Before(c.Since)
	}
	c.Running = &opening
	event := Event{Kind: EventStarted, Opening: &opening, Confirmed: c.confirmed(opening), Message: "open until " + clock(opening.End)}
	if late := now.Sub(opening.Start); late > lateness+c.recordAfter(opening) && !opening.Start.Before(c.Since) {
		done := "opened"
		if event.Confirmed {
			done = "recorded"
		}
		event.Confirmed = false
		event.Message += fmt.Sprintf("; %s %s late", done, late.Round(time.Second))
	}
	return event, true
}

// lateness is the shortest reported delay. Timers may be this late.
const lateness = 2 * time.Second

// length returns a duration that was checked when the window was defined.
func length(d drydockv1.Duration) time.Duration {
	elapsed, _ := d.Elapsed()
	return elapsed
}

// Next returns the next moment after now at which the window must act; false: none.
func (c *State) Next(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []upcomingOpening) []time.Time {
		o := ahead[0].Opening
		moments := []time.Time{o.Start, c.confirmsAt(o)}
		if c.confirmed(o) {
			moments = []time.Time{o.Start.Add(c.recordAfter(o))}
		}
		return append(moments, c.notificationsDue()...)
	})
}

// nextUpdate returns the next moment at which subscribers receive an update without a request; false: none.
func (c *State) nextUpdate(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []upcomingOpening) []time.Time {
		o := ahead[0].Opening
		if c.confirmed(o) {
			return []time.Time{o.CutoffAt(), o.End}
		}
		return []time.Time{o.Start, c.confirmsAt(o)}
	})
}

// next returns the first relevant moment after now. ahead lists the moments of upcoming openings.
func (c *State) next(now time.Time, ahead func([]upcomingOpening) []time.Time) (time.Time, bool) {
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
		at(c.LastEnd) // after a missed opening, see Stale
	}
	for _, excluded := range c.Schedule.Excluded { // an exclusion applies to other windows even when this one has no more openings
		at(excluded.Start)
		at(excluded.End)
	}
	if coming := c.upcoming(); len(coming) > 0 {
		for _, moment := range ahead(coming) {
			at(moment)
		}
	}
	return next, !next.IsZero()
}

// Stale reports whether the calendar must be read again, and from which moment. Call Advance first. After a missed opening, the calendar is read at its
// end, because an earlier reading would be stale immediately.
func (c *State) Stale(now time.Time) (from time.Time, stale bool) {
	switch {
	case c.Window == nil || c.Schedule.Last:
		return time.Time{}, false
	case !now.Before(c.Schedule.again()):
		return c.Schedule.again(), true
	case c.Cancelled:
		return now, c.Read.IsZero()
	}
	return c.LastEnd, c.LastEnd.After(c.Read) && !c.LastEnd.After(now) && len(c.upcoming()) < 2
}

// SetSchedule stores the schedule from a moment on.
func (c *State) SetSchedule(from time.Time, schedule Schedule) { c.Read, c.Schedule = from, schedule }

// clock formats a moment for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
