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

// Window is a parsed MaintenanceWindow.
type Window struct {
	name                string
	calendar            *calendar
	exclusions          []exclusion
	notBefore, notAfter *time.Time
	cutoff              time.Duration
	selector            labels.Selector
	// longestLead is the longest lead of a notification; 0: there is none.
	longestLead time.Duration
}

// exclusion is one exclusion of a window.
type exclusion struct {
	name     string
	calendar *calendar
	effect   drydockv1.ExclusionEffect
}

// Name returns namespace/name, or only the name without a namespace.
func (w *Window) Name() string { return w.name }

// Preview lists the occurrences of a window in a range.
type Preview struct {
	// Occurrences that start in the range, in order. No two overlap.
	Occurrences []Occurrence `json:"occurrences"`
	// Dropped are occurrences that would start in the range but do not take place.
	Dropped []Dropped `json:"dropped"`
}

// ErrInvalidRange: the range is empty, or outside of the years that windows support.
var ErrInvalidRange = errors.New("invalid range")

// Preview returns the occurrences in a range. The previews of two adjacent ranges add up to that of both. It returns ErrInvalidRange and ErrTooMany.
func (w *Window) Preview(from, to time.Time) (Preview, error) {
	if !to.After(from) {
		return Preview{}, fmt.Errorf("%w: %s is not after %s", ErrInvalidRange, instant(to), instant(from))
	}
	if err := errors.Join(checkYear(from), checkYear(to)); err != nil {
		return Preview{}, fmt.Errorf("%w: %w", ErrInvalidRange, err)
	}
	expanded, err := w.expand(from, to)
	if err != nil {
		return Preview{}, err
	}
	preview := Preview{Occurrences: []Occurrence{}, Dropped: append([]Dropped{}, expanded.dropped...)}
	for _, o := range expanded.open {
		if !o.Start.Before(from) && o.Start.Before(to) {
			preview.Occurrences = append(preview.Occurrences, o)
		}
	}
	slices.SortStableFunc(preview.Dropped, func(a, b Dropped) int { return a.Start.Compare(b.Start) })
	return preview, nil
}

// occurrences has the occurrences of a window and of its exclusions in a range.
type occurrences struct {
	// scheduled are the occurrences without exclusions, open the remaining ones. They overlap the range and are not cut at its ends.
	scheduled, open []Occurrence
	// dropped would start in the range.
	dropped []Dropped
	// excluded has the occurrences of each exclusion.
	excluded [][]Occurrence
}

// expand evaluates the calendars in a range.
func (w *Window) expand(from, to time.Time) (occurrences, error) {
	scheduled, dropped, err := w.calendar.overlapping(from, to)
	if err != nil {
		return occurrences{}, fmt.Errorf("window %s: %w", w.name, err)
	}
	expanded := occurrences{scheduled: w.bounded(scheduled), dropped: dropped}
	first, last := from, to
	for _, o := range expanded.scheduled {
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
			return occurrences{}, fmt.Errorf("exclusion %s of window %s: %w", e.name, w.name, err)
		}
		expanded.excluded = append(expanded.excluded, excluded)
	}
	for _, o := range expanded.scheduled {
		left, by := w.exclude(o, expanded.excluded)
		if len(left) == 0 && !o.Start.Before(from) && o.Start.Before(to) {
			expanded.dropped = append(expanded.dropped, Dropped{Start: o.Start, Reason: DropExcluded, Note: by})
		}
		expanded.open = append(expanded.open, left...)
	}
	return expanded, nil
}

// bounded cuts occurrences at notBefore and notAfter.
func (w *Window) bounded(occurrences []Occurrence) []Occurrence {
	var within []Occurrence
	for _, o := range occurrences {
		if w.notBefore != nil && o.Start.Before(*w.notBefore) {
			o = startingAt(o, *w.notBefore, "not before the calendar begins")
		}
		if w.notAfter != nil && o.End.After(*w.notAfter) {
			o.End, o.Note = w.notAfter.UTC(), joinNotes(o.Note, "not after the calendar ends")
		}
		if o.End.After(o.Start) {
			within = append(within, o)
		}
	}
	return within
}

func startingAt(o Occurrence, start time.Time, note string) Occurrence {
	return Occurrence{Start: start.UTC(), End: o.End, LocalStart: start.In(o.LocalStart.Location()), Note: joinNotes(o.Note, note)}
}

// exclude returns the remaining parts of an occurrence, and the name of the exclusion if none remains.
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

// touching returns the sorted occurrences that overlap another one.
func touching(ordered []Occurrence, other Occurrence) []Occurrence {
	first := sort.Search(len(ordered), func(i int) bool { return ordered[i].End.After(other.Start) })
	count := sort.Search(len(ordered)-first, func(i int) bool { return !ordered[first+i].Start.Before(other.End) })
	return ordered[first : first+count]
}

// subtract removes the time of one occurrence from others.
func subtract(from []Occurrence, removed Occurrence, note string) []Occurrence {
	var left []Occurrence
	for _, o := range from {
		if !overlap(o, removed.Start, removed.End) {
			left = append(left, o)
			continue
		}
		if o.Start.Before(removed.Start) {
			before := o
			before.End, before.Note = removed.Start, joinNotes(o.Note, note)
			left = append(left, before)
		}
		if removed.End.Before(o.End) {
			left = append(left, startingAt(o, removed.End, note))
		}
	}
	return left
}
