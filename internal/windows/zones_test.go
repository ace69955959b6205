package windows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTwoYearsOfDailyStartsAgreeWithLocalTime compares each start with a walk through the local time of the zone in steps of a quarter of an hour,
// the finest offset change of these zones.
func TestTwoYearsOfDailyStartsAgreeWithLocalTime(t *testing.T) {
	tests := []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026},
		{"America/New_York", 2026},
		{"Australia/Lord_Howe", 2026},
		{"Africa/Cairo", 2026},
		{"Asia/Kathmandu", 2026},
		{"America/Sao_Paulo", 2026},
		{"America/Sao_Paulo", 2016}, // when it still had daylight saving, at midnight
		{"Europe/Berlin", 2048},     // later than the tables of the zone, and with the last day of a leap year
		{"Australia/Lord_Howe", 2048},
		{"UTC", 2026},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s from %d", test.zone, test.year), func(t *testing.T) {
			seen, again := walk(t, test.zone, test.year)
			for _, at := range []string{"00:00", "00:30", "01:45", "02:15", "02:30", "03:00", "12:00", "23:30"} {
				requireDailyStarts(t, test.zone, test.year, at, seen)
				for _, end := range []string{"00:00", "01:45", "02:15", "03:00", "12:15"} {
					requireEnds(t, test.zone, test.year, at, end, seen, again)
				}
			}
		})
	}
}

const (
	toTheMinute = "2006-01-02 15:04"
	step        = 15 * time.Minute
)

// walk returns when clocks of a zone first show each quarter of an hour of two years; for a skipped one, when they would have shown it without the
// change. Again is when they show one a second time.
func walk(t *testing.T, zone string, year int) (seen, again map[string]time.Time) {
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	seen, again = map[string]time.Time{}, map[string]time.Time{}
	start, end := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Add(-2*24*hour), time.Date(year+2, 1, 1, 0, 0, 0, 0, time.UTC).Add(2*24*hour)
	for at := start; at.Before(end); at = at.Add(step) {
		if shown := at.In(location).Format(toTheMinute); seen[shown].IsZero() {
			seen[shown] = at
		} else {
			again[shown] = at
		}
	}
	for reading := start.Add(24 * hour); reading.Before(end.Add(-24 * hour)); reading = reading.Add(step) {
		if shown := reading.Format(toTheMinute); seen[shown].IsZero() {
			seen[shown] = seen[reading.Add(-step).Format(toTheMinute)].Add(step)
		}
	}
	return seen, again
}

func requireDailyStarts(t *testing.T, zone string, year int, at string, seen map[string]time.Time) {
	t.Helper()
	recurrence := fmt.Sprintf("FREQ=DAILY;BYHOUR=%s;BYMINUTE=%s", at[:2], at[3:])
	first, last := seen[fmt.Sprintf("%d-01-01 %s", year, at)], seen[fmt.Sprintf("%d-12-31 %s", year+1, at)]
	found, err := window(t, "w", spec(zone, recurrence, "10m")).Preview(first, last.Add(time.Second))
	require.NoError(t, err)

	var want []time.Time
	for day := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < year+2; day = day.AddDate(0, 0, 1) {
		want = append(want, seen[day.Format("2006-01-02 ")+at])
	}
	got := make([]time.Time, len(found.Occurrences))
	for i, o := range found.Occurrences {
		got[i] = o.Start
		require.Equal(t, 10*time.Minute, o.End.Sub(o.Start))
		require.True(t, o.LocalStart.Equal(o.Start))
	}
	require.Equal(t, want, got, "at %s", at)
	require.Empty(t, found.Dropped)
}

// requireEnds checks openings that end at a local time: they end when the zone first has it after their start.
func requireEnds(t *testing.T, zone string, year int, at, end string, seen, again map[string]time.Time) {
	t.Helper()
	if at == end {
		return
	}
	recurrence := fmt.Sprintf("FREQ=DAILY;BYHOUR=%s;BYMINUTE=%s", at[:2], at[3:])
	first, last := seen[fmt.Sprintf("%d-01-01 %s", year, at)], seen[fmt.Sprintf("%d-12-30 %s", year+1, at)]
	found, err := window(t, "w", spec(zone, recurrence, end)).Preview(first, last.Add(time.Second))
	require.NoError(t, err)
	ends := map[time.Time]time.Time{}
	for _, o := range found.Occurrences {
		ends[o.Start] = o.End
	}
	for day := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); !day.After(time.Date(year+1, 12, 30, 0, 0, 0, 0, time.UTC)); day = day.AddDate(0, 0, 1) {
		start, closing := seen[day.Format("2006-01-02 ")+at], day
		if end < at {
			closing = day.AddDate(0, 0, 1)
		}
		want := seen[closing.Format("2006-01-02 ")+end]
		if second := again[closing.Format("2006-01-02 ")+end]; !want.After(start) && second.After(start) {
			want = second
		}
		if next := seen[day.AddDate(0, 0, 1).Format("2006-01-02 ")+at]; next.Before(want) {
			want = next // it ends where the next begins
		}
		if got, opens := ends[start]; want.After(start) {
			require.Equal(t, want, got, "%s from %s to %s", day.Format(time.DateOnly), at, end)
		} else {
			require.False(t, opens, "%s from %s to %s has no length", day.Format(time.DateOnly), at, end)
		}
	}
}
