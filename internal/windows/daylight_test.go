package windows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

func TestStartsAndEndsAtDaylightSavingTimeChanges(t *testing.T) {
	tests := []struct {
		name       string
		zone       string
		recurrence string
		length     string
		gap        drydockv1.GapRule
		repeat     drydockv1.RepeatRule
		day        string
		want       []string
		dropped    []windows.Dropped
	}{
		{
			name: "a start that is skipped moves by the offset before the gap", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "1h",
			want: []string{"2026-03-29 03:30 +0200 1h0m0s (02:30:00 does not exist that day: 03:30:00)"},
		},
		{
			name: "with GapEarlier, by the offset after the gap", zone: "Europe/Berlin", day: "2026-03-29", gap: drydockv1.GapEarlier,
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "1h",
			want: []string{"2026-03-29 01:30 +0100 1h0m0s (02:30:00 does not exist that day: 01:30:00)"},
		},
		{
			name: "with GapDrop, it is dropped", zone: "Europe/Berlin", day: "2026-03-29", gap: drydockv1.GapDrop,
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "1h",
			want: []string{}, dropped: []windows.Dropped{{Start: moment("2026-03-29T01:30:00Z"), Reason: windows.DropInGap}},
		},
		{
			name: "the first moment of a gap is skipped", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=2", length: "1h",
			want: []string{"2026-03-29 03:00 +0200 1h0m0s (02:00:00 does not exist that day: 03:00:00)"},
		},
		{
			name: "the first moment after a gap is not skipped", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=3", length: "1h",
			want: []string{"2026-03-29 03:00 +0200 1h0m0s"},
		},
		{
			name: "a start that occurs twice is the first", zone: "Europe/Berlin", day: "2026-10-25",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "1h",
			want: []string{"2026-10-25 02:30 +0200 1h0m0s (02:30:00 occurs twice that day: the first)"},
		},
		{
			name: "with RepeatSecond, it is the second", zone: "Europe/Berlin", day: "2026-10-25", repeat: drydockv1.RepeatSecond,
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "1h",
			want: []string{"2026-10-25 02:30 +0100 1h0m0s (02:30:00 occurs twice that day: the second)"},
		},
		{
			name: "the first repeated time occurs twice", zone: "Europe/Berlin", day: "2026-10-25",
			recurrence: "FREQ=DAILY;BYHOUR=2", length: "1h",
			want: []string{"2026-10-25 02:00 +0200 1h0m0s (02:00:00 occurs twice that day: the first)"},
		},
		{
			name: "the time after the repeated hour occurs once", zone: "Europe/Berlin", day: "2026-10-25",
			recurrence: "FREQ=DAILY;BYHOUR=3", length: "1h",
			want: []string{"2026-10-25 03:00 +0100 1h0m0s"},
		},
		{
			name: "half an hour is skipped", zone: "Australia/Lord_Howe", day: "2026-10-04",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=15", length: "1h",
			want: []string{"2026-10-04 02:45 +1100 1h0m0s (02:15:00 does not exist that day: 02:45:00)"},
		},
		{
			name: "half an hour occurs twice", zone: "Australia/Lord_Howe", day: "2026-04-05", repeat: drydockv1.RepeatSecond,
			recurrence: "FREQ=DAILY;BYHOUR=1;BYMINUTE=45", length: "1h",
			want: []string{"2026-04-05 01:45 +1030 1h0m0s (01:45:00 occurs twice that day: the second)"},
		},
		{
			name: "midnight is skipped", zone: "Africa/Cairo", day: "2026-04-24",
			recurrence: "FREQ=DAILY;BYHOUR=0", length: "1h",
			want: []string{"2026-04-24 01:00 +0300 1h0m0s (00:00:00 does not exist that day: 01:00:00)"},
		},
		{
			name: "a whole day is skipped, and two equal openings become one", zone: "Pacific/Apia", day: "2011-12-31",
			recurrence: "FREQ=DAILY;BYHOUR=10", length: "1h",
			want: []string{"2011-12-31 10:00 +1400 1h0m0s"},
		},
		{
			name: "a skipped hour has no opening", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=HOURLY;BYHOUR=1,2,3", length: "30m",
			want: []string{"2026-03-29 01:00 +0100 30m0s", "2026-03-29 03:00 +0200 30m0s"},
		},

		{
			name: "a duration is elapsed time", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=0", length: "4h",
			want: []string{"2026-03-29 00:00 +0100 4h0m0s"},
		},
		{
			name: "an opening until a time of day is an hour shorter if an hour is skipped", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=0", length: "04:00",
			want: []string{"2026-03-29 00:00 +0100 3h0m0s"},
		},
		{
			name: "an opening until a time of day is an hour longer if an hour is repeated", zone: "Europe/Berlin", day: "2026-10-25",
			recurrence: "FREQ=DAILY;BYHOUR=0", length: "04:00",
			want: []string{"2026-10-25 00:00 +0200 5h0m0s"},
		},
		{
			name: "an end that is skipped moves by the offset before the gap", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=1", length: "02:30",
			want: []string{"2026-03-29 01:00 +0100 1h30m0s"},
		},
		{
			name: "an end that occurs twice is the first", zone: "Europe/Berlin", day: "2026-10-25",
			recurrence: "FREQ=DAILY;BYHOUR=1", length: "02:30",
			want: []string{"2026-10-25 01:00 +0200 1h30m0s"},
		},
		{
			name: "unless only the second is after the start", zone: "Europe/Berlin", day: "2026-10-25", repeat: drydockv1.RepeatSecond,
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=15", length: "02:45",
			want: []string{"2026-10-25 02:15 +0100 30m0s (02:15:00 occurs twice that day: the second)"},
		},
		{
			name: "an end not after the start is on the next day", zone: "Europe/Berlin", day: "2026-06-01",
			recurrence: "FREQ=DAILY;BYHOUR=22", length: "22:00",
			want: []string{"2026-06-01 22:00 +0200 24h0m0s"},
		},
		{
			name: "an opening without length because of a gap is dropped", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", length: "03:30",
			want: []string{}, dropped: []windows.Dropped{{Start: moment("2026-03-29T01:30:00Z"), Reason: windows.DropZeroLength}},
		},
		{
			name: "an opening that would end before it starts is dropped", zone: "Europe/Berlin", day: "2026-03-29",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", length: "03:00:00",
			want: []string{}, dropped: []windows.Dropped{{Start: moment("2026-03-29T01:30:00Z"), Reason: windows.DropZeroLength}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := spec(test.zone, test.recurrence, test.length)
			if test.gap != "" {
				spec.OnGap = test.gap
			}
			if test.repeat != "" {
				spec.OnRepeat = test.repeat
			}
			// A UTC day, with the parts of the local day before and after it.
			from, to := moment(test.day+"T00:00:00Z").Add(-14*hour), moment(test.day+"T00:00:00Z").Add(36*hour)
			found, err := window(t, "w", spec).Preview(from, to)
			require.NoError(t, err)
			got := []string{}
			for _, line := range lines(found) {
				if line[:len(test.day)] == test.day {
					got = append(got, line)
				}
			}
			require.Equal(t, test.want, got)
			require.ElementsMatch(t, test.dropped, found.Dropped)
		})
	}
}
