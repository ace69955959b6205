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
	// Cutoff is the time before its end in which no new work starts.
	Cutoff time.Duration `json:"cutoff,omitempty"`
	// Forced: a person extended it into an exclusion. Exclusions do not apply to it.
	Forced bool `json:"forced,omitempty"`
	// Begun: the window has recorded its start.
	Begun bool `json:"begun,omitempty"`
	// Confirmed: it starts at Start unless subscribers receive another update.
	Confirmed bool `json:"confirmed,omitempty"`
}

// CutoffAt is the moment from which no new work starts.
func (o Opening) CutoffAt() time.Time { return o.End.Add(-o.Cutoff) }

// Span is a time from Start to just before End.
type Span struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Schedule lists the upcoming openings of a window as moments, so that readers need neither the calendar nor a time zone.
type Schedule struct {
	// Name of the window.
	Name string `json:"name"`
	// Openings in order of time; no two overlap.
	Openings []Opening `json:"openings,omitempty"`
	// Scheduled is when the window would be open without exclusions. Excluded is when exclusions apply, also to other windows of the same clusters.
	Scheduled []Span `json:"scheduled,omitempty"`
	Excluded  []Span `json:"excluded,omitempty"`
	// Until is the time up to which openings and exclusions are known. Last: there are no further openings or exclusions.
	Until time.Time `json:"until"`
	Last  bool      `json:"last,omitempty"`
	// NoMore: there are no further openings, but exclusions are known only up to Until.
	NoMore bool `json:"noMore,omitempty"`
	// Later are openings after Until whose notifications are due earlier; see notifications.go. For them, the calendar must be read again at Again; zero:
	// at Until. Subscribers receive neither.
	Later []Opening `json:"later,omitempty"`
	Again time.Time `json:"again,omitzero"`
}

const (
	// minSchedule is the minimum range of a schedule, unless it has too many openings.
	minSchedule = 8 * 24 * time.Hour
	// minOpenings is the minimum number of openings if there are that many, so that people can cancel them in advance.
	minOpenings = 6
	// maxOpenings and maxSpans limit the lists, because every subscriber receives them.
	maxOpenings = 50
	maxSpans    = 100
)

// Schedule returns the upcoming openings of the window from a moment on: at least the next six, if there are that many within ten years. It returns
// ErrInvalidRange and ErrTooMany.
func (w *Window) Schedule(from time.Time) (Schedule, error) {
	if err := checkYear(from); err != nil {
		return Schedule{}, fmt.Errorf("%w: %s: %w", ErrInvalidRange, instant(from), err)
	}
	var found Schedule
	for lookahead := minSchedule; ; lookahead *= 2 {
		further, err := w.schedule(from, from.Add(lookahead))
		if errors.Is(err, ErrTooMany) && lookahead > minSchedule {
			break
		}
		if err != nil {
			return Schedule{}, err
		}
		found = further
		if found.Last = lookahead > maxRange; found.Last || len(found.Openings) >= minOpenings {
			break
		}
	}
	return w.addLater(found.short(), from), nil
}

// schedule returns all openings and exclusions in a range.
func (w *Window) schedule(from, until time.Time) (Schedule, error) {
	found, err := w.expand(from, until)
	if err != nil {
		return Schedule{}, err
	}
	schedule := Schedule{Name: w.name, Until: until}
	for _, o := range found.open {
		if overlap(o, from, until) {
			schedule.Openings = append(schedule.Openings, Opening{Start: o.Start, End: o.End, Cutoff: w.cutoff})
		}
	}
	for _, o := range found.scheduled {
		schedule.Scheduled = append(schedule.Scheduled, Span{o.Start, o.End})
	}
	for _, occurrences := range found.excluded {
		for _, o := range occurrences {
			schedule.Excluded = append(schedule.Excluded, Span{o.Start, o.End})
		}
	}
	schedule.Excluded = union(schedule.Excluded)
	return schedule, nil
}

// short limits the schedule to the size for subscribers.
func (o Schedule) short() Schedule {
	last, all := o.Last, len(o.Openings)
	if len(o.Openings) > maxOpenings {
		o.Until, o.Last = earlier(o.Until, o.Openings[maxOpenings].Start), false
	}
	for _, spans := range [][]Span{o.Scheduled, o.Excluded} {
		if len(spans) > maxSpans {
			o.Until, o.Last = earlier(o.Until, spans[maxSpans].Start), false
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

// excludedAt returns the exclusion that applies at a moment; nil: none.
func (o Schedule) excludedAt(now time.Time) *Span {
	i := slices.IndexFunc(o.Excluded, func(s Span) bool { return !now.Before(s.Start) && now.Before(s.End) })
	if i < 0 {
		return nil
	}
	return &o.Excluded[i]
}

// knows reports whether the schedule has all openings of that time.
func (o Schedule) knows(opening Opening) bool {
	return o.Last || o.NoMore || opening.Start.Before(o.Until)
}

// excludes reports whether the exclusions already cover the parts of an opening that others cover.
func (o Schedule) excludes(opening Opening, others []Span) bool {
	for _, other := range others {
		start, end := later(other.Start, opening.Start), earlier(other.End, opening.End)
		if !slices.ContainsFunc(o.Excluded, func(s Span) bool { return !s.Start.After(start) && !s.End.Before(end) }) {
			return false
		}
	}
	return true
}
