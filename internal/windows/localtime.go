package windows

import (
	"errors"
	"fmt"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// A local time is a date and a time of day on a clock in a zone. A time.Time in UTC represents it, because every local time exists there exactly once.
// To resolve it in a time zone makes it a moment.

// localTime returns the local time in a zone at a moment.
func localTime(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// maxZoneShift is an upper bound of the effect of an offset change: a day, for countries that crossed the date line.
const maxZoneShift = 25 * time.Hour

// moments are the moments of a local time in a zone: one; two if the end of daylight saving time repeats it; none if its start skips it.
type moments struct {
	at []time.Time
	// earlier and later are the moments of a skipped local time by the offset after the gap, and by the offset before it.
	earlier, later time.Time
}

// clocks resolves local times in a zone. It caches the last stretch with one offset, which most further lookups need.
type clocks struct {
	zone *time.Location
	stretchOfOffset
}

// stretchOfOffset is a time in which the zone has one offset from UTC.
type stretchOfOffset struct {
	from, to time.Time
	offset   time.Duration
}

func newClocks(zone *time.Location) *clocks { return &clocks{zone: zone} }

// resolve returns the moments of a local time. It evaluates each stretch with one offset around it, because time.Date silently chooses one of several
// moments.
func (c *clocks) resolve(clock time.Time) moments {
	first, last := clock.Add(-2*maxZoneShift), clock.Add(2*maxZoneShift)
	if !first.Before(c.from) && last.Before(c.to) {
		return moments{at: []time.Time{clock.Add(-c.offset)}}
	}
	var found moments
	var before *time.Time // with the offset of the stretch before
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

// stretchAt returns the stretch from a moment to the next offset change, or to some moment after last. The bounds that the standard library returns
// may be where no offset changes: at the turn of a year, and on the last day of a leap year even in the past.
func stretchAt(t, last time.Time, zone *time.Location) stretchOfOffset {
	_, seconds := t.In(zone).Zone()
	s := stretchOfOffset{from: t, to: t, offset: time.Duration(seconds) * time.Second}
	for {
		_, end := s.to.In(zone).ZoneBounds()
		switch {
		case end.IsZero():
			s.to = last.Add(100 * 366 * 24 * time.Hour) // no offset change follows
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

// start returns the moment of a start at a local time, with a note if daylight saving time affects it; false: it does not exist that day.
func (m moments) start(clock time.Time, zone *time.Location, gap drydockv1.GapRule, repeat drydockv1.RepeatRule) (time.Time, string, bool) {
	const timeOfDay = "15:04:05"
	switch {
	case len(m.at) == 1:
		return m.at[0], "", true
	case len(m.at) > 1 && repeat == drydockv1.RepeatSecond:
		return m.at[len(m.at)-1], clock.Format(timeOfDay) + " occurs twice that day: the second", true
	case len(m.at) > 1:
		return m.at[0], clock.Format(timeOfDay) + " occurs twice that day: the first", true
	}
	moved := m.later
	if gap == drydockv1.GapEarlier {
		moved = m.earlier
	}
	note := fmt.Sprintf("%s does not exist that day: %s", clock.Format(timeOfDay), moved.In(zone).Format(timeOfDay))
	return moved, note, gap != drydockv1.GapDrop
}

// endAfter returns the moment of an end at a local time. Of two moments it returns the first after the start. A skipped end has the offset before the gap.
// The result may be before the start.
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

var errZone = errors.New("must be the IANA name of a time zone, e.g. Europe/Berlin or UTC")

// loadZone returns the zone with an IANA name. For Go, an empty name is UTC and "Local" is the zone of the process, so it refuses both.
func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, errZone
	}
	return zone, nil
}
