package windows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Request has the actor and the reason of a change of a window.
type Request struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// DefineRequest defines a window, or edits it.
type DefineRequest struct {
	Request
	Object drydockv1.MaintenanceWindow `json:"object"`
}

// ExtendRequest moves the end of the current opening, or of the next one.
type ExtendRequest struct {
	Request
	End time.Time `json:"end"`
	// Force extends it even into an exclusion. A reason is then required.
	Force bool `json:"force,omitempty"`
}

// EndRequest closes the window early, and ends an emergency override.
type EndRequest struct {
	Request
	// End is when it closes; zero: now.
	End time.Time `json:"end,omitzero"`
}

// CancelRequest cancels an opening: the current one, or the next.
type CancelRequest struct {
	Request
	// Start is the start of the opening, as the status shows it; zero: the current opening, or else the next of the calendar.
	Start time.Time `json:"start,omitzero"`
	// All cancels all openings.
	All bool `json:"all,omitempty"`
}

// OverrideRequest opens the window in an emergency.
type OverrideRequest struct {
	Request
	Until time.Time `json:"until"`
}

const (
	// maxText limits an actor or a reason, in bytes.
	maxText = 1000
	// maxOverride limits an emergency override. A longer emergency needs another one.
	maxOverride = 7 * 24 * time.Hour
)

func (r Request) check() error {
	switch {
	case len(r.Actor) > maxText:
		return fmt.Errorf("actor: has %d bytes, more than %d", len(r.Actor), maxText)
	case len(r.Reason) > maxText:
		return fmt.Errorf("reason: has %d bytes, more than %d", len(r.Reason), maxText)
	}
	return nil
}

// errUndefined: there is no window to change.
var errUndefined = errors.New("the window is not defined: `drydock window create -f FILE` defines it")

// CheckDefine returns why a window cannot be defined, or nil. A window that is over may be defined again. The caller checks the calendar.
func (c *State) CheckDefine(r DefineRequest, now time.Time) error {
	if c.Window != nil && c.Phase(now) != PhaseOver {
		return errors.New("the window exists already: `drydock window edit -f FILE` changes it")
	}
	return r.check()
}

// CheckEdit returns why a window cannot be edited, or nil. The caller checks the calendar.
func (c *State) CheckEdit(r DefineRequest) error {
	if c.Window == nil {
		return errUndefined
	}
	return r.check()
}

// Define stores a window and its schedule. The current opening keeps its end, and is closed while an exclusion applies. Changes of upcoming openings are
// dropped, because they belong to the previous calendar.
func (c *State) Define(r DefineRequest, schedule Schedule, now time.Time) Event {
	event := Event{At: now, Kind: EventDefined, By: r.Actor, Reason: r.Reason, Message: "defined"}
	if c.Window != nil {
		event.Kind, event.Message = EventEdited, "edited; a current opening keeps its end"
	}
	if c.Running != nil {
		left := Opening{Start: now, End: c.Running.End}
		c.Running.Forced = c.Running.Forced && c.Schedule.excludes(left, schedule.excludedIn(left))
		if excluded := schedule.excludedIn(left); len(excluded) > 0 && !c.Running.Forced {
			event.Message += fmt.Sprintf("; an exclusion closes it from %s to %s", clock(later(excluded[0].Start, now)), clock(excluded[0].End))
		}
	}
	c.Window, c.Since, c.Cancelled = &r.Object, now, false
	c.Amendments, c.Announced, c.Pending, c.CutShort = nil, nil, nil, nil
	c.SetSchedule(now, schedule)
	c.record(event)
	return event
}

// CheckExtend returns why the window cannot be extended, or nil.
func (c *State) CheckExtend(r ExtendRequest, now time.Time) error {
	opening, err := c.openingToExtend(now)
	switch {
	case err != nil:
		return err
	case !r.End.After(now):
		return fmt.Errorf("end: %s is not after now, %s", instant(r.End), instant(now))
	case !r.End.After(opening.End):
		return fmt.Errorf("end: %s is not after the end of the opening, %s: `drydock window end` closes it earlier", instant(r.End), instant(opening.End))
	case r.End.After(c.Schedule.Until) && !c.Schedule.Last:
		return fmt.Errorf("end: %s is after the last known time of the window, %s", instant(r.End), instant(c.Schedule.Until))
	case !r.Force && len(c.Schedule.excludedIn(Opening{Start: opening.End, End: r.End})) > 0:
		excluded := c.Schedule.excludedIn(Opening{Start: opening.End, End: r.End})[0]
		return fmt.Errorf("end: an exclusion begins at %s, before %s: end there, or force it", instant(excluded.Start), instant(r.End))
	case r.Force && r.Reason == "":
		return errors.New("reason: required to extend into an exclusion")
	}
	return r.check()
}

// openingToExtend returns the current opening, or else the next.
func (c *State) openingToExtend(now time.Time) (upcomingOpening, error) {
	if c.Window == nil {
		return upcomingOpening{}, errUndefined
	}
	if c.Running != nil && now.Before(c.Running.End) {
		return upcomingOpening{Opening: *c.Running}, nil
	}
	ahead := c.upcoming()
	if len(ahead) == 0 {
		return upcomingOpening{}, errors.New("the window has no more openings")
	}
	return ahead[0], nil
}

// Extend moves the end of the current opening, or of the next one.
func (c *State) Extend(r ExtendRequest, now time.Time) Event {
	next, _ := c.openingToExtend(now)
	next.End, next.Forced = r.End, next.Forced || r.Force
	if c.Running != nil {
		c.Running.End, c.Running.Forced = next.End, next.Forced
		c.CutOff = c.CutOff && !now.Before(c.Running.CutoffAt())
	} else {
		c.amend(Amendment{Start: next.planned, End: &r.End, Forced: next.Forced})
	}
	return c.recordRequest(EventExtended, r.Request, &next.Opening, "extended until "+clock(r.End), now)
}

func (c *State) amend(a Amendment) {
	c.Amendments = slices.DeleteFunc(c.Amendments, func(before Amendment) bool { return before.Start.Equal(a.Start) })
	c.Amendments = append(c.Amendments, a)
}

// recordRequest records a request as an event.
func (c *State) recordRequest(kind EventKind, r Request, opening *Opening, message string, now time.Time) Event {
	if opening != nil {
		opening = new(*opening)
	}
	event := Event{At: now, Kind: kind, Opening: opening, By: r.Actor, Reason: r.Reason, Message: message}
	c.record(event)
	return event
}

// CheckEnd returns why the window cannot be closed, or nil.
func (c *State) CheckEnd(r EndRequest, now time.Time) error {
	open := c.Running != nil && now.Before(c.Running.End)
	switch {
	case !open && !c.overridden(now):
		return errors.New("the window is not open: `drydock window cancel` cancels the next opening")
	case !r.End.IsZero() && r.End.Before(now):
		return fmt.Errorf("end: %s is before now, %s", instant(r.End), instant(now))
	case !r.End.IsZero() && open && !r.End.Before(c.Running.End):
		return fmt.Errorf("end: %s is not before the end of the opening, %s: `drydock window extend` moves it", instant(r.End), instant(c.Running.End))
	}
	return r.check()
}

// End closes the window early. Pass reports the end when it happens.
func (c *State) End(r EndRequest, now time.Time) Event {
	end := later(r.End, now)
	c.endOverride(r.Request, end)
	if c.Running != nil {
		c.changeOpenings(func() { c.Running.End = earlier(c.Running.End, end) })
	}
	return c.recordRequest(EventCut, r.Request, c.Running, "closes at "+clock(end), now)
}

// endOverride ends an emergency override early.
func (c *State) endOverride(r Request, end time.Time) {
	if c.Override != nil && end.Before(c.Override.Until) {
		c.Override.Until, c.Override.Ended = end, &r
	}
}

// CheckCancel returns why an opening cannot be cancelled, or nil.
func (c *State) CheckCancel(r CancelRequest, now time.Time) error {
	if c.Window == nil {
		return errUndefined
	}
	if _, again := c.alreadyCancelled(r, now); again {
		return r.check()
	}
	if c.Phase(now) == PhaseOver {
		return errors.New("the window has no more openings")
	}
	if _, err := c.openingToCancel(r, now); err != nil && !r.All {
		return err
	}
	return r.check()
}

// alreadyCancelled reports whether a request repeats an earlier one, and which opening it cancelled; nil: all of them. A repeated request without a start
// does not mean the opening after it: a script that retries would cancel that, too.
func (c *State) alreadyCancelled(r CancelRequest, now time.Time) (*Opening, bool) {
	if r.All || c.Cancelled {
		return nil, c.Cancelled
	}
	if o := c.CutShort; o != nil && now.Before(o.End) && (r.Start.IsZero() || r.Start.Equal(o.Start)) {
		return o, true
	}
	open := c.Running != nil && now.Before(c.Running.End)
	for _, o := range slices.Concat(c.Schedule.Openings, c.Schedule.Later) {
		switch cancelled := c.amendment(o.Start).Cancelled; {
		case !o.Start.After(c.LastHandled), !now.Before(o.End):
		case cancelled && r.Start.Equal(o.Start):
			return &o, true
		case r.Start.IsZero() && (open || !cancelled):
			return nil, false // the current opening, or the next one, is not cancelled
		case r.Start.IsZero():
			return &o, true
		}
	}
	return nil, false
}

// openingToCancel returns the opening to cancel. The planned start is zero for the current one.
func (c *State) openingToCancel(r CancelRequest, now time.Time) (upcomingOpening, error) {
	running := c.Running != nil && now.Before(c.Running.End)
	if running && (r.Start.IsZero() || r.Start.Equal(c.Running.Start)) {
		return upcomingOpening{Opening: *c.Running}, nil
	}
	ahead := c.further()
	i := slices.IndexFunc(ahead, func(o upcomingOpening) bool { return r.Start.IsZero() || o.Start.Equal(r.Start) })
	switch {
	case i >= 0:
		return ahead[i], nil
	case !r.Start.IsZero() && !r.Start.After(now):
		return upcomingOpening{}, fmt.Errorf("start: the opening of %s is in the past", instant(r.Start))
	case len(ahead) == 0:
		return upcomingOpening{}, errors.New("no upcoming opening is known")
	}
	return upcomingOpening{}, fmt.Errorf("start: no opening is known to start at %s; the next starts at %s", instant(r.Start), instant(ahead[0].Start))
}

// Cancel cancels an opening. The current opening ends now. If it was cancelled before, nothing changes and the event has no kind.
func (c *State) Cancel(r CancelRequest, now time.Time) Event {
	if opening, again := c.alreadyCancelled(r, now); again {
		return Event{Opening: opening, Message: alreadyCancelledText(opening)}
	}
	if r.All {
		c.Cancelled = true
		// Its exclusions still apply to other windows. The schedule of a window without openings lists all exclusions, however far ahead.
		c.Window, c.Read = new(*c.Window), time.Time{}
		c.Window.Spec.NotAfter = new(metav1.NewTime(now))
		c.endOverride(r.Request, now)
		if c.Running != nil {
			c.Running.End = earlier(c.Running.End, now)
		}
		return c.recordRequest(EventCancelled, r.Request, nil, "cancelled: the window has no more openings", now)
	}
	next, _ := c.openingToCancel(r, now)
	if next.planned.IsZero() {
		c.CutShort = &next.Opening
		c.changeOpenings(func() { c.Running.End = earlier(c.Running.End, now) })
		return c.recordRequest(EventCancelled, r.Request, c.Running, openingText(next.Opening)+" is cancelled and ends now", now)
	}
	c.changeOpenings(func() { c.amend(Amendment{Start: next.planned, Cancelled: true}) })
	return c.recordRequest(EventCancelled, r.Request, &next.Opening, openingText(next.Opening)+" is cancelled", now)
}

func openingText(o Opening) string { return "the opening of " + clock(o.Start) }

func alreadyCancelledText(opening *Opening) string {
	if opening == nil {
		return "the window was cancelled before; nothing changes"
	}
	return openingText(*opening) + " was cancelled before; nothing changes; --start cancels another one"
}

// CheckOverride returns why the window cannot be opened in an emergency, or nil. Actor and reason are required.
func (c *State) CheckOverride(r OverrideRequest, now time.Time) error {
	switch {
	case c.Window == nil:
		return errUndefined
	case r.Actor == "":
		return errors.New("actor: required for an emergency override")
	case r.Reason == "":
		return errors.New("reason: required for an emergency override")
	case !r.Until.After(now):
		return fmt.Errorf("until: %s is not after now, %s", instant(r.Until), instant(now))
	case r.Until.Sub(now) > maxOverride:
		return fmt.Errorf("until: %s is more than %s ahead", instant(r.Until), maxOverride)
	}
	return r.check()
}

// SetOverride opens the window in an emergency. A later override replaces an earlier one.
func (c *State) SetOverride(r OverrideRequest, now time.Time) Event {
	c.Override = &Override{By: r.Actor, Reason: r.Reason, Since: now, Until: r.Until}
	return c.recordRequest(EventOverridden, r.Request, nil, "open until "+clock(r.Until)+" by an emergency override", now)
}
