package windows

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Window is a MaintenanceWindow that has been read and can be asked.
type Window struct {
	name                string
	calendar            *calendar
	exclusions          []exclusion
	notBefore, notAfter *time.Time
	cutoff              time.Duration
	selector            labels.Selector
	// longestLead is how long before a start word of it is sent at the earliest; 0: none is.
	longestLead time.Duration
}

// exclusion is one of a window.
type exclusion struct {
	name     string
	calendar *calendar
	effect   drydockv1.ExclusionEffect
}

// Name names the window to a person: namespace/name, or only the name if it has no namespace.
func (w *Window) Name() string { return w.name }

// Preview is what a window does in a stretch of time.
type Preview struct {
	// Occurrences that start in it, in order; no two overlap.
	Occurrences []Occurrence `json:"occurrences"`
	// Dropped are those that would start in it, but do not take place.
	Dropped []Dropped `json:"dropped"`
}

// ErrInvalidRange says that there is nothing between two moments, or that they lie beyond what calendars are good for.
var ErrInvalidRange = errors.New("invalid range")

// Preview returns what starts between two moments, the second not included: the preview of a range is that of its first part followed by
// that of the rest. It returns ErrInvalidRange, and ErrTooMany.
func (w *Window) Preview(from, to time.Time) (Preview, error) {
	if !to.After(from) {
		return Preview{}, fmt.Errorf("%w: %s is not after %s", ErrInvalidRange, instant(to), instant(from))
	}
	if err := errors.Join(checkYear(from), checkYear(to)); err != nil {
		return Preview{}, fmt.Errorf("%w: %w", ErrInvalidRange, err)
	}
	seen, err := w.see(from, to)
	if err != nil {
		return Preview{}, err
	}
	preview := Preview{Occurrences: []Occurrence{}, Dropped: append([]Dropped{}, seen.dropped...)}
	for _, o := range seen.open {
		if !o.Start.Before(from) && o.Start.Before(to) {
			preview.Occurrences = append(preview.Occurrences, o)
		}
	}
	slices.SortStableFunc(preview.Dropped, func(a, b Dropped) int { return a.Start.Compare(b.Start) })
	return preview, nil
}

// sight is what is seen of a window in a stretch of time.
type sight struct {
	// scheduled is what would be open without exclusions; open is what they leave of it. All is whole, and overlaps the stretch.
	scheduled, open []Occurrence
	// dropped would start in it.
	dropped []Dropped
	// excluded are the times of each exclusion that overlap what is scheduled.
	excluded [][]Occurrence
}

func (w *Window) see(from, to time.Time) (sight, error) {
	scheduled, dropped, err := w.calendar.overlapping(from, to)
	if err != nil {
		return sight{}, fmt.Errorf("window %s: %w", w.name, err)
	}
	seen := sight{scheduled: w.bounded(scheduled), dropped: dropped}
	first, last := from, to
	for _, o := range seen.scheduled {
		if o.Start.Before(first) {
			first = o.Start
		}
		if o.End.After(last) {
			last = o.End
		}
	}
	for _, e := range w.exclusions {
		excluded, _, err := e.calendar.overlapping(first, last)
		if err != nil {
			return sight{}, fmt.Errorf("exclusion %s of window %s: %w", e.name, w.name, err)
		}
		seen.excluded = append(seen.excluded, excluded)
	}
	for _, o := range seen.scheduled {
		left, by := w.exclude(o, seen.excluded)
		if len(left) == 0 && !o.Start.Before(from) && o.Start.Before(to) {
			seen.dropped = append(seen.dropped, Dropped{Start: o.Start, Reason: DropExcluded, Note: by})
		}
		seen.open = append(seen.open, left...)
	}
	return seen, nil
}

// bounded cuts occurrences at notBefore and notAfter.
func (w *Window) bounded(occurrences []Occurrence) []Occurrence {
	var within []Occurrence
	for _, o := range occurrences {
		if w.notBefore != nil && o.Start.Before(*w.notBefore) {
			o = startingAt(o, *w.notBefore, "not before the calendar begins")
		}
		if w.notAfter != nil && o.End.After(*w.notAfter) {
			o.End, o.Note = w.notAfter.UTC(), noted(o.Note, "not after the calendar ends")
		}
		if o.End.After(o.Start) {
			within = append(within, o)
		}
	}
	return within
}

func startingAt(o Occurrence, start time.Time, note string) Occurrence {
	return Occurrence{Start: start.UTC(), End: o.End, LocalStart: start.In(o.LocalStart.Location()), Note: noted(o.Note, note)}
}

// exclude returns what the exclusions leave of an occurrence, and the name of one that leaves nothing.
func (w *Window) exclude(o Occurrence, excluded [][]Occurrence) (left []Occurrence, by string) {
	for i, e := range w.exclusions {
		if e.effect != drydockv1.ExclusionTrim && len(touching(excluded[i], o)) > 0 {
			return nil, e.name
		}
	}
	left = []Occurrence{o}
	for i, e := range w.exclusions {
		for _, excluded := range touching(excluded[i], o) {
			if left = subtract(left, excluded, "trimmed by exclusion "+e.name); len(left) == 0 {
				return nil, e.name
			}
		}
	}
	return left, ""
}

// touching returns those of a calendar's occurrences, which are in order and do not overlap, that overlap another.
func touching(ordered []Occurrence, other Occurrence) []Occurrence {
	first := sort.Search(len(ordered), func(i int) bool { return ordered[i].End.After(other.Start) })
	count := sort.Search(len(ordered)-first, func(i int) bool { return !ordered[first+i].Start.Before(other.End) })
	return ordered[first : first+count]
}

// subtract takes the time of one occurrence from others.
func subtract(from []Occurrence, taken Occurrence, note string) []Occurrence {
	var left []Occurrence
	for _, o := range from {
		if !overlap(o, taken.Start, taken.End) {
			left = append(left, o)
			continue
		}
		if o.Start.Before(taken.Start) {
			before := o
			before.End, before.Note = taken.Start, noted(o.Note, note)
			left = append(left, before)
		}
		if taken.End.Before(o.End) {
			left = append(left, startingAt(o, taken.End, note))
		}
	}
	return left
}
