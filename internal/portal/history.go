package portal

import (
	"slices"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// daysKept is how many days of history a component has, today included.
const daysKept = 30

// History is how long a component had each status, by the day.
type History []PastDay

// PastDay is a day by the clocks of UTC, of which something is known.
type PastDay struct {
	Date  string                                      `json:"date"`
	Spent map[sreportalv1.ServiceStatus]time.Duration `json:"spent"`
}

// dateOf is the day of a moment.
func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// midnight is the end of the day of a moment.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1) }

// Add adds a time in which one status was shown, and forgets the days that are too long ago by its end.
func (h History) Add(status sreportalv1.ServiceStatus, from, to time.Time) History {
	if oldest := midnight(to).AddDate(0, 0, -daysKept); from.Before(oldest) {
		from = oldest
	}
	for from.Before(to) {
		end := midnight(from)
		if end.After(to) {
			end = to
		}
		if date := dateOf(from); len(h) == 0 || h[len(h)-1].Date != date {
			h = append(h, PastDay{Date: date, Spent: map[sreportalv1.ServiceStatus]time.Duration{}})
		}
		h[len(h)-1].Spent[status] += end.Sub(from)
		from = end
	}
	return h.since(to)
}

// since forgets the days that are too long ago.
func (h History) since(now time.Time) History {
	oldest := dateOf(now.AddDate(0, 0, 1-daysKept))
	return slices.DeleteFunc(h, func(d PastDay) bool { return d.Date < oldest })
}

// Days are the last thirty, the oldest first, that of now being the last. Nothing is known of those that are not in the history.
func (h History) Days(now time.Time) []Day {
	days := make([]Day, daysKept)
	for i := range days {
		days[i].Date = dateOf(now.AddDate(0, 0, i+1-daysKept))
		if at := slices.IndexFunc(h, func(d PastDay) bool { return d.Date == days[i].Date }); at >= 0 {
			days[i] = h[at].day()
		}
	}
	return days
}

// day is a day in whole seconds. They are rounded so that they still sum to what is known of it; what lasted for less is not worth mention.
func (d PastDay) day() Day {
	day := Day{Date: d.Date}
	var total time.Duration
	for _, status := range statuses() {
		total += d.Spent[status]
		seconds := int64(total.Round(time.Second)/time.Second) - day.KnownSeconds
		if seconds == 0 {
			continue
		}
		if day.KnownSeconds == 0 {
			day.Worst, day.StatusSeconds = status, map[sreportalv1.ServiceStatus]int64{}
		}
		day.KnownSeconds += seconds
		day.StatusSeconds[status] = seconds
	}
	return day
}

// historyOf is the history that days show.
func historyOf(days []Day) History {
	var h History
	for _, day := range days {
		if day.KnownSeconds == 0 {
			continue
		}
		past := PastDay{Date: day.Date, Spent: map[sreportalv1.ServiceStatus]time.Duration{}}
		for _, status := range statuses() {
			if seconds := day.StatusSeconds[status]; seconds > 0 {
				past.Spent[status] = time.Duration(seconds) * time.Second
			}
		}
		h = append(h, past)
	}
	return h
}
