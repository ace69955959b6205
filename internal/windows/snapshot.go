package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Snapshot is the part of a window's state that its subscribers receive: enough to decide whether work may start until the next one.
type Snapshot struct {
	// Window is the name of the window, as namespace/name.
	Window string `json:"window"`
	// Number grows with every change. 0: nothing was received yet.
	Number int64 `json:"number"`
	// Trouble says why a window that is invalid or not defined counts as closed; empty: no trouble.
	Trouble  string   `json:"trouble,omitempty"`
	Schedule Schedule `json:"outlook"`
	// Next is when the next update is due at the latest; nil: nothing will change by itself.
	Next      *time.Time              `json:"next,omitempty"`
	OnOverrun drydockv1.OverrunAction `json:"onOverrun,omitempty"`
	// Selector picks the clusters that the window is for; nil: all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Override *Override             `json:"override,omitempty"`
}

// ReasonUnknown: the state of a window is unknown, and nothing starts.
const ReasonUnknown Reason = "Unknown"

// Snapshot returns what subscribers receive now.
func (c *State) Snapshot(name string, now time.Time) Snapshot {
	s := Snapshot{Window: name, Override: c.Override}
	if next, changes := c.nextUpdate(now); changes {
		s.Next = &next
	}
	if c.Window == nil {
		s.Trouble = "the window is not defined: `drydock window create -f FILE` defines it"
		return s
	}
	s.OnOverrun, s.Selector = c.Window.Spec.OnOverrun, c.Window.Spec.Selector
	s.Schedule = c.Schedule
	s.Schedule.Later, s.Schedule.Again = nil, time.Time{}
	s.Schedule.Name, s.Schedule.Openings = name, c.Coming()
	if len(s.Schedule.Openings) > 0 {
		s.Schedule.Openings[0].Confirmed = c.confirmed(s.Schedule.Openings[0])
	}
	if c.Running != nil {
		s.Schedule.Openings = append([]Opening{*c.Running}, s.Schedule.Openings...)
	}
	s.Schedule.Scheduled = c.scheduled()
	return s
}

// scheduled is when only exclusions close the window: without openings that were handled or cancelled.
func (c *State) scheduled() []Span {
	var left []Opening
	if c.Running != nil {
		left = append(left, *c.Running)
	}
	for _, s := range c.Schedule.Scheduled {
		if s.Start.After(c.LastHandled) && !c.Cancelled {
			left = append(left, Opening{Start: s.Start, End: s.End})
		}
	}
	for _, o := range c.Schedule.Openings {
		if c.amendment(o.Start).Cancelled {
			left = subtractSpan(left, Span{o.Start, o.End})
		}
	}
	var spans []Span
	for _, o := range left {
		spans = append(spans, Span{o.Start, o.End})
	}
	return spans
}

// Opens is when the next confirmed opening starts; false: none is confirmed.
func (s Snapshot) Opens(now time.Time) (time.Time, bool) {
	i := slices.IndexFunc(s.Schedule.Openings, func(o Opening) bool { return o.Confirmed && o.Start.After(now) })
	if i < 0 {
		return time.Time{}, false
	}
	return s.Schedule.Openings[i].Start, true
}

// longestSearch is how far ahead Ask looks for an opening that is long enough if no earlier one is: a month and some days.
const longestSearch = 35 * 24 * time.Hour

// Ask answers whether work of that length may start now, by the states received from all windows for it. A window counts as closed until it confirms
// an opening or reports that it has opened. If the state of one is unknown, nothing starts: an exclusion may apply. Work that is longer than every
// known opening may start in any of them; otherwise it would never run. Ask looks for a longer opening up to longestSearch, and no further than the
// exclusions of all windows are known.
func Ask(told []Snapshot, now time.Time, need time.Duration) Verdict {
	for _, s := range told {
		if s.Override != nil && now.Before(s.Override.Until) {
			until := utc(s.Override.Until)
			return Verdict{Allowed: true, Reason: ReasonOpen, Until: until, LastStart: until, Ends: until, Window: s.Window}
		}
	}
	var outlooks []Schedule
	until, furthest, excluded := now.Add(longestLook), now, now.Add(longestSearch)
	for _, s := range told {
		if s.Number == 0 || s.Trouble != "" {
			return Verdict{Reason: ReasonUnknown, Window: s.Window}
		}
		sight := now.Add(longestLook)
		if !s.Schedule.Last {
			sight = s.Schedule.Until
		}
		until, furthest = earlier(until, sight), later(furthest, sight)
		if len(s.Schedule.Excluded) > 0 {
			excluded = earlier(excluded, sight)
		}
		outlooks = append(outlooks, s.Schedule.begun(now))
	}
	if len(outlooks) == 0 {
		return Verdict{Reason: ReasonNoWindow}
	}
	question := Question{Now: now, Need: need}
	verdict, _ := question.answer(outlooks, later(until, now))
	if verdict.Allowed || verdict.NextOpen != nil {
		return verdict
	}
	further, _ := question.answer(outlooks, later(earlier(furthest, excluded), now))
	if further.NextOpen == nil && need > 0 {
		return Ask(told, now, 0)
	}
	verdict.NextOpen, verdict.Window = further.NextOpen, further.Window
	return verdict
}

// begun drops openings that should have started and did not report it. An opening that has started counts as started, even if the subscriber's clock
// is behind.
func (o Schedule) begun(now time.Time) Schedule {
	var openings []Opening
	for _, opening := range o.Openings {
		if opening.Begun {
			opening.Start = earlier(opening.Start, now)
		}
		if opening.Begun || opening.Confirmed || opening.Start.After(now) {
			openings = append(openings, opening)
		} else {
			o.Scheduled = nil // it is late, not excluded
		}
	}
	o.Openings = openings
	return o
}

// Overrun is the action for work that is still running when its windows close. If windows differ, the strictest action applies.
func Overrun(told []Snapshot) drydockv1.OverrunAction {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunCancel, drydockv1.OverrunPause} {
		if slices.ContainsFunc(told, func(s Snapshot) bool { return s.OnOverrun == action }) {
			return action
		}
	}
	return drydockv1.OverrunFinish
}

// Explain returns why nothing starts, and when work may start.
func Explain(told []Snapshot, verdict Verdict) string {
	var names []string
	for _, s := range told {
		names = append(names, s.Window)
		if verdict.Reason == ReasonUnknown && s.Window == verdict.Window {
			if s.Number == 0 {
				return fmt.Sprintf("window %s has not reported its state yet", s.Window)
			}
			return fmt.Sprintf("window %s counts as closed: %s", s.Window, s.Trouble)
		}
	}
	which := "window " + strings.Join(names, " or ")
	why := map[Reason]string{
		ReasonClosed:     which + " is closed",
		ReasonCutoff:     which + " is about to close, and nothing new starts",
		ReasonDoesNotFit: which + " closes before the next step would finish, by its duration so far",
		ReasonExcluded:   which + " is closed by an exclusion",
		ReasonNoWindow:   "none of the maintenance windows selects the cluster",
	}[verdict.Reason]
	switch {
	case verdict.Reason == ReasonNoWindow:
	case verdict.NextOpen == nil:
		why += "; no next opening is known"
	case len(names) == 1:
		why += "; it opens " + clock(*verdict.NextOpen)
	default:
		why += fmt.Sprintf("; %s opens %s", verdict.Window, clock(*verdict.NextOpen))
	}
	return why
}

// Closure returns a closed window as a hold of the clusters that the windows are for; nil: work may start.
func Closure(told []Snapshot, verdict Verdict, now time.Time) *drydockv1.Hold {
	if verdict.Allowed {
		return nil
	}
	hold := &drydockv1.Hold{
		Scope: drydockv1.HoldAll, Window: cmp.Or(strings.Join(namesOf(told), ", "), "none"), Reason: Explain(told, verdict), Since: metav1.NewTime(now),
	}
	if verdict.NextOpen != nil {
		hold.Until = &metav1.Time{Time: *verdict.NextOpen}
	}
	hold.OnOverrun = Overrun(told)
	switch {
	case verdict.Reason == ReasonCutoff, verdict.Reason == ReasonDoesNotFit:
		hold.OnOverrun = drydockv1.OverrunFinish // running work has time until the window closes
	case verdict.Reason == ReasonClosed && opensAbout(told, now):
		hold.OnOverrun = drydockv1.OverrunFinish // the node would be uncordoned for nothing
	}
	return hold
}

// seam is how long two windows count as adjacent after one has closed and before the other reports that it has opened.
const seam = time.Minute

// opensAbout reports whether a window is due to open about now.
func opensAbout(told []Snapshot, now time.Time) bool {
	return slices.ContainsFunc(told, func(s Snapshot) bool {
		return slices.ContainsFunc(s.Schedule.Openings, func(o Opening) bool { return !o.Begun && now.Sub(o.Start).Abs() < seam })
	})
}

// Closing is the hold that applies from verdict.LastStart on for subscribers without a later update.
func Closing(told []Snapshot, verdict Verdict) drydockv1.Hold {
	names := namesOf(told)
	return drydockv1.Hold{
		Scope: drydockv1.HoldAll, Window: strings.Join(names, ", "), Since: metav1.NewTime(*verdict.LastStart), OnOverrun: drydockv1.OverrunFinish,
		Reason: fmt.Sprintf("window %s was open for new work until %s, and sent no update since", strings.Join(names, " or "), clock(*verdict.LastStart)),
	}
}

func namesOf(told []Snapshot) []string {
	var names []string
	for _, s := range told {
		names = append(names, s.Window)
	}
	return names
}
