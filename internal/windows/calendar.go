package windows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// ErrTooMany: a range of time has more occurrences than Drydock evaluates in one call. Use a shorter range.
var ErrTooMany = errors.New("too many occurrences")

// maxOccurrences limits the occurrences of a calendar in one call.
const maxOccurrences = 20_000

// Occurrence is one opening of a window, from Start to just before End.
type Occurrence struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// LocalStart is Start in the window's time zone.
	LocalStart time.Time `json:"localStart"`
	// Note explains an unusual occurrence, for example a daylight saving time change.
	Note string `json:"note"`
}

// DropReason is why an occurrence does not take place.
type DropReason string

// The reasons.
const (
	// DropZeroLength: a daylight saving time change leaves it no length.
	DropZeroLength DropReason = "ZeroLength"
	// DropInGap: daylight saving time skips its start, and onGap is Drop.
	DropInGap DropReason = "InGap"
	// DropExcluded: an exclusion drops it, or trims it to nothing.
	DropExcluded DropReason = "Excluded"
)

// Dropped is an occurrence that does not take place.
type Dropped struct {
	Start  time.Time  `json:"start"`
	Reason DropReason `json:"reason"`
	// Note is the name of the exclusion.
	Note string `json:"-"`
}

// calendar has the occurrences of a window or of an exclusion. It does not apply exclusions.
type calendar struct {
	zone       *time.Location
	gap        drydockv1.GapRule
	repeat     drydockv1.RepeatRule
	recurrence recurrence
	// exceptedClocks and exceptedStarts have the excepted starts, as Unix seconds of local times and of moments.
	exceptedClocks, exceptedStarts map[int64]bool
	// once is the only occurrence of a calendar without recurrence.
	once *Occurrence
	// duration of each occurrence; 0: it lasts until endTime, a time of day.
	duration, endTime time.Duration
}

// start returns the moment of a start; false: it does not exist that day.
func (c *calendar) start(clocks *clocks, p point) (start time.Time, note string, exists bool) {
	if p.moment {
		return p.time, "", true
	}
	return clocks.resolve(p.time).start(p.time, c.zone, c.gap, c.repeat)
}

// end returns the end of an occurrence, which may be before its start.
func (c *calendar) end(clocks *clocks, start, clock time.Time) time.Time {
	if c.duration > 0 {
		return start.Add(c.duration)
	}
	end := midnight(clock).Add(c.endTime)
	if !end.After(clock) {
		end = end.AddDate(0, 0, 1)
	}
	return clocks.resolve(end).endAfter(start)
}

// longest returns an upper bound of the length of an occurrence.
func (c *calendar) longest() time.Duration {
	if c.duration > 0 {
		return c.duration
	}
	return 24*time.Hour + 2*maxZoneShift
}

// starting returns the occurrences that start in a range, and the dropped ones, each in order of time. They may overlap. It returns ErrTooMany.
func (c *calendar) starting(from, to time.Time) ([]Occurrence, []Dropped, error) {
	if c.once != nil {
		if c.once.Start.Before(from) || !c.once.Start.Before(to) {
			return nil, nil, nil
		}
		return []Occurrence{*c.once}, nil, nil
	}
	found := collector{clocks: newClocks(c.zone)}
	add := func(p point) error { return found.add(c, p, from, to) }
	if rule := c.recurrence.rule; rule != nil {
		for clock := range rule.clocks(localTime(from, c.zone).Add(-maxZoneShift), localTime(to, c.zone).Add(maxZoneShift)) {
			if err := add(point{time: clock}); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, date := range c.recurrence.dates {
		if err := add(date); err != nil {
			return nil, nil, err
		}
	}
	return found.sorted()
}

// collector collects the occurrences of a calendar.
type collector struct {
	clocks      *clocks
	occurrences []Occurrence
	dropped     []Dropped
	count       int
}

// add adds the occurrence with a start, unless the start is excepted or outside of the range.
func (g *collector) add(c *calendar, p point, from, to time.Time) error {
	if g.count++; g.count > maxOccurrences {
		return fmt.Errorf("%w: more than %d around %s", ErrTooMany, maxOccurrences, instant(from))
	}
	start, note, exists := c.start(g.clocks, p)
	clock := p.clock(c.zone)
	until := (*point)(nil)
	if c.recurrence.rule != nil {
		until = c.recurrence.rule.until
	}
	switch {
	case start.Before(from), !start.Before(to), c.exceptedClocks[clock.Unix()], c.exceptedStarts[start.Unix()],
		until != nil && until.moment && !p.moment && start.After(until.time):
		return nil
	case !exists:
		g.dropped = append(g.dropped, Dropped{Start: start.UTC(), Reason: DropInGap})
		return nil
	}
	end := c.end(g.clocks, start, clock)
	if !end.After(start) {
		g.dropped = append(g.dropped, Dropped{Start: start.UTC(), Reason: DropZeroLength})
		return nil
	}
	g.occurrences = append(g.occurrences, Occurrence{Start: start.UTC(), End: end.UTC(), LocalStart: start.In(c.zone), Note: note})
	return nil
}

// sorted returns all occurrences in order of time. Of several occurrences with the same start it keeps the longest, and prefers one without a note: a moved
// start may be equal to another.
func (g *collector) sorted() ([]Occurrence, []Dropped, error) {
	slices.SortStableFunc(g.occurrences, func(a, b Occurrence) int {
		return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End), cmp.Compare(a.Note, b.Note))
	})
	slices.SortStableFunc(g.dropped, func(a, b Dropped) int { return a.Start.Compare(b.Start) })
	return slices.CompactFunc(g.occurrences, func(a, b Occurrence) bool { return a.Start.Equal(b.Start) }), g.dropped, nil
}

// overlapping returns the occurrences that overlap a range, in order and uncut, and the dropped ones that would start in it. No two overlap: an occurrence
// ends at the latest when the next one starts.
func (c *calendar) overlapping(from, to time.Time) ([]Occurrence, []Dropped, error) {
	if c.once != nil {
		if overlap(*c.once, from, to) {
			return []Occurrence{*c.once}, nil, nil
		}
		return nil, nil, nil
	}
	occurrences, dropped, err := c.starting(from.Add(-c.longest()), to.Add(c.longest()))
	if err != nil {
		return nil, nil, err
	}
	for i := range occurrences[:max(len(occurrences)-1, 0)] {
		if next := occurrences[i+1].Start; occurrences[i].End.After(next) {
			occurrences[i].End = next
			occurrences[i].Note = joinNotes(occurrences[i].Note, "cut where the next one starts")
		}
	}
	occurrences = slices.DeleteFunc(occurrences, func(o Occurrence) bool { return !overlap(o, from, to) })
	dropped = slices.DeleteFunc(dropped, func(d Dropped) bool { return d.Start.Before(from) || !d.Start.Before(to) })
	return occurrences, dropped, nil
}

func overlap(o Occurrence, from, to time.Time) bool { return o.Start.Before(to) && from.Before(o.End) }

func joinNotes(note, more string) string {
	if note == "" || more == "" {
		return note + more
	}
	return note + "; " + more
}
