package windows_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/windows"
)

func TestRecurrences(t *testing.T) {
	tests := []struct {
		name, recurrence, from, to string
		want                       []string
	}{
		{
			name: "every Saturday", recurrence: "FREQ=WEEKLY;BYDAY=SA;BYHOUR=22", from: "2026-11-20T00:00:00Z", to: "2026-12-06T00:00:00Z",
			want: []string{"2026-11-21 22:00", "2026-11-28 22:00", "2026-12-05 22:00"},
		},
		{
			name: "every second Saturday, from the first on", recurrence: "DTSTART:20261107T220000\nRRULE:FREQ=WEEKLY;INTERVAL=2",
			from: "2026-01-01T00:00:00Z", to: "2026-12-20T00:00:00Z",
			want: []string{"2026-11-07 22:00", "2026-11-21 22:00", "2026-12-05 22:00", "2026-12-19 22:00"},
		},
		{
			name: "weeks begin on the day of WKST", recurrence: "DTSTART:20261103T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
			from: "2026-11-01T00:00:00Z", to: "2026-12-01T00:00:00Z",
			want: []string{"2026-11-03 09:00", "2026-11-15 09:00", "2026-11-17 09:00", "2026-11-29 09:00"},
		},
		{
			name: "the last Friday of the month", recurrence: "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=20;BYMINUTE=30",
			from: "2026-11-01T00:00:00Z", to: "2027-02-01T00:00:00Z",
			want: []string{"2026-11-27 20:30", "2026-12-25 20:30", "2027-01-29 20:30"},
		},
		{
			name: "the last working day of the month", recurrence: "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=20",
			from: "2026-10-01T00:00:00Z", to: "2027-01-01T00:00:00Z",
			want: []string{"2026-10-30 20:00", "2026-11-30 20:00", "2026-12-31 20:00"},
		},
		{
			name: "the 31st, which short months do not have", recurrence: "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=1",
			from: "2026-08-01T00:00:00Z", to: "2027-02-01T00:00:00Z",
			want: []string{"2026-08-31 01:00", "2026-10-31 01:00", "2026-12-31 01:00", "2027-01-31 01:00"},
		},
		{
			name: "the 31st, from the start", recurrence: "DTSTART:20260131T010000\nRRULE:FREQ=MONTHLY",
			from: "2026-01-01T00:00:00Z", to: "2026-06-01T00:00:00Z",
			want: []string{"2026-01-31 01:00", "2026-03-31 01:00", "2026-05-31 01:00"},
		},
		{
			name: "the leap day, from the start", recurrence: "DTSTART:20240229T010000\nRRULE:FREQ=YEARLY",
			from: "2025-01-01T00:00:00Z", to: "2033-01-01T00:00:00Z",
			want: []string{"2028-02-29 01:00", "2032-02-29 01:00"},
		},
		{
			name: "the Monday of week 1, which may begin in the year before", recurrence: "FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO;BYHOUR=6",
			from: "2024-06-01T00:00:00Z", to: "2027-06-01T00:00:00Z",
			want: []string{"2024-12-30 06:00", "2025-12-29 06:00", "2027-01-04 06:00"},
		},
		{
			name: "every six hours from the start", recurrence: "DTSTART:20261120T050000\nFREQ=HOURLY;INTERVAL=6",
			from: "2026-11-20T00:00:00Z", to: "2026-11-21T12:00:00Z",
			want: []string{"2026-11-20 05:00", "2026-11-20 11:00", "2026-11-20 17:00", "2026-11-20 23:00", "2026-11-21 05:00", "2026-11-21 11:00"},
		},
		{
			name: "a count from the start", recurrence: "DTSTART:20261120T220000\nRRULE:FREQ=DAILY;COUNT=3",
			from: "2026-11-21T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-11-21 22:00", "2026-11-22 22:00"},
		},
		{
			name: "until a local time, inclusive", recurrence: "DTSTART:20261120T220000\nRRULE:FREQ=DAILY;UNTIL=20261122T220000",
			from: "2026-11-01T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-11-20 22:00", "2026-11-21 22:00", "2026-11-22 22:00"},
		},
		{
			name: "until a moment, an hour before the same local time", recurrence: "DTSTART:20261120T220000\nRRULE:FREQ=DAILY;UNTIL=20261122T205959Z",
			from: "2026-11-01T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-11-20 22:00", "2026-11-21 22:00"},
		},
		{
			name:       "added and excepted dates, in local time and in UTC",
			recurrence: "RRULE:FREQ=WEEKLY;BYDAY=SA;BYHOUR=22\r\nRDATE;TZID=Europe/Berlin:20261125T010000,20261126T010000Z\r\nEXDATE:20261128T220000\r\nEXDATE;VALUE=DATE-TIME:20261205T210000Z",
			from:       "2026-11-20T00:00:00Z", to: "2026-12-13T00:00:00Z",
			want: []string{"2026-11-21 22:00", "2026-11-25 01:00", "2026-11-26 02:00", "2026-12-12 22:00"},
		},
		{
			name: "dates without a rule", recurrence: "RDATE:20261224T180000,20261224T120000,20261224T180000",
			from: "2026-11-01T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-12-24 12:00", "2026-12-24 18:00"},
		},
		{
			name: "dates without a rule, the first of them the start", recurrence: "DTSTART:20261223T100000\nRDATE:20261224T180000",
			from: "2026-11-01T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-12-23 10:00", "2026-12-24 18:00"},
		},
		{
			name: "a start that is excepted", recurrence: "DTSTART:20261223T100000\nRDATE:20261224T180000\nEXDATE:20261223T100000",
			from: "2026-11-01T00:00:00Z", to: "2027-11-21T00:00:00Z",
			want: []string{"2026-12-24 18:00"},
		},
		{
			name: "an excepted moment is not another moment with the same local time", from: "2026-10-24T00:00:00Z", to: "2026-10-27T00:00:00Z",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30\nEXDATE:20261025T013000Z,20261026T013000Z",
			want:       []string{"2026-10-24 02:30", "2026-10-25 02:30"},
		},
		{
			name: "every day of a list, numbered or not", recurrence: "FREQ=MONTHLY;BYDAY=2TU,MO;BYHOUR=1",
			from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z",
			want: []string{"2026-01-05 01:00", "2026-01-12 01:00", "2026-01-13 01:00", "2026-01-19 01:00", "2026-01-26 01:00"},
		},
		{
			name: "a day that is listed twice, once with a number", recurrence: "FREQ=MONTHLY;BYDAY=MO,1MO,-1MO;BYHOUR=1",
			from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z",
			want: []string{"2026-01-05 01:00", "2026-01-12 01:00", "2026-01-19 01:00", "2026-01-26 01:00"},
		},
		{
			name: "the first and the last day of a list in a month", recurrence: "FREQ=MONTHLY;BYDAY=SU,1TU,-1TH;BYSETPOS=1,-1;BYHOUR=1",
			from: "2026-01-01T00:00:00Z", to: "2026-03-01T00:00:00Z",
			want: []string{"2026-01-04 01:00", "2026-01-29 01:00", "2026-02-01 01:00", "2026-02-26 01:00"},
		},
		{
			name: "a date that a gap moves can be excepted by either local time", from: "2026-03-28T12:00:00Z", to: "2026-03-29T22:00:00Z",
			recurrence: "FREQ=DAILY;BYHOUR=2;BYMINUTE=10,20,30\nEXDATE:20260329T021000,20260329T032000",
			want:       []string{"2026-03-29 03:30"},
		},
		{
			name: "lower case, as RFC 5545 allows", recurrence: "rrule:freq=weekly;byday=sa;byhour=22", from: "2026-11-20T00:00:00Z", to: "2026-11-22T00:00:00Z",
			want: []string{"2026-11-21 22:00"},
		},
		{
			name: "far in the future", recurrence: "DTSTART:19700103T220000\nRRULE:FREQ=WEEKLY;INTERVAL=52", from: "2900-01-01T00:00:00Z", to: "2902-01-01T00:00:00Z",
			want: []string{"2900-10-30 22:00", "2901-10-29 22:00"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := []string{}
			for _, o := range preview(t, spec("Europe/Berlin", test.recurrence, "1h"), test.from, test.to).Occurrences {
				got = append(got, o.LocalStart.Format(toTheMinute))
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestAnInvalidRecurrenceIsRefusedWithItsPath(t *testing.T) {
	tests := []struct{ recurrence, because string }{
		{"  \n", "has neither RRULE nor RDATE: nothing would ever open"},
		{"DTSTART:20261121T220000", "has neither RRULE nor RDATE: nothing would ever open"},
		{"EXDATE:20261121T220000", "has neither RRULE nor RDATE: nothing would ever open"},
		{"FREQ=DAILY;BYHOUR=1\nFREQ=DAILY;BYHOUR=2", "more than one RRULE or DTSTART: a recurrence has one rule and one start"},
		{"DTSTART:20261121T220000\nDTSTART:20261121T220000\nFREQ=DAILY", "more than one RRULE or DTSTART: a recurrence has one rule and one start"},
		{"EXRULE:FREQ=DAILY", "EXRULE: is not one of DTSTART, RRULE, RDATE, EXDATE"},
		{"RRULE;X=1:FREQ=DAILY;BYHOUR=1", `RRULE: must have no parameters, and has "X=1"`},
		{"DTSTART;TZID=America/New_York:20261121T220000\nFREQ=DAILY", "DTSTART: TZID America/New_York contradicts the time zone, Europe/Berlin"},
		{"DTSTART;VALUE=DATE:20261121\nFREQ=DAILY", `DTSTART: parameter "VALUE=DATE": must be VALUE=DATE-TIME or TZID=Europe/Berlin`},
		{"RDATE;VALUE=PERIOD:20261121T220000/PT4H", `RDATE: parameter "VALUE=PERIOD": must be VALUE=DATE-TIME or TZID=Europe/Berlin`},
		{"DTSTART:20261121T220000Z\nFREQ=DAILY", "DTSTART: 20261121T220000Z is in UTC, but the window uses local time in Europe/Berlin: write the local time, without Z"},
		{"DTSTART:20261121\nFREQ=DAILY", `DTSTART: "20261121" is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z`},
		{"DTSTART:20260230T220000\nFREQ=DAILY", `DTSTART: "20260230T220000" is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z`},
		{"DTSTART:20261121T220000.5\nFREQ=DAILY", `DTSTART: "20261121T220000.5" is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z`},
		{"RDATE:20261121T220000,", `RDATE: "" is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z`},
		{"RDATE:19691231T235959", `RDATE: "19691231T235959": the year must be from 1970 to 9000`},
		{"EXDATE:99991231T235959Z\nFREQ=DAILY;BYHOUR=1", `EXDATE: "99991231T235959Z": the year must be from 1970 to 9000`},

		{"every Saturday", `RRULE: "EVERY SATURDAY" is not one of FREQ, INTERVAL, WKST, COUNT, UNTIL, BYSETPOS, BYMONTH, BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYDAY, BYHOUR, BYMINUTE, BYSECOND`},
		{"FREQ=YEARLY;BYEASTER=0;BYHOUR=1", `RRULE: "BYEASTER" is not one of FREQ, INTERVAL, WKST, COUNT, UNTIL, BYSETPOS, BYMONTH, BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYDAY, BYHOUR, BYMINUTE, BYSECOND`},
		{"FREQ=DAILY;BYHOUR=1;", `RRULE: "" is not one of FREQ, INTERVAL, WKST, COUNT, UNTIL, BYSETPOS, BYMONTH, BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYDAY, BYHOUR, BYMINUTE, BYSECOND`},
		{"FREQ=DAILY;BYHOUR=", "RRULE: BYHOUR has no value"},
		{"FREQ=DAILY;FREQ=WEEKLY;BYHOUR=1", "RRULE: FREQ is given twice"},
		{"BYHOUR=1", "RRULE: FREQ=: must be HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY"},
		{"FREQ=FORTNIGHTLY;BYHOUR=1", "RRULE: FREQ=FORTNIGHTLY: must be HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY"},
		{"FREQ=SECONDLY", "RRULE: FREQ=SECONDLY: a window opens hourly at most; give the minutes in BYMINUTE"},
		{"FREQ=MINUTELY;INTERVAL=30", "RRULE: FREQ=MINUTELY: a window opens hourly at most; give the minutes in BYMINUTE"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;COUNT=3;UNTIL=20270101T000000", "RRULE: COUNT and UNTIL: give only one of them"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;COUNT=0", "RRULE: COUNT=0: must be from 1 to 10000"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;COUNT=10001", "RRULE: COUNT=10001: must be from 1 to 10000"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;INTERVAL=0", "RRULE: INTERVAL=0: must be from 1 to 1000"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;INTERVAL=-1", "RRULE: INTERVAL=-1: must be from 1 to 1000"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;INTERVAL=9223372036854775807", "RRULE: INTERVAL=9223372036854775807: must be whole numbers, of at most 5 digits"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;INTERVAL=1001", "RRULE: INTERVAL=1001: must be from 1 to 1000"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;INTERVAL=1,2", "RRULE: INTERVAL=1,2: must be one number"},
		{"DTSTART:20261121T220000\nFREQ=HOURLY;INTERVAL=5", "RRULE: INTERVAL=5: with FREQ=HOURLY it must divide the 24 hours of a day"},
		{"DTSTART:20261121T220000\nFREQ=DAILY;UNTIL=20270101", `RRULE: UNTIL: "20270101" is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z`},
		{"FREQ=WEEKLY;BYDAY=SAT;BYHOUR=1", "RRULE: BYDAY=SAT: must be days of the week, e.g. SA, or -1FR for the last Friday"},
		{"FREQ=MONTHLY;BYDAY=0SA;BYHOUR=1", "RRULE: BYDAY=0SA: must be days of the week, e.g. SA, or -1FR for the last Friday"},
		{"FREQ=MONTHLY;BYDAY=SA,;BYHOUR=1", "RRULE: BYDAY=SA,: must be days of the week, e.g. SA, or -1FR for the last Friday"},
		{"FREQ=WEEKLY;BYDAY=2SA;BYHOUR=1", "RRULE: BYDAY=2SA: days are numbered within a month or a year only"},
		{"FREQ=YEARLY;BYDAY=2SA;BYWEEKNO=3;BYHOUR=1", "RRULE: BYDAY=2SA: days are numbered within a month or a year only"},
		{"FREQ=MONTHLY;BYDAY=6SA;BYHOUR=1", "RRULE: BYDAY=6SA: no month has more than five of a day"},
		{"FREQ=YEARLY;BYMONTH=3;BYDAY=-6SA;BYHOUR=1", "RRULE: BYDAY=-6SA: no month has more than five of a day"},
		{"FREQ=YEARLY;BYDAY=54SA;BYHOUR=1", "RRULE: byday must be between 1 and 53 or -1 and -53"},
		{"FREQ=YEARLY;BYWEEKNO=3;BYHOUR=1", "RRULE: BYWEEKNO needs FREQ=YEARLY and BYDAY"},
		{"FREQ=MONTHLY;BYWEEKNO=3;BYDAY=MO;BYHOUR=1", "RRULE: BYWEEKNO needs FREQ=YEARLY and BYDAY"},
		{"FREQ=DAILY;BYYEARDAY=3;BYHOUR=1", "RRULE: BYYEARDAY needs FREQ=YEARLY"},
		{"FREQ=WEEKLY;BYMONTHDAY=3;BYHOUR=1", "RRULE: BYMONTHDAY cannot be combined with FREQ=WEEKLY"},
		{"FREQ=DAILY;BYSETPOS=1", "RRULE: BYSETPOS needs another part to choose from, e.g. BYDAY"},
		{"FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=1", "RRULE: BYSETPOS cannot be combined with FREQ=HOURLY"},
		{"FREQ=WEEKLY;BYDAY=MO;WKST=2MO;BYHOUR=1", "RRULE: WKST=2MO: must be a day of the week, e.g. MO"},
		{"FREQ=DAILY;BYHOUR=24", "RRULE: byhour must be between 0 and 23"},
		{"FREQ=HOURLY;BYHOUR=24", "RRULE: byhour must be between 0 and 23"},
		{"FREQ=DAILY;BYHOUR=1;BYSECOND=60", "RRULE: bysecond must be between 0 and 59"},
		{"FREQ=MONTHLY;BYMONTHDAY=0;BYHOUR=1", "RRULE: bymonthday must be between 1 and 31 or -1 and -31"},
		{"FREQ=DAILY;BYHOUR=noon", "RRULE: BYHOUR=NOON: must be whole numbers, of at most 5 digits"},

		{"FREQ=DAILY", "RRULE: has no time of day: give BYHOUR, e.g. BYHOUR=22;BYMINUTE=30, or a line DTSTART:20261121T223000 before the rule"},
		{"FREQ=WEEKLY;BYHOUR=22", "RRULE: has no day: give BYDAY or BYMONTHDAY, or a line DTSTART:20261121T220000 before the rule"},
		{"FREQ=MONTHLY;BYHOUR=22", "RRULE: has no day: give BYDAY or BYMONTHDAY, or a line DTSTART:20261121T220000 before the rule"},
		{"FREQ=YEARLY;BYMONTH=2;BYHOUR=22", "RRULE: has no day: give BYDAY or BYMONTHDAY, or a line DTSTART:20261121T220000 before the rule"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=SA;BYHOUR=22", "RRULE: COUNT and INTERVAL need a start: add a line before the rule, e.g. DTSTART:20261121T220000"},
		{"FREQ=DAILY;COUNT=2;BYHOUR=22", "RRULE: COUNT and INTERVAL need a start: add a line before the rule, e.g. DTSTART:20261121T220000"},

		{"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=1", "RRULE: never happens"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=1", "RRULE: never happens"},
		{"DTSTART:20261120T000000\nFREQ=DAILY;INTERVAL=7;BYDAY=MO", "RRULE: never happens"},
		{"DTSTART:20261120T220000\nFREQ=DAILY;UNTIL=20261119T000000", "RRULE: never happens"},
		{"DTSTART:20261120T000000\nFREQ=HOURLY;INTERVAL=2;BYHOUR=1", "RRULE: never happens: the interval skips every hour of BYHOUR"},
		{"FREQ=HOURLY;BYMINUTE=" + numbers(60), "RRULE: has 1440 starts a day, more than 288"},
		{"FREQ=YEARLY;BYMONTHDAY=1;BYHOUR=" + numbers(24) + ";BYMINUTE=" + numbers(60) + ";BYSECOND=" + numbers(60), "RRULE: has 86400 starts a day, more than 288"},
	}
	for _, test := range tests {
		t.Run(test.recurrence[:min(len(test.recurrence), 60)], func(t *testing.T) {
			spec := spec("Europe/Berlin", test.recurrence, "1h")
			invalid := windows.Check(&spec, field.NewPath("spec"))
			require.Len(t, invalid, 1)
			require.Equal(t, "spec.recurrence", invalid[0].Field)
			require.Equal(t, test.because, invalid[0].Detail)
		})
	}
}

// numbers writes the numbers from 0 to one less than n.
func numbers(n int) string {
	text := make([]string, n)
	for i := range text {
		text[i] = strconv.Itoa(i)
	}
	return strings.Join(text, ",")
}
