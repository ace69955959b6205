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

// lastSnapshot advances to a moment, and returns the last state that subscribers received, and when.
func (d *driven) lastSnapshot(until string) (windows.Snapshot, time.Time) {
	last, since := snapshotOf(d), d.now
	for next, changes := d.Next(d.now); changes && !next.After(at(until).Time); next, changes = d.Next(d.now) {
		confirmed := d.Confirmed
		before := len(d.events)
		d.pass(next)
		news := !d.Confirmed.Equal(confirmed)
		for _, e := range d.events[before:] {
			news = news || !e.Confirmed
		}
		if news {
			last, since = snapshotOf(d), d.now
		}
	}
	return last, since
}

func TestSubscribersReceiveTheConfirmationBeforeTheStart(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	start := at("2026-12-01T22:00:00Z").UTC()
	require.False(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, start, 0).Allowed, "the window workflow may be terminated before the start")
	_, ahead := snapshotOf(d).Opens(d.now)
	require.False(t, ahead)

	confirmed, since := d.lastSnapshot("2026-12-02T00:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted}, d.happened)
	require.WithinRange(t, since, start.Add(-90*time.Second), start.Add(-30*time.Second), "subscribers receive nothing at the start itself")
	opens, ahead := confirmed.Opens(since)
	require.True(t, ahead)
	require.True(t, opens.Equal(start))
	_, ahead = confirmed.Opens(start)
	require.False(t, ahead)
	require.False(t, windows.Ask([]windows.Snapshot{confirmed}, start.Add(-1), 0).Allowed)
	verdict := windows.Ask([]windows.Snapshot{confirmed}, start, 0)
	require.True(t, verdict.Allowed)
	require.Equal(t, at("2026-12-02T01:30:00Z").UTC(), *verdict.LastStart)
	require.Equal(t, at("2026-12-02T01:30:00Z").UTC(), confirmed.Next.UTC(), "the next update is the cutoff")
}

func TestAConfirmedOpeningIsRecordedSomeTimeAfterItsStart(t *testing.T) {
	start := at("2026-12-01T22:00:00Z").UTC()
	record := func(name string, spec drydockv1.MaintenanceWindowSpec) time.Duration {
		d := &driven{State: &windows.State{}, t: t, now: at("2026-12-01T12:00:00Z").Time}
		d.object = drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Spec: spec}
		d.Define(windows.DefineRequest{Object: d.object}, d.schedule(&d.object, d.now), d.now)
		for len(d.happened) == 0 || d.happened[len(d.happened)-1] != windows.EventStarted {
			next, changes := d.Next(d.now)
			require.True(t, changes)
			d.pass(next)
		}
		last := d.events[len(d.events)-1]
		require.Equal(t, start, last.At, "the event has the time of the start")
		require.NotContains(t, last.Message, "late")
		return d.now.Sub(start)
	}
	seen := map[time.Duration]bool{}
	for i := range 50 {
		after := record(fmt.Sprintf("w-%d", i), night())
		require.Less(t, after, 10*time.Second)
		seen[after] = true
		short := night()
		short.Duration, short.Cutoff = "10s", ""
		require.Less(t, record(fmt.Sprintf("w-%d", i), short), time.Second/2, "an opening of seconds is recorded sooner")
	}
	require.Len(t, seen, 50, "the delays are spread")
	notified := night()
	notified.Notify = []drydockv1.WindowNotification{{URL: "https://a", Leads: []drydockv1.Duration{"1h"}}}
	require.Zero(t, record("night", notified), "a receiver is notified without delay")
}

func TestAnOutageDoesNotMissAConfirmedOpening(t *testing.T) {
	spec := night()
	spec.OnOverrun = drydockv1.OverrunCancel
	d := drive(t, spec, "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T21:59:59Z")
	require.Equal(t, at("2026-12-01T22:00:00Z").UTC(), d.Confirmed)
	d.passTo("2026-12-02T01:45:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted, windows.EventCutoff}, d.happened, "subscribers may have started work")
	require.Contains(t, d.events[0].Message, "recorded 3h45m0s late")
	require.Equal(t, windows.PhaseCutoff, d.Phase(d.now))
	snapshots := []windows.Snapshot{snapshotOf(d)}
	closure := windows.Closure(snapshots, windows.Ask(snapshots, d.now, 0), d.now)
	require.Equal(t, drydockv1.OverrunFinish, closure.OnOverrun, "running work may continue until the window closes")
	d.walk("2026-12-02T02:00:00Z")
	require.Equal(t, windows.EventEnded, d.happened[2])

	over := drive(t, spec, "2026-12-01T12:00:00Z")
	over.walk("2026-12-01T21:59:59Z")
	over.passTo("2026-12-02T02:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventMissed}, over.happened)
}

func TestChangesAfterTheConfirmationReachSubscribers(t *testing.T) {
	start := at("2026-12-01T22:00:00Z").UTC()
	confirm := func() *driven {
		d := drive(t, night(), "2026-12-01T12:00:00Z")
		d.passTo("2026-12-01T21:59:45Z")
		require.True(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, start, 0).Allowed)
		return d
	}
	d := confirm()
	d.Cancel(windows.CancelRequest{}, d.now)
	require.False(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, start, 0).Allowed, "cancelled")

	d = confirm()
	later := night()
	later.Recurrence = "FREQ=DAILY;BYHOUR=23"
	d.define(later)
	d.passTo("2026-12-01T21:59:46Z")
	require.False(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, start.Add(2*time.Hour), 0).Allowed, "the moved opening is not confirmed")

	d = confirm()
	require.NoError(t, d.CheckExtend(windows.ExtendRequest{End: at("2026-12-02T03:00:00Z").Time}, d.now))
	d.Extend(windows.ExtendRequest{End: at("2026-12-02T03:00:00Z").Time}, d.now)
	require.True(t, windows.Ask([]windows.Snapshot{snapshotOf(d)}, at("2026-12-02T02:15:00Z").Time, 0).Allowed, "extended")
}

// From its start until it is recorded, a confirmed opening is the current one.
func TestAChangeAppliesToAConfirmedOpeningThatIsNotRecordedYet(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.passTo("2026-12-01T21:59:45Z")
	before, err := json.Marshal(d.State)
	require.NoError(t, err)
	now := at("2026-12-01T22:00:00.001Z").Time
	require.Equal(t, windows.PhaseOpen, d.At(now).Phase(now))
	require.NoError(t, d.At(now).CheckEnd(windows.EndRequest{}, now))
	after, err := json.Marshal(d.State)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "checks do not change the state")
}

// The last state that subscribers received gives the same answer as the calendar, at every moment until the next state.
func TestAConfirmedOpeningGivesTheVerdictOfItsCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := night()
		s.Cutoff = rapid.SampledFrom([]drydockv1.Duration{"", "10s"}).Draw(t, "cutoff")
		s.Recurrence = rapid.SampledFrom([]string{"FREQ=DAILY;BYHOUR=22", "FREQ=DAILY;BYHOUR=2,6,14,20", "FREQ=HOURLY;BYMINUTE=0"}).Draw(t, "rule")
		s.Duration = drydockv1.Duration(rapid.SampledFrom([]string{"20s", "45m", "4h"}).Draw(t, "duration"))
		if rapid.Bool().Draw(t, "frozen") {
			s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionTrim, recurring("FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=23", "2h"))}
		}
		d := drive(t, s, "2026-03-20T12:00:00Z")
		window, err := windows.New(&d.object)
		require.NoError(t, err)
		d.pass(d.now)
		last := snapshotOf(d)
		for range 15 {
			next, changes := d.Next(d.now)
			require.True(t, changes)
			now := d.now.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(d.now))-1).Draw(t, "in between")))
			want, err := windows.Allows([]*windows.Window{window}, windows.Question{Now: now})
			require.NoError(t, err)
			require.Equal(t, want.Allowed, windows.Ask([]windows.Snapshot{last}, now, 0).Allowed, "%s", now)
			confirmed, before := d.Confirmed, len(d.events)
			d.pass(next)
			news := !d.Confirmed.Equal(confirmed) || d.ExclusionChanged(next)
			for _, e := range d.events[before:] {
				news = news || !e.Confirmed
			}
			if news {
				last = snapshotOf(d)
			}
		}
	})
}

func TestTheStatusShowsAConfirmedOpeningAsOpenFromItsStart(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	start := at("2026-12-01T22:00:00Z").UTC()
	require.Equal(t, windows.PhaseClosed, d.Status("ops/night", d.now).At(start).Phase, "the opening is not confirmed")
	d.lastSnapshot("2026-12-01T21:59:59Z")
	status := d.Status("ops/night", d.now)
	require.Equal(t, windows.PhaseClosed, status.At(start.Add(-1)).Phase)
	opened := status.At(start)
	require.Equal(t, windows.PhaseOpen, opened.Phase)
	require.True(t, opened.Opening.Start.Equal(start))
	require.Equal(t, status.Upcoming[1:], opened.Upcoming)
	d.lastSnapshot("2026-12-01T22:00:10Z")
	require.Equal(t, windows.PhaseOpen, d.Status("ops/night", d.now).Phase, "the window has recorded it")
}
