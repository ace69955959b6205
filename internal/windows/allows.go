package windows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Question is whether something may start.
type Question struct {
	// Now is when it would start.
	Now time.Time
	// Need is how long it would take; it must be over when the windows close. 0: that is not known.
	Need time.Duration
	// Cluster has the labels of the cluster that it is for; nil: of no particular one, so that no window is passed over.
	Cluster labels.Labels
}

// Reason is why something may start, or may not.
type Reason string

// The reasons.
const (
	// ReasonOpen: it may start.
	ReasonOpen Reason = "Open"
	// ReasonCutoff: it is open, but too close to its end for anything new.
	ReasonCutoff Reason = "Cutoff"
	// ReasonDoesNotFit: it is open, but closes before the work would be done.
	ReasonDoesNotFit Reason = "DoesNotFit"
	// ReasonExcluded: it would be open, were it not for an exclusion.
	ReasonExcluded Reason = "Excluded"
	// ReasonClosed: nothing is open.
	ReasonClosed Reason = "Closed"
	// ReasonNoWindow: there are windows, but none of them is for the cluster.
	ReasonNoWindow Reason = "NoWindow"
)

// Verdict is the answer to a Question.
type Verdict struct {
	Allowed bool   `json:"allowed"`
	Reason  Reason `json:"reason"`
	// Until is when the windows close, if it is allowed; nil: there is no end in sight.
	Until *time.Time `json:"until"`
	// LastStart and Ends are the cutoff and the end of what is open now, whether it is allowed or not, or until when that is known; nil: nothing is.
	LastStart, Ends *time.Time `json:"-"`
	// NextOpen is when it will be allowed, if it is not; nil: no such time is in sight.
	NextOpen *time.Time `json:"nextOpen"`
	// Window is the name of the one that is open until then, or opens next; empty: none.
	Window string `json:"-"`
}

// How far an answer looks ahead: at first, and at most.
const (
	firstLook   = 24 * time.Hour
	longestLook = 10 * 366 * 24 * time.Hour
)

// Allows answers whether something may start now: in a stretch of time that the windows leave open together, outside of all their
// exclusions, before its cutoff and so that it fits before its end. At the end itself nothing starts. Without windows everything may; with
// windows of which none selects the cluster nothing may. It returns ErrInvalidRange, and ErrTooMany.
func Allows(windows []*Window, q Question) (Verdict, error) {
	if err := checkYear(q.Now); err != nil {
		return Verdict{}, fmt.Errorf("%w: %s: %w", ErrInvalidRange, instant(q.Now), err)
	}
	if len(windows) == 0 {
		return Verdict{Allowed: true, Reason: ReasonOpen}, nil
	}
	selected := slices.DeleteFunc(slices.Clone(windows), func(w *Window) bool { return q.Cluster != nil && !w.selector.Matches(q.Cluster) })
	if len(selected) == 0 {
		return Verdict{Reason: ReasonNoWindow}, nil
	}
	var verdict Verdict
	for look := firstLook; ; look *= 2 {
		until := q.Now.Add(look)
		outlooks, err := outlooksOf(selected, q.Now, until)
		if errors.Is(err, ErrTooMany) && look > firstLook {
			return verdict, nil // What was seen before it got too much.
		}
		if err != nil {
			return Verdict{}, err
		}
		further, settled := q.answer(outlooks, until)
		if settled || look > longestLook {
			return further, nil
		}
		verdict = further
	}
}

func outlooksOf(windows []*Window, from, until time.Time) ([]Outlook, error) {
	var outlooks []Outlook
	for _, w := range windows {
		outlook, err := w.outlook(from, until)
		if err != nil {
			return nil, err
		}
		outlooks = append(outlooks, outlook)
	}
	return outlooks, nil
}

// answer answers by what is known until a moment. It is not settled if to know more may change it.
func (q Question) answer(outlooks []Outlook, until time.Time) (verdict Verdict, settled bool) {
	stretches, scheduled := together(outlooks, q.Now, until)
	verdict.Reason = ReasonClosed
	if scheduled {
		verdict.Reason = ReasonExcluded
	}
	for _, s := range stretches {
		inSight, openNow := s.end.Before(until), s.start.Equal(q.Now)
		reason := q.reasonIn(s)
		if openNow {
			verdict.Reason, verdict.LastStart, verdict.Ends = reason, utc(earlier(s.cutoffAt(), s.end)), utc(s.end)
		}
		switch {
		case reason == ReasonOpen && openNow:
			if verdict.Allowed, verdict.Window = true, s.lastWindow; inSight {
				verdict.Until = verdict.Ends
			}
			return verdict, inSight
		case reason == ReasonOpen:
			verdict.NextOpen, verdict.Window = utc(s.start), s.firstWindow
			return verdict, inSight
		case !inSight:
			return verdict, false
		}
	}
	return verdict, false
}

// reasonIn says whether it may start when a stretch does.
func (q Question) reasonIn(s stretch) Reason {
	switch {
	case !s.start.Before(s.cutoffAt()):
		return ReasonCutoff
	case s.start.Add(q.Need).After(s.end):
		return ReasonDoesNotFit
	}
	return ReasonOpen
}

func utc(t time.Time) *time.Time {
	t = t.UTC()
	return &t
}

// stretch is a time without a gap in which some window is open.
type stretch struct {
	start, end              time.Time
	firstWindow, lastWindow string
	// last is when the window closes that closes last, and cutoff how long before that nothing new starts. It is after the end when that is only as far as is seen.
	last   time.Time
	cutoff time.Duration
}

func (s stretch) cutoffAt() time.Time { return s.last.Add(-s.cutoff) }

// together returns the stretches that windows are open together from now until a moment, beyond which nothing is known, and whether without
// exclusions one would be open now. A freeze of one window is for all of them.
func together(outlooks []Outlook, now, until time.Time) (stretches []stretch, scheduled bool) {
	type opening struct {
		Opening
		window string
		last   time.Time
	}
	var openings []opening
	for _, outlook := range outlooks {
		scheduled = scheduled || slices.ContainsFunc(outlook.Scheduled, func(s Span) bool { return !now.Before(s.Start) && now.Before(s.End) })
		for _, o := range outlook.Openings {
			closes := o.End
			o.Start, o.End = later(o.Start, now), earlier(o.End, until)
			if !o.End.After(o.Start) {
				continue
			}
			for _, left := range withoutExclusions(o, outlooks) {
				last := left.End
				if last.Equal(until) {
					last = closes
				}
				openings = append(openings, opening{left, outlook.Name, last})
			}
		}
	}
	slices.SortStableFunc(openings, func(a, b opening) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	for _, o := range openings {
		last := len(stretches) - 1
		switch {
		case last < 0 || stretches[last].end.Before(o.Start):
			stretches = append(stretches, stretch{o.Start, o.End, o.window, o.window, o.last, o.Cutoff})
		case stretches[last].last.Before(o.last):
			stretches[last].end, stretches[last].lastWindow, stretches[last].last, stretches[last].cutoff = o.End, o.window, o.last, o.Cutoff
		case stretches[last].last.Equal(o.last):
			stretches[last].cutoff = max(stretches[last].cutoff, o.Cutoff)
		}
	}
	return stretches, scheduled
}

// withoutExclusions returns what the exclusions of all windows leave of an opening of one.
func withoutExclusions(o Opening, outlooks []Outlook) []Opening {
	left := []Opening{o}
	if o.Forced {
		return left
	}
	for _, outlook := range outlooks {
		for _, excluded := range outlook.excludedIn(o) {
			left = subtractSpan(left, excluded)
		}
	}
	return left
}

func subtractSpan(from []Opening, taken Span) []Opening {
	var left []Opening
	for _, o := range from {
		before, after := o, o
		before.End, after.Start = earlier(o.End, taken.Start), later(o.Start, taken.End)
		for _, part := range []Opening{before, after} {
			if part.End.After(part.Start) {
				left = append(left, part)
			}
		}
	}
	return left
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
