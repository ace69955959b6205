package portal

import (
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// historyDays is how many days of history a component has, including today.
const historyDays = 30

// History is how long a component had each status, per day.
type History []PastDay

// PastDay is a day in UTC with known status.
type PastDay struct {
	Date  string                                      `json:"date"`
	Spent map[sreportalv1.ServiceStatus]time.Duration `json:"spent"`
}

// dateOf returns the day of a moment.
func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// midnight is the end of the day of a moment.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1) }

// Add adds a time with one status, and removes days that are too old.
func (h History) Add(status sreportalv1.ServiceStatus, from, to time.Time) History {
	oldest := midnight(to).AddDate(0, 0, -historyDays)
	if from.Before(oldest) {
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
	return h.since(dateOf(oldest))
}

// since leaves out the days before a date.
func (h History) since(oldest string) History {
	for len(h) > 0 && h[0].Date < oldest {
		h = h[1:]
	}
	return h
}

// lastDates are the dates of the last thirty days up to now, oldest first.
func lastDates(now time.Time) []string {
	dates := make([]string, historyDays)
	for i := range dates {
		dates[i] = dateOf(now.AddDate(0, 0, i+1-historyDays))
	}
	return dates
}

// days returns the days of consecutive dates. Dates that are not in the history have no known status.
func (h History) days(dates []string) []Day {
	h = h.since(dates[0])
	days := make([]Day, len(dates))
	for i, date := range dates {
		days[i].Date = date
		if len(h) > 0 && h[0].Date == date {
			days[i], h = h[0].day(), h[1:]
		}
	}
	return days
}

// day returns a day in whole seconds, rounded so that they sum to the known time.
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

// historyOf is the reverse of days.
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
