package windows

import (
	"fmt"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Course is how a window stands, and what people have ordered beside its calendar. Its methods change it by the clock and by what is asked for; they
// read no calendar, which is done for it: see Outlook.
type Course struct {
	// Window is the object; nil: nobody has defined it.
	Window *drydockv1.MaintenanceWindow `json:"window,omitempty"`
	// Since is when it was defined, or edited, last.
	Since time.Time `json:"since"`
	// Outlook is what its calendar says, read from the moment Read on; the zero time: before it was cancelled.
	Outlook Outlook   `json:"outlook"`
	Read    time.Time `json:"read"`
	// Running is the opening at hand; nil: it is closed.
	Running *Opening `json:"running,omitempty"`
	// Dealt is the start of the last opening that has begun, was missed or cancelled: it has had its turn, and all before. Free is when it was over.
	Dealt time.Time `json:"dealt"`
	Free  time.Time `json:"free"`
	// Amendments change openings that are to come.
	Amendments []Amendment `json:"amendments,omitempty"`
	// Override opens the window in an emergency.
	Override *Override `json:"override,omitempty"`
	// Cancelled: nothing opens any more.
	Cancelled bool `json:"cancelled,omitempty"`
	// Confirmed is the start of the opening that takes place unless somebody orders otherwise, as those that follow the window have been told.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// Announced is how far word of openings that are to come was sent: for each lead of each receiver the last opening that had its turn.
	Announced []Lead `json:"announced,omitempty"`
	// Owed is word that is due all the same, of openings before that one.
	Owed []Lead `json:"owed,omitempty"`
	// CutOff: everybody was told that nothing new starts in the opening at hand.
	CutOff bool `json:"cutOff,omitempty"`
	// Looked is until when it was looked whether an exclusion has begun or ended.
	Looked time.Time `json:"looked,omitzero"`
	// Events are the last, in their order.
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

// Override opens a window whatever its calendar and its exclusions say.
type Override struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	// Ended is who has ended it before its time, and why; nil: nobody.
	Ended *Request `json:"ended,omitempty"`
}

// Phase is how a window stands.
type Phase string

// The phases.
const (
	// PhaseUndefined: nobody has defined it.
	PhaseUndefined Phase = "Undefined"
	PhaseClosed    Phase = "Closed"
	PhaseOpen      Phase = "Open"
	// PhaseCutoff: it is open, but nothing new starts.
	PhaseCutoff Phase = "Cutoff"
	// PhaseExcluded: it would be open, were it not for an exclusion that was added when it was open already.
	PhaseExcluded Phase = "Excluded"
	// PhaseOverridden: somebody has opened it in an emergency.
	PhaseOverridden Phase = "Overridden"
	// PhaseOver: it opens no more.
	PhaseOver Phase = "Over"
)

// Phase returns how the window stands.
func (c *Course) Phase(now time.Time) Phase {
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
	case c.Cancelled || (c.Outlook.Last || c.Outlook.NoMore) && len(c.Coming()) == 0:
		return PhaseOver
	}
	return PhaseClosed
}

func (c *Course) overridden(now time.Time) bool {
	return c.Override != nil && now.Before(c.Override.Until)
}

// Excluding is the exclusion that keeps the opening at hand closed; nil: none does.
func (c *Course) Excluding(now time.Time) *Span {
	if c.Running == nil || c.Running.Forced || !now.Before(c.Running.End) {
		return nil
	}
	for _, s := range c.Outlook.Excluded {
		if !now.Before(s.Start) && now.Before(s.End) {
			return &s
		}
	}
	return nil
}

// coming is an opening ahead; planned is its start by the calendar, by which it is known.
type coming struct {
	Opening
	planned time.Time
}

// Coming returns the openings ahead, as they are by now.
func (c *Course) Coming() []Opening {
	var openings []Opening
	for _, o := range c.coming() {
		openings = append(openings, o.Opening)
	}
	return openings
}

func (c *Course) coming() []coming { return c.asOrdered(c.Outlook.Openings) }

// asOrdered returns which of the calendar's openings are ahead, as people have ordered them.
func (c *Course) asOrdered(openings []Opening) []coming {
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
		if next.Start = later(next.Start, free); !o.Start.After(c.Dealt) || amended.Cancelled || c.Cancelled || !next.End.After(next.Start) {
			continue
		}
		free = next.End
		ahead = append(ahead, next)
	}
	return ahead
}

func (c *Course) amendment(start time.Time) Amendment {
	i := slices.IndexFunc(c.Amendments, func(a Amendment) bool { return a.Start.Equal(start) })
	if i < 0 {
		return Amendment{Start: start}
	}
	return c.Amendments[i]
}

// Pass lets time pass: it returns what has happened until now, each once, in its order. What could not be done in time because nobody was there is
// done late as long as that is of use, or missed. Of much word that is due at once it sends some: it is to be asked until nothing has happened.
func (c *Course) Pass(now time.Time) []Event {
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

// Crossed reports whether an exclusion has begun or ended since it was asked last: those that follow the window need to be told, for it counts for all
// windows that they name.
func (c *Course) Crossed(now time.Time) bool {
	since := c.Looked
	c.Looked = now
	return slices.ContainsFunc(c.Outlook.Excluded, func(s Span) bool {
		return s.Start.After(since) && !s.Start.After(now) || s.End.After(since) && !s.End.After(now)
	})
}

// begin opens the window, or finds that it is too late for that. An opening that nobody could have begun, because the window was defined too late for
// it, was not missed.
func (c *Course) begin(next coming, now time.Time) (Event, bool) {
	c.Dealt = next.planned
	c.Amendments = slices.DeleteFunc(c.Amendments, func(a Amendment) bool { return !a.Start.After(c.Dealt) })
	past := func(l Lead) bool { return !l.Start.After(c.Dealt) }
	c.Announced, c.Owed = slices.DeleteFunc(c.Announced, past), slices.DeleteFunc(c.Owed, past)
	opening := next.Opening
	opening.Begun = true
	begun := c.confirmed(opening) && now.Before(opening.End) // by those that follow the window
	if !now.Before(opening.CutoffAt()) && !begun {
		c.Free = opening.End
		return Event{Kind: EventMissed, Opening: &opening, Message: "missed: nobody was there to open it before its cutoff"}, !opening.Start.Before(c.Since)
	}
	c.Running = &opening
	event := Event{Kind: EventStarted, Opening: &opening, Foretold: c.confirmed(opening), Message: "open until " + clock(opening.End)}
	if late := now.Sub(opening.Start); late > lateness+c.recordAfter(opening) && !opening.Start.Before(c.Since) {
		done := "opened"
		if event.Foretold {
			done = "taken down"
		}
		event.Foretold = false
		event.Message += fmt.Sprintf("; %s %s late", done, late.Round(time.Second))
	}
	return event, true
}

// lateness is what is said: less is the way of timers.
const lateness = 2 * time.Second

// length of what was found to be a length when the window was defined.
func length(d drydockv1.Duration) time.Duration {
	elapsed, _ := d.Elapsed()
	return elapsed
}

// Next returns the next moment at which the window has something to do by itself, after now; false: it has nothing.
func (c *Course) Next(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []coming) []time.Time {
		o := ahead[0].Opening
		moments := []time.Time{o.Start, c.confirmsAt(o)}
		if c.confirmed(o) {
			moments = []time.Time{o.Start.Add(c.recordAfter(o))}
		}
		return append(moments, c.wordDue()...)
	})
}

// nextTold returns the next moment at which those that follow the window are told something, whatever anybody orders; false: they are told nothing more.
func (c *Course) nextTold(now time.Time) (time.Time, bool) {
	return c.next(now, func(ahead []coming) []time.Time {
		o := ahead[0].Opening
		if c.confirmed(o) {
			return []time.Time{o.CutoffAt(), o.End}
		}
		return []time.Time{o.Start, c.confirmsAt(o)}
	})
}

// next returns the first moment after now at which something happens by itself. About the openings that are to come, ahead says at which.
func (c *Course) next(now time.Time, ahead func([]coming) []time.Time) (time.Time, bool) {
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
	if !c.Outlook.Last {
		at(c.Outlook.again())
		at(c.Free) // when an opening was missed: see Stale
	}
	for _, excluded := range c.Outlook.Excluded { // which count for other windows also when this one opens no more
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

// Stale reports whether the calendar must be read once more, and from when on. Openings that were slept through must have had their turn: see Pass. Of one
// that was missed the end is waited for: what is read before is stale at once.
func (c *Course) Stale(now time.Time) (from time.Time, stale bool) {
	switch {
	case c.Window == nil || c.Outlook.Last:
		return time.Time{}, false
	case !now.Before(c.Outlook.again()):
		return c.Outlook.again(), true
	case c.Cancelled:
		return now, c.Read.IsZero()
	}
	return c.Free, c.Free.After(c.Read) && !c.Free.After(now) && len(c.coming()) < 2
}

// Foresee takes over what the calendar says from a moment on.
func (c *Course) Foresee(from time.Time, outlook Outlook) { c.Read, c.Outlook = from, outlook }

// clock writes a moment for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
