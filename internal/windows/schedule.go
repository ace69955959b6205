package windows

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// Opening is a time in which a window is open, from Start to just before End.
type Opening struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Cutoff is how long before its end no new work starts.
	Cutoff time.Duration `json:"cutoff,omitempty"`
	// Forced: a person ordered it, and exclusions do not apply to it.
	Forced bool `json:"forced,omitempty"`
	// Begun: the window has recorded its start.
	Begun bool `json:"begun,omitempty"`
	// Confirmed: it starts at Start without further notice, unless subscribers are told otherwise.
	Confirmed bool `json:"confirmed,omitempty"`
}

// CutoffAt is the moment from which no new work starts.
func (o Opening) CutoffAt() time.Time { return o.End.Add(-o.Cutoff) }

// Span is a time from Start to just before End.
type Span struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Schedule lists the upcoming openings of a window as moments: its readers need neither the calendar nor a time zone.
type Schedule struct {
	// Name of the window.
	Name string `json:"name"`
	// Openings in order of time; no two overlap.
	Openings []Opening `json:"openings,omitempty"`
	// Scheduled is when the window would be open without exclusions; Excluded is when those apply. They also apply to other windows of the same
	// clusters.
	Scheduled []Span `json:"scheduled,omitempty"`
	Excluded  []Span `json:"excluded,omitempty"`
	// Until is how far openings and exclusions are known. Last: there are no openings but those listed.
	Until time.Time `json:"until"`
	Last  bool      `json:"last,omitempty"`
	// NoMore: there are no openings but those listed; exclusions are known up to Until only.
	NoMore bool `json:"noMore,omitempty"`
	// Later are openings after Until that need notifications before then, see notifications.go. Again is when the calendar must be read again for them, before
	// Until; the zero time: at Until. Subscribers receive neither.
	Later []Opening `json:"later,omitempty"`
	Again time.Time `json:"again,omitzero"`
}

const (
	// shortestSchedule is how far ahead openings are listed at least, unless there are too many.
	shortestSchedule = 8 * 24 * time.Hour
	// openingsWanted is how many openings are listed at least, if there are that many, so that people can cancel them in advance.
	openingsWanted = 6
	// openingsListed and spansListed are how many are listed at most: every subscriber receives them.
	openingsListed = 50
	spansListed    = 100
)

// Schedule returns the upcoming openings of the window from a moment on: the next six at least, if there are that many within ten years. It returns
// ErrInvalidRange and ErrTooMany.
func (w *Window) Schedule(from time.Time) (Schedule, error) {
	if err := checkYear(from); err != nil {
		return Schedule{}, fmt.Errorf("%w: %s: %w", ErrInvalidRange, instant(from), err)
	}
	var seen Schedule
	for look := shortestSchedule; ; look *= 2 {
		further, err := w.schedule(from, from.Add(look))
		if errors.Is(err, ErrTooMany) && look > shortestSchedule {
			break
		}
		if err != nil {
			return Schedule{}, err
		}
		seen = further
		if seen.Last = look > longestLook; seen.Last || len(seen.Openings) >= openingsWanted {
			break
		}
	}
	return w.addLater(seen.short(), from), nil
}

// schedule returns all the openings and exclusions in a stretch of time.
func (w *Window) schedule(from, until time.Time) (Schedule, error) {
	seen, err := w.see(from, until)
	if err != nil {
		return Schedule{}, err
	}
	outlook := Schedule{Name: w.name, Until: until}
	for _, o := range seen.open {
		if overlap(o, from, until) {
			outlook.Openings = append(outlook.Openings, Opening{Start: o.Start, End: o.End, Cutoff: w.cutoff})
		}
	}
	for _, o := range seen.scheduled {
		outlook.Scheduled = append(outlook.Scheduled, Span{o.Start, o.End})
	}
	for _, occurrences := range seen.excluded {
		for _, o := range occurrences {
			outlook.Excluded = append(outlook.Excluded, Span{o.Start, o.End})
		}
	}
	outlook.Excluded = union(outlook.Excluded)
	return outlook, nil
}

// short limits the list to what subscribers receive.
func (o Schedule) short() Schedule {
	last, all := o.Last, len(o.Openings)
	if len(o.Openings) > openingsListed {
		o.Until, o.Last = earlier(o.Until, o.Openings[openingsListed].Start), false
	}
	for _, spans := range [][]Span{o.Scheduled, o.Excluded} {
		if len(spans) > spansListed {
			o.Until, o.Last = earlier(o.Until, spans[spansListed].Start), false
		}
	}
	beyond := func(s Span) bool { return !s.Start.Before(o.Until) }
	o.Openings = slices.DeleteFunc(slices.Clone(o.Openings), func(opening Opening) bool { return !opening.Start.Before(o.Until) })
	o.Scheduled = slices.DeleteFunc(slices.Clone(o.Scheduled), beyond)
	o.Excluded = slices.DeleteFunc(slices.Clone(o.Excluded), beyond)
	o.NoMore = last && !o.Last && len(o.Openings) == all
	return o
}

// union sorts spans and merges those that overlap or touch.
func union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	var united []Span
	for _, s := range spans {
		last := len(united) - 1
		if last < 0 || united[last].End.Before(s.Start) {
			united = append(united, s)
		} else {
			united[last].End = later(united[last].End, s.End)
		}
	}
	return united
}

// excludedIn returns the exclusions that overlap an opening.
func (o Schedule) excludedIn(opening Opening) []Span {
	first := sort.Search(len(o.Excluded), func(i int) bool { return o.Excluded[i].End.After(opening.Start) })
	count := sort.Search(len(o.Excluded)-first, func(i int) bool { return !o.Excluded[first+i].Start.Before(opening.End) })
	return o.Excluded[first : first+count]
}

// excludes reports whether the exclusions already cover all that others take from an opening.
func (o Schedule) excludes(opening Opening, others []Span) bool {
	for _, other := range others {
		start, end := later(other.Start, opening.Start), earlier(other.End, opening.End)
		if !slices.ContainsFunc(o.Excluded, func(s Span) bool { return !s.Start.After(start) && !s.End.Before(end) }) {
			return false
		}
	}
	return true
}
