package windows

import (
	"iter"
	"time"

	"github.com/teambition/rrule-go"
)

// rule is an RRULE with explicit values for all its parts, so that an expansion can start at any of its periods. Its times are local times.
type rule struct {
	option rrule.ROption
	// until is the last start; nil: no end.
	until *point
	// perDay is the maximum number of starts in a day.
	perDay int
}

// clocks returns the starts of the rule from one local time to just before another, in order.
func (r *rule) clocks(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		option := r.option
		if option.Count == 0 {
			option.Dtstart = r.enter(from)
		}
		expansion, err := rrule.NewRRule(option)
		if err != nil {
			return // cannot happen: parseRule has checked the parts
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

// enter returns the start of the rule's period at a local time. An expansion from there yields the same starts as one from the start of the rule.
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

// week returns the start of the week of a local time.
func (r *rule) week(clock time.Time) time.Time {
	monday := (int(clock.Weekday()) + 6) % 7
	return midnight(clock).AddDate(0, 0, -(monday-r.option.Wkst.Day()+7)%7)
}

func midnight(clock time.Time) time.Time {
	return time.Date(clock.Year(), clock.Month(), clock.Day(), 0, 0, 0, 0, time.UTC)
}

// advance moves a day forward in steps of that many days times the interval, to the last step at or before a local time.
func advance(from, to time.Time, days, interval int) time.Time {
	// In seconds, because a duration cannot exceed 292 years.
	between := int((to.Unix() - from.Unix()) / (24 * 60 * 60))
	return from.AddDate(0, 0, whole(between, days*interval))
}

// whole rounds a count down to a multiple of the interval.
func whole(n, interval int) int { return n / interval * interval }
