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

// driven is the state of a window that a test advances; it reads the calendar when needed.
type driven struct {
	*windows.State
	t      require.TestingT
	object drydockv1.MaintenanceWindow
	now    time.Time
	// happened are the kinds of all events so far.
	happened []windows.EventKind
	events   []windows.Event
}

func drive(t require.TestingT, spec drydockv1.MaintenanceWindowSpec, now string) *driven {
	d := &driven{State: &windows.State{}, t: t, now: at(now).Time}
	d.define(spec)
	return d
}

func (d *driven) define(spec drydockv1.MaintenanceWindowSpec) {
	d.object = drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"}, Spec: spec}
	d.Define(windows.DefineRequest{Object: d.object}, d.schedule(&d.object, d.now), d.now)
}

func (d *driven) schedule(of *drydockv1.MaintenanceWindow, from time.Time) windows.Schedule {
	window, err := windows.New(of)
	require.NoError(d.t, err)
	schedule, err := window.Schedule(from)
	require.NoError(d.t, err)
	return schedule
}

// pass advances to a moment in one step, as after an outage.
func (d *driven) pass(now time.Time) {
	d.now = now
	for {
		events := d.Advance(now)
		d.events = append(d.events, events...)
		for _, e := range events {
			d.happened = append(d.happened, e.Kind)
		}
		if len(events) > 0 {
			continue
		}
		from, stale := d.Stale(now)
		if !stale {
			return
		}
		require.True(d.t, from.After(d.Read), "the calendar is read in a loop from %s on", from)
		d.SetSchedule(from, d.schedule(d.Window, from))
	}
}

func (d *driven) passTo(now string) { d.pass(at(now).Time) }

// walk advances from one due moment to the next, until a moment.
func (d *driven) walk(until string) {
	for {
		d.pass(d.now)
		next, changes := d.Next(d.now)
		if !changes || next.After(at(until).Time) {
			d.passTo(until)
			return
		}
		d.now = next
	}
}

func TestAWindowOpensCutsOffAndClosesForEachOpening(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.walk("2026-12-03T12:00:00Z")
	turn := []windows.EventKind{windows.EventStarted, windows.EventCutoff, windows.EventEnded}
	require.Equal(t, append(turn, turn...), d.happened)
	require.Equal(t, at("2026-12-01T22:00:00Z").UTC(), d.events[0].At)
	require.Equal(t, at("2026-12-02T01:30:00Z").UTC(), d.events[1].At)
	require.Equal(t, at("2026-12-02T02:00:00Z").UTC(), d.events[2].At)
	require.Equal(t, windows.PhaseClosed, d.Phase(d.now))
}

func TestAnOutageOverTheStartDelaysOrMissesTheOpening(t *testing.T) {
	for name, tt := range map[string]struct {
		back     string
		happened []windows.EventKind
		message  string
	}{
		"that ends before the cutoff":     {"2026-12-02T01:00:00Z", []windows.EventKind{windows.EventStarted}, "opened 3h0m0s late"},
		"that ends after the cutoff":      {"2026-12-02T01:30:00Z", []windows.EventKind{windows.EventMissed}, "missed"},
		"that lasts over two occurrences": {"2026-12-03T03:00:00Z", []windows.EventKind{windows.EventMissed, windows.EventMissed}, "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, night(), "2026-12-01T12:00:00Z")
			d.passTo(tt.back)
			require.Equal(t, tt.happened, d.happened)
			require.Contains(t, d.events[0].Message, tt.message)
			d.passTo(tt.back)
			require.Equal(t, tt.happened, d.happened, "each event is reported once")
		})
	}
}

func TestAMissedOpeningDoesNotMakeTheCalendarReadInALoop(t *testing.T) {
	early := night()
	early.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: []drydockv1.Duration{"100h"}}}
	cancelled := func(d *driven) {
		for _, o := range d.Upcoming()[1:] {
			d.Cancel(windows.CancelRequest{Start: o.Start}, d.now)
		}
	}
	for name, tt := range map[string]struct {
		spec    drydockv1.MaintenanceWindowSpec
		defined string
		before  func(*driven)
	}{
		"when notifications are due for openings that are not known yet": {early, "2026-12-01T12:00:00Z", func(*driven) {}},
		"when the window is defined after the cutoff":                    {early, "2026-12-02T01:40:00Z", func(*driven) {}},
		"when all others are cancelled":                                  {night(), "2026-12-01T12:00:00Z", cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, tt.spec, tt.defined)
			tt.before(d)
			d.passTo("2026-12-02T01:45:00Z")
			d.walk("2026-12-02T02:00:00Z")
			require.NotEmpty(t, d.Upcoming(), "the calendar is read again when the opening has ended")
		})
	}
}

func TestAnOpeningBeforeTheDefinitionIsNotMissed(t *testing.T) {
	d := drive(t, night(), "2026-12-02T01:45:00Z")
	d.passTo("2026-12-02T01:45:00Z")
	require.Empty(t, d.happened)
	early := drive(t, night(), "2026-12-02T01:00:00Z")
	early.passTo("2026-12-02T01:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted}, early.happened, "the opening was defined before its start")
	require.NotContains(t, early.events[0].Message, "late")
}

func TestAnOutageOverTheEndClosesTheWindow(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T23:00:00Z")
	d.passTo("2026-12-02T20:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted, windows.EventEnded}, d.happened)
	require.Equal(t, at("2026-12-02T22:00:00Z").UTC(), d.Upcoming()[0].Start)
}

func TestEachLeadSendsOneNotification(t *testing.T) {
	s := night()
	s.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: []drydockv1.Duration{"24h", "1h"}}, {URL: "https://b", Leads: []drydockv1.Duration{"1h"}}}
	d := drive(t, s, "2026-11-30T12:00:00Z")
	d.walk("2026-12-01T21:30:00Z")
	var leads []string
	for _, e := range d.events {
		if e.Kind == windows.EventUpcoming && e.Opening.Start.Equal(at("2026-12-01T22:00:00Z").Time) {
			leads = append(leads, e.Receiver+" "+e.Lead)
		}
	}
	require.Equal(t, []string{"https://a 24h", "https://a 1h", "https://b 1h"}, leads)

	late := drive(t, s, "2026-12-01T21:30:00Z")
	late.passTo("2026-12-01T21:30:00Z")
	require.Len(t, late.events, 2, "of two leads that are due together, the shortest counts")
	require.Equal(t, "1h", late.events[0].Lead)
}

func TestALeadShortlyBeforeTheStartSendsANotification(t *testing.T) {
	s := night()
	s.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: []drydockv1.Duration{"2m", "45s", "10s"}}}
	d := drive(t, s, "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T22:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventUpcoming, windows.EventUpcoming, windows.EventUpcoming, windows.EventStarted}, d.happened)
	require.Equal(t, at("2026-12-01T21:59:50Z").UTC(), d.events[2].At.UTC())
}

func TestExtendMovesTheEndOfTheCurrentOpening(t *testing.T) {
	extend := func(end string) windows.ExtendRequest { return windows.ExtendRequest{End: at(end).Time} }
	s := night()
	s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionTrim, once("2026-12-02T04:00:00Z", "2026-12-02T06:00:00Z"))}
	d := drive(t, s, "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T23:00:00Z")

	require.ErrorContains(t, d.CheckExtend(extend("2026-12-01T22:30:00Z"), d.now), "is not after now")
	require.ErrorContains(t, d.CheckExtend(extend("2026-12-02T01:00:00Z"), d.now), "is not after the end of the opening")
	require.ErrorContains(t, d.CheckExtend(extend("2026-12-02T05:00:00Z"), d.now), "an exclusion begins at 2026-12-02T04:00:00Z")
	forced := extend("2026-12-02T05:00:00Z")
	forced.Force = true
	require.EqualError(t, d.CheckExtend(forced, d.now), "reason: required to extend into an exclusion")
	forced.Reason = "no backup tonight"
	require.NoError(t, d.CheckExtend(forced, d.now))
	d.Extend(forced, d.now)
	d.walk("2026-12-02T04:40:00Z")
	require.Equal(t, windows.PhaseCutoff, d.Phase(d.now), "the cutoff moves with the end")
	d.passTo("2026-12-02T04:20:00Z")
	verdict := windows.Ask([]windows.Snapshot{snapshotOf(d)}, at("2026-12-02T04:20:00Z").Time, 0)
	require.True(t, verdict.Allowed, "%+v", verdict)
	d.walk("2026-12-02T05:00:00Z")
	require.Equal(t, windows.PhaseClosed, d.Phase(d.now))
}

// snapshotOf returns the state that subscribers receive now.
func snapshotOf(d *driven) windows.Snapshot {
	s := d.Snapshot("prod/night", d.now)
	s.Number = 1
	return s
}

func TestTheNextOpeningCanBeExtendedAndCancelled(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	request := windows.ExtendRequest{End: at("2026-12-02T03:00:00Z").Time}
	require.NoError(t, d.CheckExtend(request, d.now))
	d.Extend(request, d.now)
	require.Equal(t, at("2026-12-02T03:00:00Z").UTC(), d.Upcoming()[0].End.UTC())

	require.ErrorContains(t, d.CheckCancel(windows.CancelRequest{Start: at("2026-11-30T22:00:00Z").Time}, d.now), "is in the past")
	require.ErrorContains(t, d.CheckCancel(windows.CancelRequest{Start: at("2026-12-01T22:01:00Z").Time}, d.now), "the next starts at 2026-12-01T22:00:00Z")
	require.NoError(t, d.CheckCancel(windows.CancelRequest{}, d.now))
	d.Cancel(windows.CancelRequest{}, d.now)
	d.walk("2026-12-02T12:00:00Z")
	require.Empty(t, d.happened)
	d.walk("2026-12-02T22:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted}, d.happened)
}

func TestACurrentOpeningThatIsCancelledOrEndedDoesNotOpenAgain(t *testing.T) {
	for name, order := range map[string]func(d *driven){
		"cancelled": func(d *driven) {
			require.NoError(t, d.CheckCancel(windows.CancelRequest{}, d.now))
			d.Cancel(windows.CancelRequest{}, d.now)
		},
		"ended": func(d *driven) {
			require.NoError(t, d.CheckEnd(windows.EndRequest{}, d.now))
			d.End(windows.EndRequest{}, d.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, night(), "2026-12-01T12:00:00Z")
			require.ErrorContains(t, d.CheckEnd(windows.EndRequest{}, d.now), "is not open")
			d.walk("2026-12-01T23:00:00Z")
			order(d)
			d.walk("2026-12-02T12:00:00Z")
			require.Equal(t, []windows.EventKind{windows.EventStarted, windows.EventEnded}, d.happened)
			require.Equal(t, at("2026-12-02T22:00:00Z").UTC(), d.Upcoming()[0].Start)
		})
	}
}

// One window has reported its end, and the other has not yet reported its start.
func TestWorkStaysBetweenTwoAdjacentWindows(t *testing.T) {
	early, late := night(), night()
	early.Recurrence, early.OnOverrun, late.OnOverrun = "FREQ=DAILY;BYHOUR=18", drydockv1.OverrunCancel, drydockv1.OverrunCancel
	first, second := drive(t, early, "2026-12-01T12:00:00Z"), drive(t, late, "2026-12-01T12:00:00Z")
	first.walk("2026-12-01T22:00:00Z")
	for after, action := range map[time.Duration]drydockv1.OverrunAction{
		0: drydockv1.OverrunFinish, 59 * time.Second: drydockv1.OverrunFinish, time.Minute: drydockv1.OverrunCancel,
	} {
		now := first.now.Add(after)
		snapshots := []windows.Snapshot{snapshotOf(first), snapshotOf(second)}
		hold := windows.Closure(snapshots, windows.Ask(snapshots, now, 0), now)
		require.NotNil(t, hold, "no new work starts")
		require.Equal(t, action, hold.OnOverrun, after)
	}
	alone := []windows.Snapshot{snapshotOf(first)}
	require.Equal(t, drydockv1.OverrunCancel, windows.Closure(alone, windows.Ask(alone, first.now, 0), first.now).OnOverrun)
}

// A script that retries must not lose another night.
func TestARepeatedCancellationNamesTheSameOpeningAndChangesNothing(t *testing.T) {
	next := windows.CancelRequest{}
	for name, tt := range map[string]struct {
		now, later string
		request    windows.CancelRequest
		answer     string
	}{
		"of the next opening": {"2026-12-01T12:00:00Z", "2026-12-01T13:00:00Z", next, "the opening of 2026-12-01 22:00:00Z"},
		"of the next opening, repeated while it would be open": {"2026-12-01T12:00:00Z", "2026-12-02T01:00:00Z", next, "the opening of 2026-12-01 22:00:00Z"},
		"of the current opening":                               {"2026-12-01T23:00:00Z", "2026-12-01T23:30:00Z", next, "the opening of 2026-12-01 22:00:00Z"},
		"of the current opening by name": {
			"2026-12-01T23:00:00Z", "2026-12-01T23:30:00Z", windows.CancelRequest{Start: at("2026-12-01T22:00:00Z").Time}, "the opening of 2026-12-01 22:00:00Z",
		},
		"of another opening": {
			"2026-12-01T12:00:00Z", "2026-12-01T13:00:00Z", windows.CancelRequest{Start: at("2026-12-02T22:00:00Z").Time}, "the opening of 2026-12-02 22:00:00Z",
		},
		"of all openings": {"2026-12-01T12:00:00Z", "2026-12-01T13:00:00Z", windows.CancelRequest{All: true}, "the window"},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, night(), "2026-12-01T11:00:00Z")
			d.walk(tt.now)
			require.NoError(t, d.CheckCancel(tt.request, d.now))
			require.Equal(t, windows.EventCancelled, d.Cancel(tt.request, d.now).Kind)
			d.walk(tt.later)
			openings, recorded := d.Upcoming(), len(d.Events)

			require.NoError(t, d.CheckCancel(tt.request, d.now))
			event := d.Cancel(tt.request, d.now)
			require.Empty(t, event.Kind)
			require.Contains(t, event.Message, tt.answer+" was cancelled before; nothing changes")
			require.Equal(t, openings, d.Upcoming())
			require.Len(t, d.Events, recorded)
		})
	}
	t.Run("is a new request once the opening is past", func(t *testing.T) {
		d := drive(t, night(), "2026-12-01T11:00:00Z")
		d.Cancel(next, d.now)
		d.walk("2026-12-02T02:00:00Z")
		require.Equal(t, "the opening of 2026-12-02 22:00:00Z is cancelled", d.Cancel(next, d.now).Message)
	})
}

func TestCancellingAnOpeningAnnouncesTheOneAfterIt(t *testing.T) {
	for name, tt := range map[string]struct {
		start     string
		announced []string
	}{
		"the next":    {"2026-12-01T22:00:00Z", []string{"2026-12-01T22:00:00Z", "2026-12-02T22:00:00Z"}},
		"a later one": {"2026-12-02T22:00:00Z", []string{"2026-12-01T22:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := night()
			s.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: []drydockv1.Duration{"1h"}}}
			d := drive(t, s, "2026-12-01T12:00:00Z")
			d.walk("2026-12-01T21:30:00Z")
			request := windows.CancelRequest{Start: at(tt.start).Time}
			require.NoError(t, d.CheckCancel(request, d.now))
			d.Cancel(request, d.now)
			d.walk("2026-12-02T21:30:00Z")
			var announced []string
			for _, e := range d.events {
				if e.Kind == windows.EventUpcoming {
					announced = append(announced, e.Opening.Start.UTC().Format(time.RFC3339))
				}
			}
			require.Equal(t, tt.announced, announced)
		})
	}
}

func TestSubscribersReceiveTheStartAndTheEndOfAnExclusion(t *testing.T) {
	s := night()
	s.Exclusions = []drydockv1.WindowExclusion{excluding("audit", drydockv1.ExclusionDrop, once("2026-12-01T13:00:00Z", "2026-12-01T14:00:00Z"))}
	d := drive(t, s, "2026-12-01T12:00:00Z")
	for _, moment := range []string{"2026-12-01T13:00:00Z", "2026-12-01T14:00:00Z"} {
		require.False(t, d.ExclusionChanged(d.now))
		next, changes := d.Next(d.now)
		require.True(t, changes)
		require.Equal(t, at(moment).UTC(), next.UTC())
		d.passTo(moment)
		require.True(t, d.ExclusionChanged(d.now))
	}
	next, _ := d.Next(d.now)
	require.WithinRange(t, next, at("2026-12-01T21:58:30Z").Time, at("2026-12-01T21:59:30Z").Time, "the opening is confirmed")
}

func TestACancelledWindowIsOver(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.Cancel(windows.CancelRequest{All: true}, d.now)
	require.Equal(t, windows.PhaseOver, d.Phase(d.now))
	d.pass(d.now)
	_, changes := d.Next(d.now)
	require.False(t, changes)
	require.ErrorContains(t, d.CheckExtend(windows.ExtendRequest{End: at("2026-12-02T03:00:00Z").Time}, d.now), "no more openings")
	require.NoError(t, d.CheckDefine(windows.DefineRequest{Object: d.object}, d.now), "it may be defined again")
	d.define(night())
	d.walk("2026-12-01T22:00:00Z")
	require.Equal(t, windows.PhaseOpen, d.Phase(d.now))
}

func TestAnEditKeepsTheEndOfTheCurrentOpening(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T23:00:00Z")
	longer := spec("UTC", "FREQ=DAILY;BYHOUR=21", "8h")
	d.define(longer)
	d.walk("2026-12-02T12:00:00Z")
	require.Equal(t, at("2026-12-02T02:00:00Z").UTC(), d.events[len(d.events)-1].At.UTC())
	require.Equal(t, at("2026-12-02T21:00:00Z").UTC(), d.Upcoming()[0].Start)
}

func TestAWindowWithoutFurtherOpeningsIsOver(t *testing.T) {
	s := night()
	s.NotAfter = at("2026-12-02T12:00:00Z")
	d := drive(t, s, "2026-12-01T12:00:00Z")
	d.walk("2026-12-02T12:00:00Z")
	require.Equal(t, windows.PhaseOver, d.Phase(d.now))
}

func TestAnOverrideIgnoresExclusionsAndExpires(t *testing.T) {
	s := night()
	s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionDrop, once("2026-12-01T00:00:00Z", "2026-12-05T00:00:00Z"))}
	d := drive(t, s, "2026-12-01T12:00:00Z")
	request := windows.OverrideRequest{Until: at("2026-12-01T13:00:00Z").Time}
	require.ErrorContains(t, d.CheckOverride(request, d.now), "actor:")
	request.Actor = "ann"
	require.ErrorContains(t, d.CheckOverride(request, d.now), "reason:")
	request.Reason = "CVE"
	require.ErrorContains(t, d.CheckOverride(windows.OverrideRequest{Request: request.Request, Until: d.now}, d.now), "is not after now")
	require.ErrorContains(t, d.CheckOverride(windows.OverrideRequest{Request: request.Request, Until: d.now.AddDate(0, 0, 8)}, d.now), "ahead")
	require.NoError(t, d.CheckOverride(request, d.now))
	d.SetOverride(request, d.now)
	require.True(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, d.now, 0).Allowed)
	require.Equal(t, "ann", d.Events[len(d.Events)-1].By, "the event names the person")
	require.False(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, request.Until, 0).Allowed, "its expiry needs no update of subscribers")
	d.walk("2026-12-01T13:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventOverrideEnded}, d.happened)
	require.False(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, d.now, 0).Allowed)
}

func TestEveryNotificationHasItsOwnID(t *testing.T) {
	s := night()
	s.Notify = []drydockv1.WindowNotification{{URL: "https://a/secret", Leads: []drydockv1.Duration{"24h", "1h"}}, {URL: "https://b"}}
	d := drive(t, s, "2026-11-30T12:00:00Z")
	d.walk("2026-12-03T12:00:00Z")
	seen := map[string]bool{}
	for _, e := range d.events {
		for _, notice := range windows.Notices("prod/night", s, e) {
			require.False(t, seen[notice.ID], notice.ID)
			require.NotContains(t, notice.ID, "secret")
			seen[notice.ID] = true
		}
	}
	// For three openings: two leads of one receiver, and start, cutoff and end for both. For the fourth: a lead.
	require.Len(t, seen, 3*(2+2*3)+1)
}

// The state that subscribers receive and the calendar give the same answer, at every moment.
func TestTheStateOfAWindowGivesTheVerdictOfItsCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := night()
		s.TimeZone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone")
		s.Recurrence = rapid.SampledFrom([]string{"FREQ=DAILY;BYHOUR=22", "FREQ=DAILY;BYHOUR=2,8,14,20", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=2"}).Draw(t, "rule")
		if rapid.Bool().Draw(t, "frozen") {
			effect := rapid.SampledFrom([]drydockv1.ExclusionEffect{drydockv1.ExclusionDrop, drydockv1.ExclusionTrim}).Draw(t, "effect")
			s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", effect, recurring("FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=23", "2h"))}
		}
		d := drive(t, s, "2026-03-20T12:00:00Z")
		for range 20 {
			d.pass(d.now.Add(time.Duration(rapid.IntRange(1, 20*60).Draw(t, "minutes")) * time.Minute))
			need := time.Duration(rapid.IntRange(0, 60).Draw(t, "need")) * time.Minute
			window, err := windows.New(&d.object)
			require.NoError(t, err)
			want, err := windows.Allows([]*windows.Window{window}, windows.Question{Now: d.now, Need: need})
			require.NoError(t, err)
			got := windows.Ask([]windows.Snapshot{snapshotOf(d)}, d.now, need)
			require.Equal(t, want.Allowed, got.Allowed, "%s: %+v, not %+v", d.now, got, want)
			if want.NextOpen != nil && got.NextOpen != nil {
				require.True(t, want.NextOpen.Equal(*got.NextOpen), "%s: opens next %s, not %s", d.now, got.NextOpen, want.NextOpen)
			}
		}
	})
}

func TestAWindowOfUnknownStateIsClosed(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T23:00:00Z")
	good := snapshotOf(d)
	silent, undefined := windows.Snapshot{Window: "prod/other"}, (&windows.State{}).Snapshot("prod/other", d.now)
	undefined.Number = 1
	unopened := good
	unopened.Schedule.Openings = append([]windows.Opening{}, good.Schedule.Openings...)
	unopened.Schedule.Openings[0].Begun = false
	for name, tt := range map[string]struct {
		snapshots []windows.Snapshot
		reason    windows.Reason
		trouble   string
	}{
		"a window without an update":       {[]windows.Snapshot{good, silent}, windows.ReasonUnknown, "window prod/other has not reported its state yet"},
		"an undefined window":              {[]windows.Snapshot{good, undefined}, windows.ReasonUnknown, "window prod/other counts as closed: the window is not defined"},
		"an opening that was not reported": {[]windows.Snapshot{unopened}, windows.ReasonClosed, "window prod/night is closed; it opens 2026-12-02 22:00:00Z"},
		"a cluster that no window selects": {nil, windows.ReasonNoWindow, "none of the maintenance windows selects the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := windows.Ask(tt.snapshots, d.now, 0)
			require.False(t, verdict.Allowed)
			require.Equal(t, tt.reason, verdict.Reason)
			require.Contains(t, windows.Explain(tt.snapshots, verdict), tt.trouble)
		})
	}
	require.True(t, windows.Ask([]windows.Snapshot{good}, d.now, 0).Allowed)
	require.True(t, windows.Ask([]windows.Snapshot{good}, at("2026-12-01T21:59:59Z").Time, 0).Allowed, "the clock of the subscriber may be behind")
}

func TestTheStrictestOverrunActionOfSeveralWindowsApplies(t *testing.T) {
	of := func(actions ...drydockv1.OverrunAction) []windows.Snapshot {
		var snapshots []windows.Snapshot
		for _, action := range actions {
			snapshots = append(snapshots, windows.Snapshot{OnOverrun: action})
		}
		return snapshots
	}
	require.Equal(t, drydockv1.OverrunFinish, windows.Overrun(of(drydockv1.OverrunFinish, "")))
	require.Equal(t, drydockv1.OverrunPause, windows.Overrun(of(drydockv1.OverrunFinish, drydockv1.OverrunPause)))
	require.Equal(t, drydockv1.OverrunCancel, windows.Overrun(of(drydockv1.OverrunPause, drydockv1.OverrunCancel)))
}

// A window keeps its state from run to run as JSON.
func TestTheStateOfAWindowSurvivesJSON(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	for i := range 20 {
		text, err := json.Marshal(d.State)
		require.NoError(t, err)
		d.State = &windows.State{}
		require.NoError(t, json.Unmarshal(text, d.State))
		d.walk(fmt.Sprintf("2026-12-%02dT00:00:00Z", i+2))
	}
	require.Len(t, d.happened, 20*3-2)
	require.LessOrEqual(t, len(d.Events), 30)
}
