package windows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/teambition/rrule-go"
	"pgregory.net/rapid"
)

// someRule draws a valid rule and its start.
func someRule(t *rapid.T) (text string, start time.Time) {
	start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.Int64Range(0, 3*366*24*60).Draw(t, "start")) * time.Minute)
	freq := rapid.SampledFrom([]string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}).Draw(t, "freq")
	parts := []string{"FREQ=" + freq}
	part := func(name string, values ...string) {
		if rapid.IntRange(0, 3).Draw(t, name+"?") > 0 {
			return
		}
		drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, min(3, len(values)), rapid.ID).Draw(t, name)
		parts = append(parts, name+"="+strings.Join(drawn, ","))
	}
	if interval := rapid.IntRange(1, 5).Draw(t, "interval"); interval > 1 {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", interval))
	}
	part("BYMONTH", "1", "2", "6", "10", "12")
	if freq != "WEEKLY" {
		part("BYMONTHDAY", "1", "13", "28", "29", "31", "-1", "-31")
	}
	switch freq {
	case "MONTHLY", "YEARLY":
		// Plain and numbered days are not mixed, because the library then returns only the days that match both.
		part("BYDAY", rapid.SampledFrom([][]string{{"MO", "SA"}, {"1SU", "-1FR", "5WE"}}).Draw(t, "days")...)
	default:
		part("BYDAY", "MO", "WE", "SA", "SU")
	}
	part("BYHOUR", "0", "2", "22")
	part("BYMINUTE", "0", "30")
	if len(parts) > 3 && (freq == "MONTHLY" || freq == "YEARLY") {
		part("BYSETPOS", "1", "2", "-1")
	}
	if rapid.Bool().Draw(t, "count?") {
		parts = append(parts, fmt.Sprintf("COUNT=%d", rapid.IntRange(1, 50).Draw(t, "count")))
	}
	if rapid.Bool().Draw(t, "wkst?") {
		parts = append(parts, "WKST="+rapid.SampledFrom([]string{"MO", "SU", "WE"}).Draw(t, "wkst"))
	}
	return strings.Join(parts, ";"), start
}

func TestARuleYieldsTheSameStartsFromEveryPointOfEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, start := someRule(t)
		from := start.AddDate(0, 0, rapid.IntRange(-400, 4000).Draw(t, "from")).Add(time.Duration(rapid.IntRange(0, 24*60).Draw(t, "minute")) * time.Minute)
		to := from.AddDate(0, 0, rapid.IntRange(0, 800).Draw(t, "days"))

		option, err := rrule.StrToROption(text)
		require.NoError(t, err)
		option.Dtstart = start
		library, err := rrule.NewRRule(*option)
		require.NoError(t, err)
		want := slices.DeleteFunc(library.Between(from, to, true), func(at time.Time) bool { return !at.Before(to) })

		r, err := parseRule(text, &start)
		if err != nil {
			require.ErrorIs(t, err, errNeverHappens)
			require.Empty(t, want)
			return
		}
		got := slices.Collect(r.clocks(from, to))
		require.Equal(t, len(want), len(got), text)
		for i := range want {
			require.True(t, want[i].Equal(got[i]), "%s: %s, not %s", text, want[i], got[i])
		}
	})
}

func TestARuleOfSeveralDaysIsTheUnionOfItsDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rest := rapid.SampledFrom([]string{
			"FREQ=MONTHLY;BYHOUR=1", "FREQ=MONTHLY;BYHOUR=1;BYMONTHDAY=1,13,-1", "FREQ=YEARLY;BYHOUR=1", "FREQ=YEARLY;BYHOUR=1;BYMONTH=2,10,12",
		}).Draw(t, "rest")
		days := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"MO", "1MO", "-1MO", "TU", "2TU", "FR", "-5FR", "SU", "5SU"}), 1, 4, rapid.ID).Draw(t, "days")
		from := time.Date(rapid.IntRange(2020, 2030).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		expand := func(days string) []time.Time {
			r, err := parseRule(rest+";BYDAY="+days, nil)
			require.NoError(t, err)
			return slices.Collect(r.clocks(from, from.AddDate(2, 0, 0)))
		}
		var want []time.Time
		for _, day := range days {
			want = append(want, expand(day)...)
		}
		slices.SortFunc(want, time.Time.Compare)
		require.Equal(t, slices.Compact(want), expand(strings.Join(days, ",")))
	})
}

// FuzzRecurrence feeds arbitrary text to the parser. It must refuse it, or return a recurrence that expands with bounded work, in order, and with the
// same result twice.
func FuzzRecurrence(f *testing.F) {
	for _, seed := range []string{
		"FREQ=WEEKLY;BYDAY=SA;BYHOUR=22",
		"DTSTART:20261107T220000\nRRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=7\nRDATE:20261225T000000Z\nEXDATE;TZID=Europe/Berlin:20261121T220000",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=20;WKST=SU",
		"FREQ=YEARLY;BYWEEKNO=53,-53,1,-1;BYDAY=MO,SU;BYHOUR=1",
		"FREQ=YEARLY;BYDAY=53MO,-53SU;BYHOUR=1",
		"FREQ=YEARLY;BYMONTH=12;BYDAY=5MO,-5SU;BYHOUR=1",
		"FREQ=YEARLY;BYYEARDAY=366,-366;BYHOUR=1;BYSETPOS=1",
		"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=1",
		"FREQ=HOURLY;INTERVAL=24;BYHOUR=0",
		"FREQ=SECONDLY", "RRULE:", "RDATE:", ":", ";", "=", "\n", "FREQ=DAILY;BYHOUR=1\nEXDATE:20261121T220000,",
	} {
		f.Add(seed, int64(1_800_000_000))
		f.Add(seed, int64(200_000_000_000))
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string, at int64) {
		recurrence, err := parseRecurrence(text, zone.String())
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		c := &calendar{zone: zone, recurrence: recurrence, duration: time.Hour}
		from := time.Unix(at%(7000*365*24*60*60), 0).UTC()
		once, dropped, err := c.starting(from, from.AddDate(1, 0, 0))
		if err != nil {
			require.ErrorIs(t, err, ErrTooMany)
			return
		}
		require.LessOrEqual(t, len(once), maxOccurrences)
		require.Empty(t, dropped, "an occurrence of an hour is never dropped")
		for i := range once {
			require.True(t, i == 0 || once[i-1].Start.Before(once[i].Start))
		}
		again, _, err := c.starting(from, from.AddDate(1, 0, 0))
		require.NoError(t, err)
		require.Equal(t, once, again)
	})
}
