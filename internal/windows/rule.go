package windows

import (
	"iter"
	"time"

	"github.com/teambition/rrule-go"
)

// rule is an RRULE with all its parts written out, so that it means the same wherever it is entered. Its times are clock readings.
type rule struct {
	option rrule.ROption
	// until is the last start; nil: no end.
	until *point
	// perDay is how many starts a day may have.
	perDay int
}

// clocks are the starts of the rule from one clock reading to another, which is not included, in their order.
func (r *rule) clocks(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		option := r.option
		if option.Count == 0 {
			option.Dtstart = r.enter(from)
		}
		expansion, err := rrule.NewRRule(option)
		if err != nil {
			return // Not after parseRule has made one of the same parts.
		}
		next := expansion.Iterator()
		for clock, ok := next(); ok && clock.Before(to); clock, ok = next() {
			if r.until != nil && !r.until.moment && clock.After(r.until.time) {
				return
			}
			if !clock.Before(from) && !yield(clock) {
				return
			}
		}
	}
}

// enter returns the last beginning of a period of the rule that is not after a clock reading: from that reading on the rule goes on as from
// its start, without what lies between.
func (r *rule) enter(clock time.Time) time.Time {
	start, interval := r.option.Dtstart, r.option.Interval
	if !clock.After(start) {
		return start
	}
	switch r.option.Freq {
	case rrule.YEARLY:
		return time.Date(start.Year()+whole(clock.Year()-start.Year(), interval), 1, 1, 0, 0, 0, 0, time.UTC)
	case rrule.MONTHLY:
		months := (clock.Year()-start.Year())*12 + int(clock.Month()) - int(start.Month())
		return time.Date(start.Year(), start.Month()+time.Month(whole(months, interval)), 1, 0, 0, 0, 0, time.UTC)
	case rrule.WEEKLY:
		return advance(r.week(start), clock, 7, interval)
	}
	return advance(midnight(start), clock, 1, interval)
}

// week returns the beginning of the week of a clock reading.
func (r *rule) week(clock time.Time) time.Time {
	monday := (int(clock.Weekday()) + 6) % 7
	return midnight(clock).AddDate(0, 0, -(monday-r.option.Wkst.Day()+7)%7)
}

func midnight(clock time.Time) time.Time {
	return time.Date(clock.Year(), clock.Month(), clock.Day(), 0, 0, 0, 0, time.UTC)
}

// advance goes on from a day, in steps of that many days times the interval, to the last that does not begin after a reading.
func advance(from, to time.Time, days, interval int) time.Time {
	// By seconds: a duration would not reach further than 292 years.
	between := int((to.Unix() - from.Unix()) / (24 * 60 * 60))
	return from.AddDate(0, 0, whole(between, days*interval))
}

// whole rounds a count down to a multiple of the interval.
func whole(n, interval int) int { return n / interval * interval }
