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
	// Cutoff is how long before its end nothing new starts any more.
	Cutoff time.Duration `json:"cutoff,omitempty"`
	// Forced: somebody has ordered it, and exclusions take nothing from it.
	Forced bool `json:"forced,omitempty"`
	// Begun: the window has opened.
	Begun bool `json:"begun,omitempty"`
	// Confirmed: it opens at Start unless something else is told, and then need not say so.
	Confirmed bool `json:"confirmed,omitempty"`
}

// CutoffAt is from when on nothing new starts.
func (o Opening) CutoffAt() time.Time { return o.End.Add(-o.Cutoff) }

// Span is a time from Start to just before End.
type Span struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Outlook is what is known of a window for some time ahead, in moments: to read it takes neither a calendar nor the clocks of a zone.
type Outlook struct {
	// Name of the window.
	Name string `json:"name"`
	// Openings, in their order; no two overlap.
	Openings []Opening `json:"openings,omitempty"`
	// Scheduled is when it would be open without exclusions; Excluded is when those apply, to other windows for the same clusters, too.
	Scheduled []Span `json:"scheduled,omitempty"`
	Excluded  []Span `json:"excluded,omitempty"`
	// Until is from when on nothing is known. Last: there are no openings but those listed.
	Until time.Time `json:"until"`
	Last  bool      `json:"last,omitempty"`
	// NoMore: there are no openings but those listed, though of exclusions no more is known than that.
	NoMore bool `json:"noMore,omitempty"`
	// Later are openings from Until on, of which word is sent early: see word.go. Again is when the calendar must be read once more for them, before Until;
	// the zero time: it need not. Those that follow the window are told of neither.
	Later []Opening `json:"later,omitempty"`
	Again time.Time `json:"again,omitzero"`
}

const (
	// firstForesight is how far an outlook reaches at least, where it is not cut short because too much happens.
	firstForesight = 8 * 24 * time.Hour
	// openingsWanted are how many it has at least, if there are that many: those that people may want to cancel by now.
	openingsWanted = 6
	// openingsForeseen and spansForeseen are how many it has at most: it is told to everybody who follows the window.
	openingsForeseen = 50
	spansForeseen    = 100
)

// Outlook returns what is ahead of the window from a moment on: its next six openings at least, if there are that many within ten years. It returns
// ErrInvalidRange, and ErrTooMany.
func (w *Window) Outlook(from time.Time) (Outlook, error) {
	if err := checkYear(from); err != nil {
		return Outlook{}, fmt.Errorf("%w: %s: %w", ErrInvalidRange, instant(from), err)
	}
	var seen Outlook
	for look := firstForesight; ; look *= 2 {
		further, err := w.outlook(from, from.Add(look))
		if errors.Is(err, ErrTooMany) && look > firstForesight {
			break
		}
		if err != nil {
			return Outlook{}, err
		}
		seen = further
		if seen.Last = look > longestLook; seen.Last || len(seen.Openings) >= openingsWanted {
			break
		}
	}
	return w.furtherForWord(seen.short(), from), nil
}

// outlook returns what is known of a stretch of time, all of it.
func (w *Window) outlook(from, until time.Time) (Outlook, error) {
	seen, err := w.see(from, until)
	if err != nil {
		return Outlook{}, err
	}
	outlook := Outlook{Name: w.name, Until: until}
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

// short cuts an outlook off where it gets too long to be told.
func (o Outlook) short() Outlook {
	last, all := o.Last, len(o.Openings)
	if len(o.Openings) > openingsForeseen {
		o.Until, o.Last = earlier(o.Until, o.Openings[openingsForeseen].Start), false
	}
	for _, spans := range [][]Span{o.Scheduled, o.Excluded} {
		if len(spans) > spansForeseen {
			o.Until, o.Last = earlier(o.Until, spans[spansForeseen].Start), false
		}
	}
	beyond := func(s Span) bool { return !s.Start.Before(o.Until) }
	o.Openings = slices.DeleteFunc(slices.Clone(o.Openings), func(opening Opening) bool { return !opening.Start.Before(o.Until) })
	o.Scheduled = slices.DeleteFunc(slices.Clone(o.Scheduled), beyond)
	o.Excluded = slices.DeleteFunc(slices.Clone(o.Excluded), beyond)
	o.NoMore = last && !o.Last && len(o.Openings) == all
	return o
}

// union puts spans in order, and makes one of those that overlap or touch.
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
func (o Outlook) excludedIn(opening Opening) []Span {
	first := sort.Search(len(o.Excluded), func(i int) bool { return o.Excluded[i].End.After(opening.Start) })
	count := sort.Search(len(o.Excluded)-first, func(i int) bool { return !o.Excluded[first+i].Start.Before(opening.End) })
	return o.Excluded[first : first+count]
}

// excludes reports whether the exclusions exclude all that others take from an opening.
func (o Outlook) excludes(opening Opening, others []Span) bool {
	for _, other := range others {
		start, end := later(other.Start, opening.Start), earlier(other.End, opening.End)
		if !slices.ContainsFunc(o.Excluded, func(s Span) bool { return !s.Start.After(start) && !s.End.Before(end) }) {
			return false
		}
	}
	return true
}
