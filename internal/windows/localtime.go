package windows

import (
	"errors"
	"fmt"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// A clock reading is a date and a time of day as a clock on the wall shows them. It is kept as a time.Time in UTC, where every reading
// exists exactly once; only resolving it in a time zone makes it a moment.

// reading returns what a clock of the zone shows at a moment.
func reading(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// furthest is more than a clock reading and the moment that it is resolved to ever lie apart by clocks that are put forward or back: a
// day, where a country has moved across the date line.
const furthest = 25 * time.Hour

// moments are those at which the clocks of a zone show a reading: one, two when they are put back over it, or none when they skip it.
type moments struct {
	at []time.Time
	// earlier and later are the moments meant by a reading that is skipped, by the offset after the gap and by that before it.
	earlier, later time.Time
}

// clocks resolve readings in a zone. They remember the stretch of time with one offset that the last was in, where most of the next are.
type clocks struct {
	zone *time.Location
	stretchOfOffset
}

// stretchOfOffset is a time in which the clocks of a zone are apart from UTC by the same offset.
type stretchOfOffset struct {
	from, to time.Time
	offset   time.Duration
}

func newClocks(zone *time.Location) *clocks { return &clocks{zone: zone} }

// resolve finds the moments of a clock reading. It looks at each stretch of time with one offset around it; time.Date would choose one of
// several without saying which.
func (c *clocks) resolve(clock time.Time) moments {
	first, last := clock.Add(-2*furthest), clock.Add(2*furthest)
	if !first.Before(c.from) && last.Before(c.to) {
		return moments{at: []time.Time{clock.Add(-c.offset)}}
	}
	var found moments
	var before *time.Time // the reading by the offset of the stretch before
	for c.stretchOfOffset = stretchAt(first, last, c.zone); ; c.stretchOfOffset = stretchAt(c.to, last, c.zone) {
		moment := clock.Add(-c.offset)
		switch {
		case moment.Before(c.from) && before != nil && !before.Before(c.from):
			found.earlier, found.later = moment, *before
		case !moment.Before(c.from) && moment.Before(c.to):
			found.at = append(found.at, moment)
		}
		if c.to.After(last) {
			return found
		}
		before = &moment
	}
}

// stretchAt returns the stretch of time from a moment to when the offset changes, or to some moment after last. The bounds that the standard
// library gives may lie where nothing changes, at the turn of a year, and on the last day of a leap year even in the past.
func stretchAt(t, last time.Time, zone *time.Location) stretchOfOffset {
	_, seconds := t.In(zone).Zone()
	s := stretchOfOffset{from: t, to: t, offset: time.Duration(seconds) * time.Second}
	for {
		_, end := s.to.In(zone).ZoneBounds()
		switch {
		case end.IsZero():
			s.to = last.Add(100 * 366 * 24 * time.Hour) // It stays as it is.
		case end.After(s.to):
			s.to = end
		default:
			s.to = s.to.Add(time.Hour)
		}
		if _, after := s.to.In(zone).Zone(); after != seconds || s.to.After(last) {
			return s
		}
	}
}

// start returns the moment that a start at a clock reading means, with a note if that is not plain; false: there is none that day.
func (m moments) start(clock time.Time, zone *time.Location, gap drydockv1.GapRule, repeat drydockv1.RepeatRule) (time.Time, string, bool) {
	const timeOfDay = "15:04:05"
	switch {
	case len(m.at) == 1:
		return m.at[0], "", true
	case len(m.at) > 1 && repeat == drydockv1.RepeatSecond:
		return m.at[len(m.at)-1], clock.Format(timeOfDay) + " comes twice that day: the second", true
	case len(m.at) > 1:
		return m.at[0], clock.Format(timeOfDay) + " comes twice that day: the first", true
	}
	moved := m.later
	if gap == drydockv1.GapEarlier {
		moved = m.earlier
	}
	note := fmt.Sprintf("%s does not exist that day: %s", clock.Format(timeOfDay), moved.In(zone).Format(timeOfDay))
	return moved, note, gap != drydockv1.GapDrop
}

// endAfter returns the moment that an end at a clock reading means: the first of two that lies after the start, and by the offset before
// the gap if it is skipped. It may lie before the start.
func (m moments) endAfter(start time.Time) time.Time {
	if len(m.at) == 0 {
		return m.later
	}
	for _, end := range m.at {
		if end.After(start) {
			return end
		}
	}
	return m.at[len(m.at)-1]
}

// loadZone returns the zone with an IANA name.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		// To Go these are UTC and the zone of the process.
		return nil, errors.New("must be the IANA name of a time zone, e.g. Europe/Berlin or UTC")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, errors.New("is not the IANA name of a time zone, as Europe/Berlin is, or UTC")
	}
	return zone, nil
}
