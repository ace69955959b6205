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

// Snapshot is the part of a window's state that its subscribers receive. With it they decide whether work may start until the next one arrives.
type Snapshot struct {
	// Window is the name of the window, as namespace/name.
	Window string `json:"window"`
	// Number grows with every change. 0: nothing was received yet.
	Number int64 `json:"number"`
	// Trouble is why a window counts as closed: it is invalid or not defined; empty: neither.
	Trouble  string   `json:"trouble,omitempty"`
	Schedule Schedule `json:"schedule"`
	// Next is when the next update is due; nil: none is expected.
	Next      *time.Time              `json:"next,omitempty"`
	OnOverrun drydockv1.OverrunAction `json:"onOverrun,omitempty"`
	// Selector selects the clusters of the window; nil: all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Override *Override             `json:"override,omitempty"`
}

// ReasonUnknown: the state of a window is unknown, and nothing starts.
const ReasonUnknown Reason = "Unknown"

// Snapshot returns the state for subscribers at this time.
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
	s.Schedule.Name, s.Schedule.Openings = name, c.Upcoming()
	if len(s.Schedule.Openings) > 0 {
		s.Schedule.Openings[0].Confirmed = c.confirmed(s.Schedule.Openings[0])
	}
	if c.Running != nil {
		s.Schedule.Openings = append([]Opening{*c.Running}, s.Schedule.Openings...)
	}
	s.Schedule.Scheduled = c.scheduled()
	return s
}

// scheduled returns when the window would be open without exclusions. It omits openings that were handled or cancelled.
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

// Opens returns when the next confirmed opening starts; false: none is confirmed.
func (s Snapshot) Opens(now time.Time) (time.Time, bool) {
	i := slices.IndexFunc(s.Schedule.Openings, func(o Opening) bool { return o.Confirmed && o.Start.After(now) })
	if i < 0 {
		return time.Time{}, false
	}
	return s.Schedule.Openings[i].Start, true
}

// maxSearch limits the search of Ask for a long enough opening: a month and some days.
const maxSearch = 35 * 24 * time.Hour

// Ask answers whether work of that length may start now, by the snapshots of all its windows. A window counts as closed until it confirms an opening or
// reports that it has opened. If the state of a window is unknown, nothing starts, because an exclusion may apply. Work that is longer than every known
// opening may start in any of them; otherwise it would never run. Ask searches for a longer opening up to maxSearch, and only while the exclusions of all
// windows are known.
func Ask(snapshots []Snapshot, now time.Time, need time.Duration) Verdict {
	for _, s := range snapshots {
		if s.Override != nil && now.Before(s.Override.Until) {
			until := utc(s.Override.Until)
			return Verdict{Allowed: true, Reason: ReasonOpen, Until: until, LastStart: until, Ends: until, Window: s.Window}
		}
	}
	var schedules []Schedule
	until, furthest, excluded := now.Add(maxRange), now, now.Add(maxSearch)
	for _, s := range snapshots {
		if s.Number == 0 || s.Trouble != "" {
			return Verdict{Reason: ReasonUnknown, Window: s.Window}
		}
		known := now.Add(maxRange)
		if !s.Schedule.Last {
			known = s.Schedule.Until
		}
		until, furthest = earlier(until, known), later(furthest, known)
		if len(s.Schedule.Excluded) > 0 {
			excluded = earlier(excluded, known)
		}
		schedules = append(schedules, s.Schedule.begun(now))
	}
	if len(schedules) == 0 {
		return Verdict{Reason: ReasonNoWindow}
	}
	question := Question{Now: now, Need: need}
	verdict, _ := question.answer(schedules, later(until, now))
	if verdict.Allowed || verdict.NextOpen != nil {
		return verdict
	}
	further, _ := question.answer(schedules, later(earlier(furthest, excluded), now))
	if further.NextOpen == nil && need > 0 {
		return Ask(snapshots, now, 0)
	}
	verdict.NextOpen, verdict.Window = further.NextOpen, further.Window
	return verdict
}

// begun drops openings whose start is past and was not reported. A reported opening counts as started, even if the subscriber's clock is behind.
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

// Overrun returns the action for work that is still running when its windows close. Of several windows, the strictest action applies.
func Overrun(snapshots []Snapshot) drydockv1.OverrunAction {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunCancel, drydockv1.OverrunPause} {
		if slices.ContainsFunc(snapshots, func(s Snapshot) bool { return s.OnOverrun == action }) {
			return action
		}
	}
	return drydockv1.OverrunFinish
}

// Explain describes why no work starts, and when it may.
func Explain(snapshots []Snapshot, verdict Verdict) string {
	var names []string
	for _, s := range snapshots {
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
		ReasonCutoff:     which + " is past its cutoff, and no new work starts",
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

// Closure returns the hold of closed windows; nil: work may start.
func Closure(snapshots []Snapshot, verdict Verdict, now time.Time) *drydockv1.Hold {
	if verdict.Allowed {
		return nil
	}
	hold := &drydockv1.Hold{
		Scope: drydockv1.HoldAll, Window: cmp.Or(strings.Join(namesOf(snapshots), ", "), "none"), Reason: Explain(snapshots, verdict), Since: metav1.NewTime(now),
	}
	if verdict.NextOpen != nil {
		hold.Until = &metav1.Time{Time: *verdict.NextOpen}
	}
	hold.OnOverrun = Overrun(snapshots)
	switch {
	case verdict.Reason == ReasonCutoff, verdict.Reason == ReasonDoesNotFit:
		hold.OnOverrun = drydockv1.OverrunFinish // running work has time until the window closes
	case verdict.Reason == ReasonClosed && opensSoon(snapshots, now):
		hold.OnOverrun = drydockv1.OverrunFinish // the node would be uncordoned for nothing
	}
	return hold
}

// adjacentWithin is the maximum gap between adjacent windows: after one has closed, the other may report its opening a little later.
const adjacentWithin = time.Minute

// opensSoon reports whether a window is due to open about now.
func opensSoon(snapshots []Snapshot, now time.Time) bool {
	return slices.ContainsFunc(snapshots, func(s Snapshot) bool {
		return slices.ContainsFunc(s.Schedule.Openings, func(o Opening) bool { return !o.Begun && now.Sub(o.Start).Abs() < adjacentWithin })
	})
}

// Closing returns the hold that applies after verdict.LastStart to subscribers without a later update.
func Closing(snapshots []Snapshot, verdict Verdict) drydockv1.Hold {
	names := namesOf(snapshots)
	return drydockv1.Hold{
		Scope: drydockv1.HoldAll, Window: strings.Join(names, ", "), Since: metav1.NewTime(*verdict.LastStart), OnOverrun: drydockv1.OverrunFinish,
		Reason: fmt.Sprintf("window %s was open for new work until %s, and sent no update since", strings.Join(names, " or "), clock(*verdict.LastStart)),
	}
}

func namesOf(snapshots []Snapshot) []string {
	var names []string
	for _, s := range snapshots {
		names = append(names, s.Window)
	}
	return names
}
