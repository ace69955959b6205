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

// Standing is what a window tells those that follow it: all that they need to know whether something may start, until it tells them more.
type Standing struct {
	// Window is its name, as namespace/name.
	Window string `json:"window"`
	// Number grows with every change. 0: nothing has been told.
	Number int64 `json:"number"`
	// Trouble says why it is closed that cannot be read, or that nobody has defined; empty: it is well.
	Trouble string  `json:"trouble,omitempty"`
	Outlook Outlook `json:"outlook"`
	// Next is when more will be told at the latest; nil: nothing will change by itself.
	Next      *time.Time              `json:"next,omitempty"`
	OnOverrun drydockv1.OverrunAction `json:"onOverrun,omitempty"`
	// Selector picks the clusters that it is for; nil: all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Override *Override             `json:"override,omitempty"`
}

// ReasonUnknown: it is not known whether it is open, and nothing starts.
const ReasonUnknown Reason = "Unknown"

// Standing returns what is told of the window now.
func (c *Course) Standing(name string, now time.Time) Standing {
	s := Standing{Window: name, Override: c.Override}
	if next, changes := c.nextTold(now); changes {
		s.Next = &next
	}
	if c.Window == nil {
		s.Trouble = "nobody has defined it: `drydock window create -f FILE` does"
		return s
	}
	s.OnOverrun, s.Selector = c.Window.Spec.OnOverrun, c.Window.Spec.Selector
	s.Outlook = c.Outlook
	s.Outlook.Later, s.Outlook.Again = nil, time.Time{}
	s.Outlook.Name, s.Outlook.Openings = name, c.Coming()
	if len(s.Outlook.Openings) > 0 {
		s.Outlook.Openings[0].Confirmed = c.confirmed(s.Outlook.Openings[0])
	}
	if c.Running != nil {
		s.Outlook.Openings = append([]Opening{*c.Running}, s.Outlook.Openings...)
	}
	s.Outlook.Scheduled = c.scheduled()
	return s
}

// scheduled is when an exclusion, and nothing else, keeps the window from being open: not what has had its turn, nor what was cancelled.
func (c *Course) scheduled() []Span {
	var left []Opening
	if c.Running != nil {
		left = append(left, *c.Running)
	}
	for _, s := range c.Outlook.Scheduled {
		if s.Start.After(c.Dealt) && !c.Cancelled {
			left = append(left, Opening{Start: s.Start, End: s.End})
		}
	}
	for _, o := range c.Outlook.Openings {
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

// Opens is when an opening begins that was confirmed; false: none was that is ahead.
func (s Standing) Opens(now time.Time) (time.Time, bool) {
	i := slices.IndexFunc(s.Outlook.Openings, func(o Opening) bool { return o.Confirmed && o.Start.After(now) })
	if i < 0 {
		return time.Time{}, false
	}
	return s.Outlook.Openings[i].Start, true
}

// farSighted is how long, for want of an earlier opening that is long enough, something waits for one: a month and some days.
const farSighted = 35 * 24 * time.Hour

// Ask answers whether something that takes that long may start now, by what windows have told: all those that are for it. What a window has not told
// is not so: it is closed until it says that it has opened, or confirms that it will. When something is not known of one, nothing starts, for it may be excluded there.
// What takes longer than any opening in sight is not kept from starting by that: it would never have its turn. One that is long enough is looked for
// within farSighted, and no further than the exclusions of all are known: beyond, there may always seem to be one that is cut when it comes.
func Ask(told []Standing, now time.Time, need time.Duration) Verdict {
	for _, s := range told {
		if s.Override != nil && now.Before(s.Override.Until) {
			until := utc(s.Override.Until)
			return Verdict{Allowed: true, Reason: ReasonOpen, Until: until, LastStart: until, Ends: until, Window: s.Window}
		}
	}
	var outlooks []Outlook
	until, furthest, excluded := now.Add(longestLook), now, now.Add(farSighted)
	for _, s := range told {
		if s.Number == 0 || s.Trouble != "" {
			return Verdict{Reason: ReasonUnknown, Window: s.Window}
		}
		sight := now.Add(longestLook)
		if !s.Outlook.Last {
			sight = s.Outlook.Until
		}
		until, furthest = earlier(until, sight), later(furthest, sight)
		if len(s.Outlook.Excluded) > 0 {
			excluded = earlier(excluded, sight)
		}
		outlooks = append(outlooks, s.Outlook.begun(now))
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

// begun leaves out what should have opened by now, and is not known to. What has opened, has, whatever the clock of who asks shows.
func (o Outlook) begun(now time.Time) Outlook {
	var openings []Opening
	for _, opening := range o.Openings {
		if opening.Begun {
			opening.Start = earlier(opening.Start, now)
		}
		if opening.Begun || opening.Confirmed || opening.Start.After(now) {
			openings = append(openings, opening)
		} else {
			o.Scheduled = nil // it is late, and not kept from opening by an exclusion
		}
	}
	o.Openings = openings
	return o
}

// Overrun is what becomes of work that is not done when the windows for it have closed. If they differ, the strictest counts.
func Overrun(told []Standing) drydockv1.OverrunAction {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunCancel, drydockv1.OverrunPause} {
		if slices.ContainsFunc(told, func(s Standing) bool { return s.OnOverrun == action }) {
			return action
		}
	}
	return drydockv1.OverrunFinish
}

// Explain says why nothing starts, and when something will.
func Explain(told []Standing, verdict Verdict) string {
	var names []string
	for _, s := range told {
		names = append(names, s.Window)
		if verdict.Reason == ReasonUnknown && s.Window == verdict.Window {
			if s.Number == 0 {
				return fmt.Sprintf("window %s has not said yet whether it is open", s.Window)
			}
			return fmt.Sprintf("window %s counts as closed: %s", s.Window, s.Trouble)
		}
	}
	which := "window " + strings.Join(names, " or ")
	why := map[Reason]string{
		ReasonClosed:     which + " is closed",
		ReasonCutoff:     which + " is about to close, and nothing new starts",
		ReasonDoesNotFit: which + " closes before what is next would be done, by what it took so far",
		ReasonExcluded:   which + " is closed by an exclusion",
		ReasonNoWindow:   "none of the maintenance windows selects the cluster",
	}[verdict.Reason]
	switch {
	case verdict.Reason == ReasonNoWindow:
	case verdict.NextOpen == nil:
		why += "; no next opening is in sight"
	case len(names) == 1:
		why += "; it opens " + clock(*verdict.NextOpen)
	default:
		why += fmt.Sprintf("; %s opens %s", verdict.Window, clock(*verdict.NextOpen))
	}
	return why
}

// Closure is what windows say that keeps something from being started, as a hold of every cluster that they are for; nil: nothing.
func Closure(told []Standing, verdict Verdict, now time.Time) *drydockv1.Hold {
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
		hold.OnOverrun = drydockv1.OverrunFinish // what is at work has time until it closes
	case verdict.Reason == ReasonClosed && opensAbout(told, now):
		hold.OnOverrun = drydockv1.OverrunFinish // it would be returned for nothing
	}
	return hold
}

// seam is for how long windows count as adjacent of which one has closed and another has not said yet that it has opened.
const seam = time.Minute

// opensAbout reports whether a window should open about now.
func opensAbout(told []Standing, now time.Time) bool {
	return slices.ContainsFunc(told, func(s Standing) bool {
		return slices.ContainsFunc(s.Outlook.Openings, func(o Opening) bool { return !o.Begun && now.Sub(o.Start).Abs() < seam })
	})
}

// Closing is what keeps anything new from being started from verdict.LastStart on, for those that are told nothing else until then.
func Closing(told []Standing, verdict Verdict) drydockv1.Hold {
	names := namesOf(told)
	return drydockv1.Hold{
		Scope: drydockv1.HoldAll, Window: strings.Join(names, ", "), Since: metav1.NewTime(*verdict.LastStart), OnOverrun: drydockv1.OverrunFinish,
		Reason: fmt.Sprintf("window %s was open for new work until %s, and nothing else has been told", strings.Join(names, " or "), clock(*verdict.LastStart)),
	}
}

func namesOf(told []Standing) []string {
	var names []string
	for _, s := range told {
		names = append(names, s.Window)
	}
	return names
}
