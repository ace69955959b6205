package windows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// withNotifications is a window whose receiver has these leads.
func withNotifications(s drydockv1.MaintenanceWindowSpec, leads ...drydockv1.Duration) drydockv1.MaintenanceWindowSpec {
	s.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: leads}}
	return s
}

// Subscribers receive eight days and fifty openings ahead; notifications may be due earlier.
func TestNotificationsOfDistantOpeningsAreInTime(t *testing.T) {
	hourly := spec("UTC", "FREQ=HOURLY;BYMINUTE=0", "30m")
	for name, tt := range map[string]struct {
		spec drydockv1.MaintenanceWindowSpec
		lead drydockv1.Duration
	}{
		"two days":                          {night(), "48h"},
		"four days":                         {night(), "100h"},
		"beyond the range of subscribers":   {night(), "300h"},
		"a season":                          {night(), "2160h"},
		"of a window that opens every hour": {hourly, "240h"},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, withNotifications(tt.spec, tt.lead, "10m"), "2026-11-20T12:30:00Z")
			defined := d.now
			d.walk("2026-12-05T12:30:00Z")
			sent := map[string]map[time.Time]bool{"10m": {}, string(tt.lead): {}}
			for _, e := range d.events {
				if e.Kind != windows.EventUpcoming {
					continue
				}
				require.Equal(t, later(e.Opening.Start.Add(-length(t, e.Lead)), defined).UTC(), e.At.UTC(), "%s before %s", e.Lead, e.Opening.Start)
				require.False(t, sent[e.Lead][e.Opening.Start], "%s before %s twice", e.Lead, e.Opening.Start)
				sent[e.Lead][e.Opening.Start] = true
			}
			for lead, starts := range sent {
				calendar, err := window(t, "w", d.object.Spec).Preview(defined, d.now.Add(length(t, lead)+time.Second))
				require.NoError(t, err)
				require.Len(t, starts, len(calendar.Occurrences), lead)
			}
		})
	}
}

func TestNotificationsOfFarOpeningsThatAreDueAfterAnOutageAreSent(t *testing.T) {
	d := drive(t, withNotifications(night(), "2160h"), "2026-11-20T12:00:00Z")
	d.walk("2026-11-20T12:00:00Z")
	d.events = nil
	d.passTo("2026-12-20T12:00:00Z")
	var sent []string
	for _, e := range d.events {
		if e.Kind == windows.EventUpcoming {
			sent = append(sent, e.Opening.Start.UTC().Format(time.DateOnly))
		}
	}
	require.Len(t, sent, 30)
	require.Equal(t, "2027-02-18", sent[0])
	require.Equal(t, "2027-03-19", sent[29])
}

// Each opening needs a workflow for every receiver. One run of the window cannot start a thousand.
func TestManyDueNotificationsAreSentInParts(t *testing.T) {
	d := drive(t, withNotifications(night(), "2160h"), "2026-11-20T12:00:00Z")
	sent := 0
	for {
		events := d.Advance(d.now)
		require.LessOrEqual(t, len(events), 20)
		if sent += len(events); len(events) == 0 {
			break
		}
	}
	require.Equal(t, 90, sent)
}

// The state for subscribers is small, however long the leads are.
func TestSubscribersDoNotReceiveFarOpenings(t *testing.T) {
	near, far := drive(t, night(), "2026-11-20T12:00:00Z"), drive(t, withNotifications(night(), "2160h"), "2026-11-20T12:00:00Z")
	require.Equal(t, snapshotOf(near).Schedule, snapshotOf(far).Schedule)
}

func TestAnOpeningCanBeCancelledAfterAnEarlyNotification(t *testing.T) {
	d := drive(t, withNotifications(night(), "720h"), "2026-11-20T12:00:00Z")
	d.walk("2026-11-25T22:00:00Z")
	far := windows.CancelRequest{Start: at("2026-12-20T22:00:00Z").Time}
	require.NoError(t, d.CheckCancel(far, d.now))
	d.Cancel(far, d.now)
	d.events = nil
	d.walk("2026-12-22T12:00:00Z")
	for _, e := range d.events {
		require.False(t, e.Opening.Start.Equal(far.Start), "%s: %s", e.Kind, e.Message)
	}
	require.Equal(t, at("2026-12-21T22:00:00Z").UTC(), d.events[len(d.events)-1].Opening.Start.UTC())
}

// One opening is extended into the next one, or beyond it, and then shortened.
func TestAnOpeningThatIsRestoredIsNotified(t *testing.T) {
	for name, tt := range map[string]struct {
		order func(d *driven)
		at    string
	}{
		"because the previous opening is ended":                      {func(d *driven) { d.End(windows.EndRequest{}, d.now) }, "2026-12-02T21:00:00Z"},
		"because the previous opening is cancelled":                  {func(d *driven) { d.Cancel(windows.CancelRequest{}, d.now) }, "2026-12-02T21:00:00Z"},
		"because the previous opening is cancelled before its start": {func(d *driven) { d.Cancel(windows.CancelRequest{}, d.now) }, "2026-12-01T21:00:00Z"},
	} {
		for extended, until := range map[string]string{"beyond it": "2026-12-03T02:00:00Z", "into it": "2026-12-02T23:00:00Z"} {
			t.Run(name+", extended "+extended, func(t *testing.T) {
				d := drive(t, withNotifications(night(), "60h"), "2026-12-01T12:00:00Z")
				d.Extend(windows.ExtendRequest{End: at(until).Time}, d.now)
				d.walk(tt.at)
				require.NotContains(t, upcoming(d), at("2026-12-02T22:00:00Z").UTC(), "the extended opening covers it")
				require.Contains(t, upcoming(d), at("2026-12-03T22:00:00Z").UTC(), "the opening after it")
				d.events = nil
				tt.order(d)
				d.walk(tt.at)
				require.Equal(t, []time.Time{at("2026-12-02T22:00:00Z").UTC()}, upcoming(d), "exactly one notification, of this opening")
			})
		}
	}
}

// upcoming returns the openings with notifications sent in advance.
func upcoming(d *driven) []time.Time {
	var starts []time.Time
	for _, e := range d.events {
		if e.Kind == windows.EventUpcoming {
			starts = append(starts, e.Opening.Start.UTC())
		}
	}
	return starts
}

func TestALeadWithTooManyNotificationsIsRefused(t *testing.T) {
	const everyFiveMinutes = "BYMINUTE=0,5,10,15,20,25,30,35,40,45,50,55"
	often := spec("UTC", "FREQ=HOURLY;"+everyFiveMinutes, "5m")
	bounded := func(s drydockv1.MaintenanceWindowSpec, from, to string) drydockv1.MaintenanceWindowSpec {
		s.NotBefore, s.NotAfter = at(from), at(to)
		return s
	}
	for name, tt := range map[string]struct {
		spec    drydockv1.MaintenanceWindowSpec
		allowed drydockv1.Duration
		refused drydockv1.Duration // empty: none is refused
	}{
		"every five minutes":                 {often, "83h", "84h"},
		"every night":                        {night(), "24000h", "24001h"},
		"once a week":                        {spec("UTC", "FREQ=WEEKLY;BYDAY=SA;BYHOUR=22", "4h"), "168000h", "168001h"},
		"every five minutes on Saturdays":    {spec("UTC", "FREQ=DAILY;BYDAY=SA;BYHOUR=*;"+everyFiveMinutes, "5m"), "500h", "600h"},
		"every five minutes of three days":   {spec("UTC", "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24,25,26;BYHOUR=*;"+everyFiveMinutes, "5m"), "8000h", "9000h"},
		"often until a date":                 {spec("UTC", "DTSTART:20261201T000000\nRRULE:FREQ=HOURLY;"+everyFiveMinutes+";UNTIL=20261203T000000Z", "5m"), "99999h", ""},
		"often between two dates":            {bounded(often, "2026-12-01T00:00:00Z", "2026-12-03T00:00:00Z"), "99999h", ""},
		"at the limit":                       {spec("UTC", "DTSTART:20261201T000000\nRRULE:FREQ=HOURLY;"+everyFiveMinutes+";COUNT=1000", "5m"), "99999h", ""},
		"above the limit":                    {spec("UTC", "DTSTART:20261201T000000\nRRULE:FREQ=HOURLY;"+everyFiveMinutes+";COUNT=1000\nRDATE:20200101T000000", "5m"), "83h", "99999h"},
		"on dates far apart, and every hour": {spec("UTC", "FREQ=HOURLY;BYMINUTE=0\nRDATE:"+yearly(300), "30m"), "998h", "1000h"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.spec
			s.Recurrence = strings.ReplaceAll(s.Recurrence, "BYHOUR=*", "BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23")
			s = withNotifications(s, "1h", tt.allowed)
			require.Empty(t, windows.Check(&s, field.NewPath("spec")))
			if tt.refused == "" {
				return
			}
			s = withNotifications(s, "1h", tt.allowed, tt.refused)
			invalid := windows.Check(&s, field.NewPath("spec"))
			require.Len(t, invalid, 1)
			require.Equal(t, "spec.notify[0].leads[2]", invalid[0].Field)
			require.Contains(t, invalid[0].Detail, "more than 1000 openings")
		})
	}
}

// yearly returns this many dates, a year apart.
func yearly(count int) string {
	var dates []string
	for year := range count {
		dates = append(dates, fmt.Sprintf("%d0101T003000", 2026+year))
	}
	return strings.Join(dates, ",")
}

// The limit of leads may change. A window that was defined before keeps running.
func TestARunningWindowKeepsALeadThatIsTooLong(t *testing.T) {
	d := drive(t, withNotifications(spec("UTC", "FREQ=HOURLY;BYMINUTE=0,30", "10m"), "9000h"), "2026-12-01T12:10:00Z")
	d.walk("2026-12-01T12:45:00Z")
	require.Contains(t, d.happened, windows.EventStarted)
	require.Contains(t, d.happened, windows.EventUpcoming)
	d.Cancel(windows.CancelRequest{All: true}, d.now)
	d.pass(d.now)
	require.Equal(t, windows.PhaseOver, d.Phase(d.now))
}

func length(t *testing.T, lead string) time.Duration {
	elapsed, ok := drydockv1.Duration(lead).Elapsed()
	require.True(t, ok)
	return elapsed
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
