package windows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Question is the input of Allows.
type Question struct {
	// Now is the time at which the work would start.
	Now time.Time
	// Need is the duration of the work, which must finish before the windows close. 0: unknown.
	Need time.Duration
	// Cluster has the labels of the cluster of the work; nil: every window applies.
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
	// LastStart and Ends are the known cutoff and end of the current opening, whether the work may start or not; nil: no window is open.
	LastStart, Ends *time.Time `json:"-"`
	// NextOpen is when the work may start if it may not start now; nil: no such time is known.
	NextOpen *time.Time `json:"nextOpen"`
	// Window is the name of the open window that closes last, or of the one that opens next; empty: none.
	Window string `json:"-"`
}

// Allows evaluates at least minRange and at most maxRange from now.
const (
	minRange = 24 * time.Hour
	maxRange = 10 * 366 * 24 * time.Hour
)

// Allows answers whether work may start now. It may start if a window is open, no exclusion applies, the cutoff has not passed, and the work fits
// before the end. At the end itself no work starts. Without windows, all work may start. If windows exist and none selects the cluster, no work may
// start. Allows returns ErrInvalidRange and ErrTooMany.
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
	for lookahead := minRange; ; lookahead *= 2 {
		until := q.Now.Add(lookahead)
		schedules, err := schedulesOf(selected, q.Now, until)
		if errors.Is(err, ErrTooMany) && lookahead > minRange {
			return verdict, nil // of a shorter range without too many occurrences
		}
		if err != nil {
			return Verdict{}, err
		}
		further, settled := q.answer(schedules, until)
		if settled || lookahead > maxRange {
			return further, nil
		}
		verdict = further
	}
}

func schedulesOf(windows []*Window, from, until time.Time) ([]Schedule, error) {
	var schedules []Schedule
	for _, w := range windows {
		schedule, err := w.schedule(from, until)
		if err != nil {
			return nil, err
		}
		schedules = append(schedules, schedule)
	}
	return schedules, nil
}

// answer answers with the schedules up to a moment. The answer is settled if a longer range cannot change it.
func (q Question) answer(schedules []Schedule, until time.Time) (verdict Verdict, settled bool) {
	stretches, scheduled := openStretches(schedules, q.Now, until)
	verdict.Reason = ReasonClosed
	if scheduled {
		verdict.Reason = ReasonExcluded
	}
	for _, s := range stretches {
		endKnown, openNow := s.end.Before(until), s.start.Equal(q.Now)
		reason := q.reasonIn(s)
		if openNow {
			verdict.Reason, verdict.LastStart, verdict.Ends = reason, utc(earlier(s.cutoffAt(), s.end)), utc(s.end)
		}
		switch {
		case reason == ReasonOpen && openNow:
			if verdict.Allowed, verdict.Window = true, s.lastWindow; endKnown {
				verdict.Until = verdict.Ends
			}
			return verdict, endKnown
		case reason == ReasonOpen:
			verdict.NextOpen, verdict.Window = utc(s.start), s.firstWindow
			return verdict, endKnown
		case !endKnown:
			return verdict, false
		}
	}
	return verdict, false
}

// reasonIn returns the reason why work may start, or may not, in a stretch of open time.
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

// stretch is a contiguous time in which at least one window is open.
type stretch struct {
	start, end              time.Time
	firstWindow, lastWindow string
	// last is the end of the window that closes last. cutoff is the time before it in which no new work starts. If last is after end, occurrences are
	// known only up to end.
	last   time.Time
	cutoff time.Duration
}

func (s stretch) cutoffAt() time.Time { return s.last.Add(-s.cutoff) }

// openStretches returns the stretches from now until a moment in which windows are open, and whether a window would be open now without exclusions. An
// exclusion of one window applies to all windows.
func openStretches(schedules []Schedule, now, until time.Time) (stretches []stretch, scheduled bool) {
	type opening struct {
		Opening
		window string
		last   time.Time
	}
	var openings []opening
	for _, schedule := range schedules {
		scheduled = scheduled || slices.ContainsFunc(schedule.Scheduled, func(s Span) bool { return !now.Before(s.Start) && now.Before(s.End) })
		for _, o := range schedule.Openings {
			closes := o.End
			o.Start, o.End = later(o.Start, now), earlier(o.End, until)
			if !o.End.After(o.Start) {
				continue
			}
			for _, left := range withoutExclusions(o, schedules) {
				last := left.End
				if last.Equal(until) {
					last = closes
				}
				openings = append(openings, opening{left, schedule.Name, last})
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
func withoutExclusions(o Opening, schedules []Schedule) []Opening {
	left := []Opening{o}
	if o.Forced {
		return left
	}
	for _, schedule := range schedules {
		for _, excluded := range schedule.excludedIn(o) {
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
