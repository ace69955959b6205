package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// frozen is the window night with an exclusion.
func frozen(start, end string) drydockv1.MaintenanceWindowSpec {
	s := night()
	s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionDrop, once(start, end))}
	return s
}

func (d *driven) ask() windows.Verdict {
	return windows.Ask([]windows.Snapshot{snapshotOf(d)}, d.now, 0)
}

func TestAFreezeOverTheCurrentOpeningClosesIt(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.walk("2026-12-01T23:00:00Z")
	require.True(t, d.ask().Allowed)
	d.define(frozen("2026-12-01T20:00:00Z", "2026-12-02T00:00:00Z"))
	require.Contains(t, d.Events[len(d.Events)-1].Message, "an exclusion closes it from 2026-12-01 23:00:00Z to 2026-12-02 00:00:00Z")
	require.Equal(t, windows.PhaseExcluded, d.Phase(d.now))
	status := d.Status("prod/night", d.now)
	require.Equal(t, at("2026-12-02T00:00:00Z").UTC(), *status.ExcludedUntil)
	verdict := d.ask()
	require.Equal(t, windows.ReasonExcluded, verdict.Reason)
	require.Equal(t, at("2026-12-02T00:00:00Z").UTC(), *verdict.NextOpen)

	next, _ := d.Next(d.now)
	require.Equal(t, at("2026-12-02T00:00:00Z").UTC(), next.UTC())
	d.passTo("2026-12-02T00:00:00Z")
	require.True(t, d.ExclusionChanged(d.now), "subscribers receive it")
	require.Equal(t, windows.PhaseOpen, d.Phase(d.now), "the opening keeps its end")
	require.Nil(t, d.Status("prod/night", d.now).ExcludedUntil)
	require.True(t, d.ask().Allowed)
	d.walk("2026-12-02T12:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventStarted, windows.EventCutoff, windows.EventEnded}, d.happened)
}

func TestAnEndedOpeningReopensAfterATrimButNotAfterADrop(t *testing.T) {
	for effect, opens := range map[drydockv1.ExclusionEffect]string{
		drydockv1.ExclusionTrim: "2026-12-02T00:00:00Z",
		drydockv1.ExclusionDrop: "2026-12-02T22:00:00Z",
	} {
		d := drive(t, night(), "2026-12-01T12:00:00Z")
		d.walk("2026-12-01T23:00:00Z")
		freeze := frozen("2026-12-01T20:00:00Z", "2026-12-02T00:00:00Z")
		freeze.Exclusions[0].Effect = effect
		d.define(freeze)
		d.End(windows.EndRequest{}, d.now)
		d.pass(d.now)
		require.Equal(t, at(opens).UTC(), d.Upcoming()[0].Start.UTC(), effect)
		if effect == drydockv1.ExclusionTrim {
			d.Cancel(windows.CancelRequest{}, d.now)
			require.Equal(t, at("2026-12-02T22:00:00Z").UTC(), d.Upcoming()[0].Start.UTC(), "the rest of the opening is cancelled too")
		}
	}
}

func TestTheFreezeOfAWindowWithoutOpeningsAppliesToOtherWindows(t *testing.T) {
	for name, over := range map[string]func(d *driven){
		"because its last opening has ended": func(*driven) {},
		"because a person cancelled it":      func(d *driven) { d.Cancel(windows.CancelRequest{All: true}, d.now) },
	} {
		t.Run(name, func(t *testing.T) {
			ending := frozen("2026-12-02T20:00:00Z", "2026-12-03T00:00:00Z")
			ending.NotAfter = at("2026-12-02T12:00:00Z")
			first, second := drive(t, ending, "2026-12-01T12:00:00Z"), drive(t, night(), "2026-12-01T12:00:00Z")
			first.walk("2026-12-02T12:00:00Z")
			over(first)
			first.pass(first.now)
			require.Equal(t, windows.PhaseOver, first.Phase(first.now))
			ask := func() windows.Verdict {
				return windows.Ask([]windows.Snapshot{snapshotOf(first), snapshotOf(second)}, second.now, 0)
			}
			for _, moment := range []string{"2026-12-02T20:00:00Z", "2026-12-03T00:00:00Z"} {
				first.ExclusionChanged(first.now)
				require.Equal(t, at(moment).UTC(), snapshotOf(first).Next.UTC())
				next, changes := first.Next(first.now)
				require.True(t, changes)
				require.Equal(t, at(moment).UTC(), next.UTC())
				first.passTo(moment)
				require.True(t, first.ExclusionChanged(first.now), "subscribers receive it")
			}
			_, changes := first.Next(first.now)
			require.False(t, changes)
			second.walk("2026-12-02T23:00:00Z")
			require.Equal(t, windows.PhaseOpen, second.Phase(second.now))
			require.Equal(t, windows.ReasonExcluded, ask().Reason)
			second.walk("2026-12-03T00:00:00Z")
			require.True(t, ask().Allowed)
		})
	}
}

func TestTheFreezeOfACancelledWindowIsKnownFarAhead(t *testing.T) {
	weekly := spec("UTC", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=22", "4h")
	first, second := drive(t, frozen("2026-12-20T00:00:00Z", "2026-12-28T00:00:00Z"), "2026-12-01T12:00:00Z"), drive(t, weekly, "2026-12-01T12:00:00Z")
	first.walk("2026-12-01T23:00:00Z")
	first.Cancel(windows.CancelRequest{All: true}, first.now)
	first.pass(first.now)
	require.Equal(t, windows.PhaseOver, first.Phase(first.now))
	askAt := func(moment string, need time.Duration) windows.Verdict {
		first.walk(moment)
		second.walk(moment)
		return windows.Ask([]windows.Snapshot{snapshotOf(first), snapshotOf(second)}, second.now, need)
	}
	require.Equal(t, at("2026-12-06T22:00:00Z").UTC(), *askAt("2026-12-01T23:00:00Z", 0).NextOpen)
	closing := askAt("2026-12-07T01:00:00Z", 2*hour)
	require.Equal(t, windows.ReasonDoesNotFit, closing.Reason, "its calendar does not hide openings of other windows")
	require.Equal(t, at("2026-12-13T22:00:00Z").UTC(), *closing.NextOpen)
	require.True(t, askAt("2026-12-13T23:00:00Z", 0).Allowed)
	frozen := askAt("2026-12-20T23:00:00Z", 0)
	require.Equal(t, windows.ReasonExcluded, frozen.Reason)
	require.Equal(t, at("2026-12-28T00:00:00Z").UTC(), *frozen.NextOpen)
}

// manyTimesFrozen is the window night with an hour's exclusion every night. Subscribers receive a hundred exclusions at a time.
func manyTimesFrozen() drydockv1.MaintenanceWindowSpec {
	s := night()
	s.Exclusions = []drydockv1.WindowExclusion{excluding("backup", drydockv1.ExclusionTrim, recurring("FREQ=DAILY;BYHOUR=23", "1h"))}
	return s
}

func TestEveryFreezeOfAWindowWithoutOpeningsIsReported(t *testing.T) {
	ending := manyTimesFrozen()
	ending.NotAfter = at("2026-12-02T12:00:00Z")
	for name, tt := range map[string]struct {
		spec drydockv1.MaintenanceWindowSpec
		over func(d *driven)
	}{
		"because its last opening has ended": {ending, func(*driven) {}},
		"because a person cancelled it":      {manyTimesFrozen(), func(d *driven) { d.Cancel(windows.CancelRequest{All: true}, d.now) }},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := drive(t, tt.spec, "2026-12-01T12:00:00Z"), drive(t, night(), "2026-12-01T12:00:00Z")
			first.walk("2026-12-02T12:00:00Z")
			tt.over(first)
			for now := at("2026-12-02T22:15:00Z").UTC(); now.Before(at("2027-08-01T00:00:00Z").UTC()); now = now.AddDate(0, 0, 1) {
				ask := func(moment time.Time) windows.Reason {
					first.walk(moment.Format(time.RFC3339))
					second.walk(moment.Format(time.RFC3339))
					return windows.Ask([]windows.Snapshot{snapshotOf(first), snapshotOf(second)}, moment, 0).Reason
				}
				require.Equal(t, windows.ReasonOpen, ask(now), now)
				require.Equal(t, windows.ReasonExcluded, ask(now.Add(hour)), now)
				require.Equal(t, windows.PhaseOver, first.Phase(first.now), "its workflow ends without subscribers")
			}
		})
	}
}

func TestAFreezeClosesAnOpeningThatWasForcedIntoAnotherExclusion(t *testing.T) {
	for name, tt := range map[string]struct {
		until string
		phase windows.Phase
	}{
		"the exclusion that it was forced into does not close it": {"2026-12-02T06:00:00Z", windows.PhaseOpen},
		"a smaller exclusion does not close it":                   {"2026-12-02T04:30:00Z", windows.PhaseOpen},
		"a larger exclusion closes it":                            {"2026-12-02T07:00:00Z", windows.PhaseExcluded},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, frozen("2026-12-02T03:00:00Z", "2026-12-02T06:00:00Z"), "2026-12-01T12:00:00Z")
			d.walk("2026-12-01T23:00:00Z")
			d.Extend(windows.ExtendRequest{End: at("2026-12-02T08:00:00Z").Time, Force: true}, d.now)
			d.define(frozen("2026-12-02T03:00:00Z", tt.until))
			d.walk("2026-12-02T04:00:00Z")
			require.Equal(t, tt.phase, d.Phase(d.now))
			require.Equal(t, tt.phase == windows.PhaseOpen, d.ask().Allowed)
		})
	}
}

func TestACancelledOpeningIsClosedNotExcluded(t *testing.T) {
	for name, request := range map[string]windows.CancelRequest{"the next": {}, "all": {All: true}} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, night(), "2026-12-01T12:00:00Z")
			require.NoError(t, d.CheckCancel(request, d.now))
			d.Cancel(request, d.now)
			d.walk("2026-12-01T23:00:00Z")
			require.Equal(t, windows.ReasonClosed, d.ask().Reason)
		})
	}
	t.Run("the part that an exclusion covers is excluded", func(t *testing.T) {
		s := frozen("2026-12-02T00:00:00Z", "2026-12-02T01:00:00Z")
		s.Exclusions[0].Effect = drydockv1.ExclusionTrim
		d := drive(t, s, "2026-12-01T12:00:00Z")
		d.Cancel(windows.CancelRequest{}, d.now)
		for after, reason := range map[time.Duration]windows.Reason{0: windows.ReasonClosed, 2*hour + hour/2: windows.ReasonExcluded} {
			d := *d
			d.now = at("2026-12-01T22:00:00Z").Add(after)
			require.Equal(t, reason, d.ask().Reason, after)
		}
	})
}
