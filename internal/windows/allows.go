package windows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Question asks whether work may start.
type Question struct {
	// Now is the time at which the work would start.
	Now time.Time
	// Need is how long the work takes; it must finish before the windows close. 0: unknown.
	Need time.Duration
	// Cluster has the labels of the cluster that the work is for; nil: no particular cluster, so every window applies.
	Cluster labels.Labels
}

// Reason is why work may start, or may not.
type Reason string

// The reasons.
const (
	// ReasonOpen: work may start.
	ReasonOpen Reason = "Open"
	// ReasonCutoff: a window is open, but past its cutoff.
	ReasonCutoff Reason = "Cutoff"
	// ReasonDoesNotFit: a window is open, but closes before the work finishes.
	ReasonDoesNotFit Reason = "DoesNotFit"
	// ReasonExcluded: a window is closed only because of an exclusion.
	ReasonExcluded Reason = "Excluded"
	// ReasonClosed: no window is open.
	ReasonClosed Reason = "Closed"
	// ReasonNoWindow: windows exist, but none of them selects the cluster.
	ReasonNoWindow Reason = "NoWindow"
)

// Verdict is the answer to a Question.
type Verdict struct {
	Allowed bool   `json:"allowed"`
	Reason  Reason `json:"reason"`
	// Until is when the windows close, if the work may start; nil: no end is known.
	Until *time.Time `json:"until"`
	// LastStart and Ends are the cutoff and the end of the current opening, or how far the answer can tell, whether the work may start or not; nil:
	// no window is open.
	LastStart, Ends *time.Time `json:"-"`
	// NextOpen is when the work may start, if it may not start now; nil: no such time is known.
	NextOpen *time.Time `json:"nextOpen"`
	// Window is the name of the window that is open until then, or that opens next; empty: none.
	Window string `json:"-"`
}

// The answer looks ahead this far: at first, and at most.
const (
	firstLook   = 24 * time.Hour
	longestLook = 10 * 366 * 24 * time.Hour
)

// Allows answers whether work may start now. It may start while the windows together are open, outside of all their exclusions, before the cutoff,
// and if it fits before the end. At the end itself nothing starts. Without windows everything may start; if windows exist and none selects the
// cluster, nothing may. Allows returns ErrInvalidRange and ErrTooMany.
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
		outlooks, err := schedulesOf(selected, q.Now, until)
		if errors.Is(err, ErrTooMany) && look > firstLook {
			return verdict, nil // What was seen before there were too many occurrences.
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

func schedulesOf(windows []*Window, from, until time.Time) ([]Schedule, error) {
	var outlooks []Schedule
	for _, w := range windows {
		outlook, err := w.schedule(from, until)
		if err != nil {
			return nil, err
		}
		outlooks = append(outlooks, outlook)
	}
	return outlooks, nil
}

// answer answers with the occurrences known up to a moment. The answer is not settled if more knowledge could change it.
func (q Question) answer(outlooks []Schedule, until time.Time) (verdict Verdict, settled bool) {
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

// reasonIn returns whether work may start, and why, for a stretch of open time.
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

// stretch is a time without a gap in which at least one window is open.
type stretch struct {
	start, end              time.Time
	firstWindow, lastWindow string
	// last is the end of the window that closes last; cutoff is how long before that end no new work starts. last is after end when end is only as
	// far as occurrences are known.
	last   time.Time
	cutoff time.Duration
}

func (s stretch) cutoffAt() time.Time { return s.last.Add(-s.cutoff) }

// together returns the stretches of time in which windows are open from now until a moment, and whether a window would be open now without
// exclusions. An exclusion of one window applies to all windows.
func together(outlooks []Schedule, now, until time.Time) (stretches []stretch, scheduled bool) {
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

// withoutExclusions subtracts the exclusions of all windows from an opening of one.
func withoutExclusions(o Opening, outlooks []Schedule) []Opening {
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
