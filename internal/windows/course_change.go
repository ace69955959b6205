package windows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Request says who asks for a change of a window, and why.
type Request struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// DefineRequest defines a window, or edits it.
type DefineRequest struct {
	Request
	Object drydockv1.MaintenanceWindow `json:"object"`
}

// ExtendRequest moves the end of the opening at hand, or of the next one.
type ExtendRequest struct {
	Request
	End time.Time `json:"end"`
	// Force: also into an exclusion.
	Force bool `json:"force,omitempty"`
}

// EndRequest closes the window before its time; what opened it in an emergency ends, too.
type EndRequest struct {
	Request
	// End is when; the zero time: now.
	End time.Time `json:"end,omitzero"`
}

// CancelRequest cancels an opening: the one at hand, or the next.
type CancelRequest struct {
	Request
	// Start is that of the opening, as it is shown; the zero time: the one at hand, or the next.
	Start time.Time `json:"start,omitzero"`
	// All: the window opens no more.
	All bool `json:"all,omitempty"`
}

// OverrideRequest opens the window in an emergency.
type OverrideRequest struct {
	Request
	Until time.Time `json:"until"`
}

const (
	// longestReason is how long a name or a reason may be, in bytes.
	longestReason = 1000
	// longestOverride is how long an emergency may last before somebody has to say so again.
	longestOverride = 7 * 24 * time.Hour
)

func (r Request) check() error {
	switch {
	case len(r.Actor) > longestReason:
		return fmt.Errorf("actor: has %d bytes, more than %d", len(r.Actor), longestReason)
	case len(r.Reason) > longestReason:
		return fmt.Errorf("reason: has %d bytes, more than %d", len(r.Reason), longestReason)
	}
	return nil
}

// errUndefined says that there is nothing that could be changed.
var errUndefined = errors.New("the window is not defined: `drydock window create -f FILE` defines it")

// CheckDefine says why a window cannot be defined; nil: it can, if its calendar can be read. One that is over may be defined anew.
func (c *Course) CheckDefine(r DefineRequest, now time.Time) error {
	if c.Window != nil && c.Phase(now) != PhaseOver {
		return errors.New("the window exists already: `drydock window edit -f FILE` changes it")
	}
	return r.check()
}

// CheckEdit says why a window cannot be edited; nil: it can, if its calendar can be read.
func (c *Course) CheckEdit(r DefineRequest) error {
	if c.Window == nil {
		return errUndefined
	}
	return r.check()
}

// Define takes over a window and what its calendar says from now on. An opening at hand keeps its end, and is closed while an exclusion applies; what was
// ordered for those to come does not hold for another calendar.
func (c *Course) Define(r DefineRequest, outlook Outlook, now time.Time) Event {
	event := Event{At: now, Kind: EventDefined, By: r.Actor, Reason: r.Reason, Message: "defined"}
	if c.Window != nil {
		event.Kind, event.Message = EventEdited, "edited; an opening at hand keeps its end"
	}
	if c.Running != nil {
		left := Opening{Start: now, End: c.Running.End}
		c.Running.Forced = c.Running.Forced && c.Outlook.excludes(left, outlook.excludedIn(left))
		if excluded := outlook.excludedIn(left); len(excluded) > 0 && !c.Running.Forced {
			event.Message += fmt.Sprintf("; an exclusion closes it from %s to %s", clock(later(excluded[0].Start, now)), clock(excluded[0].End))
		}
	}
	c.Window, c.Since, c.Cancelled = &r.Object, now, false
	c.Amendments, c.Announced, c.Owed = nil, nil, nil
	c.Foresee(now, outlook)
	c.record(event)
	return event
}

// CheckExtend says why the window cannot be extended; nil: it can.
func (c *Course) CheckExtend(r ExtendRequest, now time.Time) error {
	opening, err := c.extended(now)
	switch {
	case err != nil:
		return err
	case !r.End.After(now):
		return fmt.Errorf("end: %s is not after now, %s", instant(r.End), instant(now))
	case !r.End.After(opening.End):
		return fmt.Errorf("end: %s is not after the end of the opening, %s: `drydock window end` closes it earlier", instant(r.End), instant(opening.End))
	case r.End.After(c.Outlook.Until) && !c.Outlook.Last:
		return fmt.Errorf("end: %s is further ahead than the window is known, %s", instant(r.End), instant(c.Outlook.Until))
	case !r.Force && len(c.Outlook.excludedIn(Opening{Start: opening.End, End: r.End})) > 0:
		excluded := c.Outlook.excludedIn(Opening{Start: opening.End, End: r.End})[0]
		return fmt.Errorf("end: an exclusion begins at %s, before %s: end there, or force it", instant(excluded.Start), instant(r.End))
	}
	return r.check()
}

// extended is the opening that is extended.
func (c *Course) extended(now time.Time) (coming, error) {
	if c.Window == nil {
		return coming{}, errUndefined
	}
	if c.Running != nil && now.Before(c.Running.End) {
		return coming{Opening: *c.Running}, nil
	}
	ahead := c.coming()
	if len(ahead) == 0 {
		return coming{}, errors.New("the window opens no more")
	}
	return ahead[0], nil
}

// Extend moves the end of the opening at hand, or of the next one.
func (c *Course) Extend(r ExtendRequest, now time.Time) Event {
	next, _ := c.extended(now)
	next.End, next.Forced = r.End, next.Forced || r.Force
	if c.Running != nil {
		c.Running.End, c.Running.Forced = next.End, next.Forced
		c.CutOff = c.CutOff && !now.Before(c.Running.CutoffAt())
	} else {
		c.amend(Amendment{Start: next.planned, End: &r.End, Forced: next.Forced})
	}
	return c.ordered(EventExtended, r.Request, &next.Opening, "extended until "+clock(r.End), now)
}

func (c *Course) amend(a Amendment) {
	c.Amendments = slices.DeleteFunc(c.Amendments, func(before Amendment) bool { return before.Start.Equal(a.Start) })
	c.Amendments = append(c.Amendments, a)
}

// ordered records what somebody has ordered.
func (c *Course) ordered(kind EventKind, r Request, opening *Opening, message string, now time.Time) Event {
	if opening != nil {
		opening = new(*opening)
	}
	event := Event{At: now, Kind: kind, Opening: opening, By: r.Actor, Reason: r.Reason, Message: message}
	c.record(event)
	return event
}

// CheckEnd says why the window cannot be closed; nil: it can.
func (c *Course) CheckEnd(r EndRequest, now time.Time) error {
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

// End closes the window before its time. What has happened is told when it does, see Pass.
func (c *Course) End(r EndRequest, now time.Time) Event {
	end := later(r.End, now)
	c.endOverride(r.Request, end)
	if c.Running != nil {
		c.makingRoom(func() { c.Running.End = earlier(c.Running.End, end) })
	}
	return c.ordered(EventCut, r.Request, c.Running, "closes at "+clock(end), now)
}

// endOverride ends an emergency override before its time.
func (c *Course) endOverride(r Request, end time.Time) {
	if c.Override != nil && end.Before(c.Override.Until) {
		c.Override.Until, c.Override.Ended = end, &r
	}
}

// CheckCancel says why an opening cannot be cancelled; nil: it can.
func (c *Course) CheckCancel(r CancelRequest, now time.Time) error {
	if c.Window == nil {
		return errUndefined
	}
	if c.Phase(now) == PhaseOver {
		return errors.New("the window opens no more")
	}
	if _, err := c.cancelled(r, now); err != nil && !r.All {
		return err
	}
	return r.check()
}

// cancelled is the opening that is cancelled; its planned start is zero when it is the one at hand.
func (c *Course) cancelled(r CancelRequest, now time.Time) (coming, error) {
	running := c.Running != nil && now.Before(c.Running.End)
	if running && (r.Start.IsZero() || r.Start.Equal(c.Running.Start)) {
		return coming{Opening: *c.Running}, nil
	}
	ahead := c.further()
	i := slices.IndexFunc(ahead, func(o coming) bool { return r.Start.IsZero() || o.Start.Equal(r.Start) })
	switch {
	case i >= 0:
		return ahead[i], nil
	case !r.Start.IsZero() && !r.Start.After(now):
		return coming{}, fmt.Errorf("start: the opening of %s is past", instant(r.Start))
	case len(ahead) == 0:
		return coming{}, errors.New("no opening is known that could be cancelled")
	}
	return coming{}, fmt.Errorf("start: no opening is known to start at %s; the next starts at %s", instant(r.Start), instant(ahead[0].Start))
}

// Cancel cancels an opening: one that is to come does not take place, the one at hand ends now.
func (c *Course) Cancel(r CancelRequest, now time.Time) Event {
	if r.All {
		c.Cancelled = true
		// Its exclusions count for other windows still. Without openings they are seen as far ahead as there are any.
		c.Window, c.Read = new(*c.Window), time.Time{}
		c.Window.Spec.NotAfter = new(metav1.NewTime(now))
		c.endOverride(r.Request, now)
		if c.Running != nil {
			c.Running.End = earlier(c.Running.End, now)
		}
		return c.ordered(EventCancelled, r.Request, nil, "cancelled: the window opens no more", now)
	}
	next, _ := c.cancelled(r, now)
	if next.planned.IsZero() {
		c.makingRoom(func() { c.Running.End = earlier(c.Running.End, now) })
		return c.ordered(EventCancelled, r.Request, c.Running, "the opening is cancelled, and ends now", now)
	}
	c.makingRoom(func() { c.amend(Amendment{Start: next.planned, Cancelled: true}) })
	return c.ordered(EventCancelled, r.Request, &next.Opening, "the opening is cancelled", now)
}

// CheckOverride says why the window cannot be opened in an emergency; nil: it can. Who does it, and why, is not optional.
func (c *Course) CheckOverride(r OverrideRequest, now time.Time) error {
	switch {
	case c.Window == nil:
		return errUndefined
	case r.Actor == "":
		return errors.New("actor: who opens a window in an emergency must say who they are")
	case r.Reason == "":
		return errors.New("reason: who opens a window in an emergency must say why")
	case !r.Until.After(now):
		return fmt.Errorf("until: %s is not after now, %s", instant(r.Until), instant(now))
	case r.Until.Sub(now) > longestOverride:
		return fmt.Errorf("until: %s is more than %s ahead", instant(r.Until), longestOverride)
	}
	return r.check()
}

// Overriding opens the window in an emergency. Of two overrides the later counts.
func (c *Course) Overriding(r OverrideRequest, now time.Time) Event {
	c.Override = &Override{By: r.Actor, Reason: r.Reason, Since: now, Until: r.Until}
	return c.ordered(EventOverridden, r.Request, nil, "open until "+clock(r.Until)+" by an emergency override", now)
}
