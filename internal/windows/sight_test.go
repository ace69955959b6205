package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// fortnight is a window that is open for two weeks.
func fortnight(cutoff drydockv1.Duration) drydockv1.MaintenanceWindowSpec {
	s := spec("UTC", "DTSTART:20261201T120000\nRRULE:FREQ=WEEKLY;INTERVAL=4", "336h")
	s.Cutoff = cutoff
	return s
}

// often is a window that opens for a minute every ten minutes: subscribers receive eight hours of it.
func often() drydockv1.MaintenanceWindowSpec {
	return spec("UTC", "FREQ=HOURLY;BYMINUTE=0,10,20,30,40,50", "1m")
}

// After an outage, subscribers decide by the last state that they received: nothing starts after its known range.
func TestALongOpeningAllowsWorkUntilTheEndOfTheKnownRange(t *testing.T) {
	noon := at("2026-12-01T12:00:00Z").Time
	mayBegin := func(t *testing.T, snapshots []windows.Snapshot, now, known time.Time) {
		verdict := windows.Ask(snapshots, now, 0)
		require.True(t, verdict.Allowed, "%+v", verdict)
		require.Nil(t, verdict.Until, "the end is not known")
		require.NotNil(t, verdict.LastStart)
		require.Equal(t, known.UTC(), *verdict.LastStart)
		require.Equal(t, known.UTC(), *verdict.Ends)
		require.Contains(t, windows.Closing(snapshots, verdict).Reason, "sent no update since")
	}
	t.Run("in a window that never closes", func(t *testing.T) {
		snapshots, known := snapshotsAt(t, "2026-12-01T12:00:00Z", spec("UTC", "FREQ=DAILY;BYHOUR=0", "24h"))
		mayBegin(t, snapshots, noon, known)
	})
	t.Run("in an opening that is longer than the known range of another window", func(t *testing.T) {
		snapshots, known := snapshotsAt(t, "2026-12-01T12:00:00Z", often(), fortnight("1h"))
		mayBegin(t, snapshots, noon, known)
		mayBegin(t, snapshots, known.Add(-time.Second), known) // the rest of the known range is shorter than the cutoff
	})
}

func TestTheCutoffAppliesToAnOpeningWhoseEndIsNotKnownYet(t *testing.T) {
	snapshots, known := snapshotsAt(t, "2026-12-05T11:00:00Z", often(), fortnight("240h"))
	cutoff := at("2026-12-05T12:00:00Z").Time
	require.True(t, known.After(cutoff))
	verdict := windows.Ask(snapshots, cutoff.Add(-time.Second), 0)
	require.True(t, verdict.Allowed)
	require.Equal(t, cutoff.UTC(), *verdict.LastStart)
	require.Equal(t, windows.ReasonCutoff, windows.Ask(snapshots, cutoff, 0).Reason)
}

// snapshotsAt returns the states that subscribers receive at a moment, and the end of the first window's known range.
func snapshotsAt(t *testing.T, now string, specs ...drydockv1.MaintenanceWindowSpec) ([]windows.Snapshot, time.Time) {
	var snapshots []windows.Snapshot
	for _, s := range specs {
		d := drive(t, s, "2026-12-01T11:00:00Z")
		d.walk(now)
		snapshots = append(snapshots, snapshotOf(d))
	}
	return snapshots, snapshots[0].Schedule.Until
}

// A window that opens often has a shorter known range than one that opens rarely.
func TestLongWorkWaitsForADistantWindowThatFits(t *testing.T) {
	for name, often := range map[string]drydockv1.MaintenanceWindowSpec{
		"daily":             spec("UTC", "FREQ=DAILY;BYHOUR=22", "1h"),
		"every ten minutes": often(),
	} {
		t.Run(name, func(t *testing.T) {
			small, large := drive(t, often, "2026-12-01T12:00:00Z"), drive(t, spec("UTC", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=6", "4h"), "2026-12-01T12:00:00Z")
			opens := at("2026-12-06T06:00:00Z").UTC()
			for now := at("2026-12-01T22:30:30Z").UTC(); now.Before(at("2026-12-29T00:00:00Z").UTC()); now = now.Add(3 * time.Hour) {
				small.walk(now.Format(time.RFC3339))
				large.walk(now.Format(time.RFC3339))
				if now.Sub(opens) > 2*time.Hour {
					opens = opens.AddDate(0, 0, 7)
				}
				verdict := windows.Ask([]windows.Snapshot{snapshotOf(small), snapshotOf(large)}, now, 2*time.Hour)
				require.Equal(t, !now.Before(opens), verdict.Allowed, "%s: %+v", now, verdict)
				if !verdict.Allowed {
					require.NotNil(t, verdict.NextOpen, "%s: %+v", now, verdict)
					require.Equal(t, opens, *verdict.NextOpen, now)
				}
			}
		})
	}
}

func TestWorkThatFitsNoOpeningMayStartInTheNextOne(t *testing.T) {
	snapshots, _ := snapshotsAt(t, "2026-12-01T12:00:00Z", spec("UTC", "FREQ=DAILY;BYHOUR=22", "1h"), spec("UTC", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=6", "4h"))
	opens := at("2026-12-01T22:00:00Z").Time
	verdict := windows.Ask(snapshots, opens.Add(-time.Hour), 5*time.Hour)
	require.Equal(t, windows.ReasonClosed, verdict.Reason)
	require.NotNil(t, verdict.NextOpen)
	require.Equal(t, opens.UTC(), *verdict.NextOpen)
	snapshots, _ = snapshotsAt(t, "2026-12-01T22:00:00Z", spec("UTC", "FREQ=DAILY;BYHOUR=22", "1h"))
	require.True(t, windows.Ask(snapshots, opens, 5*time.Hour).Allowed)
}

// Far ahead, the exclusions of one window are unknown, so openings of the other always seem uncut.
func TestNoWorkWaitsForAnOpeningThatIsAlwaysCutShort(t *testing.T) {
	nightly, sundays := spec("UTC", "FREQ=DAILY;BYHOUR=22", "1h"), spec("UTC", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=6", "4h")
	nightly.Exclusions = []drydockv1.WindowExclusion{excluding("backup", drydockv1.ExclusionTrim, recurring("FREQ=WEEKLY;BYDAY=SU;BYHOUR=8", "1h"))}
	snapshots, _ := snapshotsAt(t, "2026-12-01T22:00:00Z", nightly, sundays)
	require.True(t, windows.Ask(snapshots, at("2026-12-01T22:00:00Z").Time, 3*time.Hour).Allowed)
}

func TestNoWorkWaitsForMonthsForALongEnoughOpening(t *testing.T) {
	nightly := spec("UTC", "FREQ=DAILY;BYHOUR=22", "1h")
	for name, test := range map[string]struct {
		rare  string
		waits bool
	}{
		"once a year":  {"FREQ=YEARLY;BYMONTH=7;BYMONTHDAY=1;BYHOUR=6", false},
		"once a month": {"FREQ=MONTHLY;BYMONTHDAY=28;BYHOUR=6", true},
	} {
		t.Run(name, func(t *testing.T) {
			snapshots, _ := snapshotsAt(t, "2026-12-01T22:00:00Z", nightly, spec("UTC", test.rare, "24h"))
			require.Equal(t, test.waits, !windows.Ask(snapshots, at("2026-12-01T22:00:00Z").Time, 65*time.Minute).Allowed)
		})
	}
}
