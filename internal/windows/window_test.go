package windows_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// at is a moment with the precision of the API.
func at(text string) *metav1.Time { return &metav1.Time{Time: moment(text)} }

// once are the times of a single occurrence.
func once(start, end string) drydockv1.WindowTimes {
	return drydockv1.WindowTimes{ScheduledStart: at(start), ScheduledEnd: at(end)}
}

func excluding(name string, effect drydockv1.ExclusionEffect, times drydockv1.WindowTimes) drydockv1.WindowExclusion {
	return drydockv1.WindowExclusion{Name: name, Effect: effect, WindowTimes: times}
}

func TestOccurrences(t *testing.T) {
	const from, to = "2026-12-01T00:00:00Z", "2026-12-05T00:00:00Z"
	nightly := func() drydockv1.MaintenanceWindowSpec { return spec("UTC", "FREQ=DAILY;BYHOUR=22", "4h") }
	tests := []struct {
		name    string
		change  func(s *drydockv1.MaintenanceWindowSpec)
		want    []string
		dropped []windows.Dropped
	}{
		{
			name: "start in the range, which excludes its end", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = recurring("FREQ=DAILY;BYHOUR=0;BYDAY=TU,SA", "48h")
			},
			want: []string{"2026-12-01 00:00 +0000 48h0m0s"},
		},
		{
			name: "happen once without a recurrence",
			change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = once("2026-12-02T10:00:00Z", "2026-12-02T10:00:01Z")
			},
			want: []string{"2026-12-02 10:00 +0000 1s"},
		},
		{
			name:   "end where the next one starts",
			change: func(s *drydockv1.MaintenanceWindowSpec) { s.WindowTimes = recurring("FREQ=DAILY;BYHOUR=22", "30h") },
			want: []string{
				"2026-12-01 22:00 +0000 24h0m0s (cut where the next one starts)", "2026-12-02 22:00 +0000 24h0m0s (cut where the next one starts)",
				"2026-12-03 22:00 +0000 24h0m0s (cut where the next one starts)", "2026-12-04 22:00 +0000 24h0m0s (cut where the next one starts)",
			},
		},
		{
			name: "are within the calendar", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.NotBefore, s.NotAfter = at("2026-12-02T01:00:00Z"), at("2026-12-03T23:00:00Z")
			},
			want: []string{
				"2026-12-02 01:00 +0000 1h0m0s (not before the calendar begins)", "2026-12-02 22:00 +0000 4h0m0s",
				"2026-12-03 22:00 +0000 1h0m0s (not after the calendar ends)",
			},
		},
		{
			name: "are dropped when an exclusion overlaps them", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionDrop, once("2026-12-02T01:59:59Z", "2026-12-03T22:00:00Z"))}
			},
			want: []string{"2026-12-03 22:00 +0000 4h0m0s", "2026-12-04 22:00 +0000 4h0m0s"},
			dropped: []windows.Dropped{
				{Start: moment("2026-12-01T22:00:00Z"), Reason: windows.DropExcluded, Note: "freeze"},
				{Start: moment("2026-12-02T22:00:00Z"), Reason: windows.DropExcluded, Note: "freeze"},
			},
		},
		{
			name: "are not dropped when an exclusion only touches them", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = once("2026-12-02T22:00:00Z", "2026-12-03T02:00:00Z")
				s.Exclusions = []drydockv1.WindowExclusion{
					excluding("before", drydockv1.ExclusionDrop, once("2026-12-02T02:00:00Z", "2026-12-02T22:00:00Z")),
					excluding("after", drydockv1.ExclusionDrop, once("2026-12-03T02:00:00Z", "2026-12-03T22:00:00Z")),
				}
			},
			want: []string{"2026-12-02 22:00 +0000 4h0m0s"},
		},
		{
			name: "are trimmed with ExclusionTrim", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = recurring("RDATE:20261201T220000,20261202T220000,20261203T220000", "4h")
				s.Exclusions = []drydockv1.WindowExclusion{
					excluding("backup", drydockv1.ExclusionTrim, recurring("FREQ=DAILY;BYHOUR=23", "1h")),
					excluding("launch", drydockv1.ExclusionTrim, once("2026-12-03T00:30:00Z", "2026-12-03T22:30:00Z")),
				}
			},
			want: []string{
				"2026-12-01 22:00 +0000 1h0m0s (trimmed by exclusion backup)", "2026-12-02 00:00 +0000 2h0m0s (trimmed by exclusion backup)",
				"2026-12-02 22:00 +0000 1h0m0s (trimmed by exclusion backup)",
				"2026-12-03 00:00 +0000 30m0s (trimmed by exclusion backup; trimmed by exclusion launch)",
				"2026-12-03 22:30 +0000 30m0s (trimmed by exclusion backup; trimmed by exclusion launch)",
				"2026-12-04 00:00 +0000 2h0m0s (trimmed by exclusion backup)",
			},
		},
		{
			name: "are dropped when trimming leaves nothing", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = once("2026-12-02T22:00:00Z", "2026-12-03T02:00:00Z")
				s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionTrim, once("2026-12-02T22:00:00Z", "2026-12-03T02:00:00Z"))}
			},
			want: []string{}, dropped: []windows.Dropped{{Start: moment("2026-12-02T22:00:00Z"), Reason: windows.DropExcluded, Note: "freeze"}},
		},
		{
			name: "are not affected by an exclusion outside of the calendar", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.NotBefore = at("2026-12-05T00:00:00Z")
				s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionDrop, once("2026-12-04T22:00:00Z", "2026-12-05T00:00:00Z"))}
			},
			want: []string{},
		},
		{
			name: "are excluded in another time zone if the exclusion has one", change: func(s *drydockv1.MaintenanceWindowSpec) {
				s.WindowTimes = recurring("FREQ=HOURLY;BYHOUR=6,7,8", "1h")
				tokyo := excluding("trading", drydockv1.ExclusionDrop, recurring("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9", "16:00"))
				tokyo.TimeZone = "Asia/Tokyo"
				s.Exclusions = []drydockv1.WindowExclusion{tokyo}
				s.NotAfter = at("2026-12-02T00:00:00Z")
			},
			want:    []string{"2026-12-01 07:00 +0000 1h0m0s", "2026-12-01 08:00 +0000 1h0m0s"},
			dropped: []windows.Dropped{{Start: moment("2026-12-01T06:00:00Z"), Reason: windows.DropExcluded, Note: "trading"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := nightly()
			test.change(&spec)
			found := preview(t, spec, from, to)
			require.Equal(t, test.want, lines(found))
			require.ElementsMatch(t, test.dropped, found.Dropped)
		})
	}
}

func TestAPreviewAsJSON(t *testing.T) {
	underProcessZones(t, func(t *testing.T) {
		text, err := json.Marshal(preview(t, spec("Europe/Berlin", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "03:30"), "2026-03-28T00:00:00Z", "2026-03-29T12:00:00Z"))
		require.NoError(t, err)
		require.Equal(t, `{"occurrences":[{"start":"2026-03-28T01:30:00Z","end":"2026-03-28T02:30:00Z","localStart":"2026-03-28T02:30:00+01:00","note":""}],`+
			`"dropped":[{"start":"2026-03-29T01:30:00Z","reason":"ZeroLength"}]}`, string(text))
		text, err = json.Marshal(preview(t, spec("UTC", "RDATE:20260101T000000", "1h"), "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"))
		require.NoError(t, err)
		require.Equal(t, `{"occurrences":[],"dropped":[]}`, string(text))
	})
}

func TestAnInvalidPreviewRangeIsRefused(t *testing.T) {
	w := window(t, "w", spec("UTC", "FREQ=HOURLY;BYMINUTE=0,10,20,30,40,50", "5m"))
	for name, test := range map[string]struct {
		from, to string
		err      error
	}{
		"an empty range":                     {"2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", windows.ErrInvalidRange},
		"backwards":                          {"2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z", windows.ErrInvalidRange},
		"a range before the supported years": {"1066-01-01T00:00:00Z", "2026-01-01T00:00:00Z", windows.ErrInvalidRange},
		"a range after the supported years":  {"2026-01-01T00:00:00Z", "9999-01-01T00:00:00Z", windows.ErrInvalidRange},
		"a range with too many occurrences":  {"2026-01-01T00:00:00Z", "8000-01-01T00:00:00Z", windows.ErrTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Preview(moment(test.from), moment(test.to))
			require.ErrorIs(t, err, test.err)
		})
	}
}

// someSpec draws a window in a zone with daylight saving time.
func someSpec(t *rapid.T) drydockv1.MaintenanceWindowSpec {
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "America/New_York"}).Draw(t, "zone")
	s := drydockv1.MaintenanceWindowSpec{TimeZone: zone, WindowTimes: someTimes(t)}
	for i := range rapid.IntRange(0, 2).Draw(t, "exclusions") {
		effect := rapid.SampledFrom([]drydockv1.ExclusionEffect{drydockv1.ExclusionDrop, drydockv1.ExclusionTrim}).Draw(t, "effect")
		s.Exclusions = append(s.Exclusions, excluding(fmt.Sprintf("e%d", i), effect, someTimes(t)))
	}
	if rapid.Bool().Draw(t, "bounded") {
		s.NotBefore, s.NotAfter = at("2026-02-10T23:30:00Z"), at("2026-11-20T01:10:00Z")
	}
	if rapid.Bool().Draw(t, "cutoff?") {
		s.Cutoff = "5m"
	}
	return s
}

func someTimes(t *rapid.T) drydockv1.WindowTimes {
	recurrence := rapid.SampledFrom([]string{
		"FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=15", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=1", "FREQ=HOURLY;BYHOUR=0,1,2,3;BYMINUTE=0,45",
		"FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=2", "FREQ=MONTHLY;BYMONTHDAY=29,31;BYHOUR=23",
		"DTSTART:20260301T013000\nRRULE:FREQ=DAILY;INTERVAL=3;COUNT=60\nRDATE:20260329T021500,20261025T003000Z\nEXDATE:20260307T013000",
	}).Draw(t, "recurrence")
	times := recurring(recurrence, rapid.SampledFrom([]string{"10m", "1h", "7h30m", "30h", "02:30", "03:00", "01:10"}).Draw(t, "length"))
	times.OnGap = rapid.SampledFrom([]drydockv1.GapRule{drydockv1.GapLater, drydockv1.GapEarlier, drydockv1.GapDrop}).Draw(t, "gap")
	times.OnRepeat = rapid.SampledFrom([]drydockv1.RepeatRule{drydockv1.RepeatFirst, drydockv1.RepeatSecond}).Draw(t, "repeat")
	return times
}

// someMoment draws a moment of the year 2026, often at an offset change or on the hour.
func someMoment(t *rapid.T, name string) time.Time {
	near := rapid.SampledFrom([]string{
		"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-10-03T15:30:00Z", "2026-04-04T15:00:00Z", "2026-04-23T22:00:00Z", "2026-03-08T07:00:00Z",
		"2026-02-10T23:30:00Z", "2026-11-20T01:10:00Z", "2026-06-01T00:00:00Z",
	}).Draw(t, name+" near")
	return moment(near).Add(rapid.SampledFrom([]time.Duration{time.Minute, hour, 24 * hour}).Draw(t, name+" unit") * time.Duration(rapid.IntRange(-60, 60).Draw(t, name)))
}

func TestOccurrencesAreInOrderAndDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := someMoment(t, "from")
		found, err := window(t, "w", someSpec(t)).Preview(from, from.Add(60*24*hour))
		require.NoError(t, err)
		for i, o := range found.Occurrences {
			require.True(t, o.Start.Before(o.End))
			require.True(t, i == 0 || !o.Start.Before(found.Occurrences[i-1].End))
		}
	})
}

func TestPreviewsOfAdjacentRangesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := window(t, "w", someSpec(t))
		from := someMoment(t, "from")
		between := from.Add(time.Duration(rapid.IntRange(1, 40*24*60).Draw(t, "first")) * time.Minute)
		to := between.Add(time.Duration(rapid.IntRange(1, 40*24*60).Draw(t, "second")) * time.Minute)
		whole, err := w.Preview(from, to)
		require.NoError(t, err)
		first, err := w.Preview(from, between)
		require.NoError(t, err)
		second, err := w.Preview(between, to)
		require.NoError(t, err)
		require.Equal(t, whole, windows.Preview{
			Occurrences: append(first.Occurrences, second.Occurrences...), Dropped: append(first.Dropped, second.Dropped...),
		})
	})
}

func TestTheTimeZoneOfTheProcessHasNoEffect(t *testing.T) {
	var first string
	underProcessZones(t, func(t *testing.T) {
		var all []any
		for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"} {
			s := spec(zone, "DTSTART:20260101T023000\nRRULE:FREQ=DAILY\nRDATE:20260329T013000\nEXDATE:20260102T023000Z", "04:00")
			s.Exclusions = []drydockv1.WindowExclusion{excluding("e", drydockv1.ExclusionTrim, recurring("FREQ=WEEKLY;BYDAY=MO;BYHOUR=3", "30m"))}
			s.NotBefore = at("2026-01-01T07:30:00+05:00")
			all = append(all, preview(t, s, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"))
			verdict, err := windows.Allows([]*windows.Window{window(t, "w", s)}, windows.Question{Now: moment("2026-03-29T00:30:00Z").In(time.Local), Need: hour})
			require.NoError(t, err)
			all = append(all, verdict)
		}
		state, err := windows.StateAt(moment("2026-03-29T00:30:00Z").In(time.Local), moment("2026-03-29T02:30:00Z").In(time.Local), moment("2026-03-29T03:30:00Z"))
		require.NoError(t, err)
		text, err := json.Marshal(append(all, state))
		require.NoError(t, err)
		if first == "" {
			first = string(text)
		}
		require.Equal(t, first, string(text))
	})
}
