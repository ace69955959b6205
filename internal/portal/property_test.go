package portal

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

func anyStatus(t *rapid.T, label string) sreportalv1.ServiceStatus {
	return rapid.SampledFrom(statuses()).Draw(t, label)
}

func TestTheWorstStatusIsCorrect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SliceOfN(rapid.SampledFrom(statuses()), 1, 8).Draw(t, "of")
		worst := Worst(of...)
		require.Contains(t, of, worst)
		for _, status := range of {
			require.LessOrEqual(t, slices.Index(statuses(), worst), slices.Index(statuses(), status))
		}
		require.Equal(t, worst, Worst(append(of, worst)...))
		require.Equal(t, worst, Computed(anyStatus(t, "declared"), of...))
		require.Equal(t, of[0], Computed(of[0]))
	})
	require.Equal(t, sreportalv1.StatusUnknown, Worst())
	require.Equal(t, sreportalv1.StatusUnknown, Worst("fine", sreportalv1.StatusOperational), "an invalid status counts as unknown")
}

func anyMaintenance(t *rapid.T, name string) sreportalv1.Maintenance {
	start := after(time.Duration(rapid.IntRange(-72, 240).Draw(t, "start")) * 30 * time.Minute)
	end := start.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "length")) * 30 * time.Minute)
	affected := rapid.SampledFrom([]sreportalv1.ServiceStatus{"", sreportalv1.StatusDegraded, sreportalv1.StatusPartialOutage, sreportalv1.StatusMajorOutage}).Draw(t, "gives")
	components := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"web", "db", "disk"}), rapid.ID).Draw(t, "components")
	return maintenance(name, start, end, affected, components...)
}

// For any events: extra views change nothing, the history covers the time since a component exists, and the shown status is that of the maintenances
// in progress.
func TestTheViewDependsOnlyOnDeclarationsAndTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ApplyRequest
		for _, name := range []string{"web", "db"} {
			declared := rapid.SampledFrom([]sreportalv1.ServiceStatus{"", sreportalv1.StatusOperational, sreportalv1.StatusMajorOutage}).Draw(t, "declared")
			r.Components = append(r.Components, component(name, declared))
		}
		for _, name := range []string{"m1", "m2", "m3", "m4"} {
			r.Maintenances = append(r.Maintenances, anyMaintenance(t, name))
		}
		often, once := &Portal{Name: "main"}, &Portal{Name: "main"}
		require.NoError(t, often.CheckApply(r))
		often.Apply(r, noon)
		once.Apply(r, noon)
		now := noon
		for _, pause := range rapid.SliceOfN(rapid.IntRange(0, 200), 1, 8).Draw(t, "pauses") {
			now = now.Add(time.Duration(pause) * 17 * time.Minute)
			often.Advance(now)
			requireSound(t, often, now)
		}
		once.Advance(now)
		seen, unseen := often.View(), once.View()
		seen.Number, unseen.Number = 0, 0
		require.Equal(t, unseen, seen)

		later := now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "later")) * time.Minute)
		if next, changes := often.Next(now); changes && later.Before(next) {
			carried := seen.At(later)
			often.Advance(later)
			passed := often.View()
			passed.Number = 0
			require.Equal(t, passed, carried, "At extends a view until the next change")
		}
	})
}

func requireSound(t require.TestingT, p *Portal, now time.Time) {
	v := p.View()
	for _, c := range v.Components {
		var affected []sreportalv1.ServiceStatus
		for _, m := range v.InProgress {
			if slices.Contains(m.Components, c.Name) {
				affected = append(affected, m.AffectedStatus)
			}
		}
		require.Equal(t, Computed(c.Declared, affected...), c.Status)
		require.Equal(t, len(affected) > 0, len(c.Because) > 0)
		require.False(t, c.Since.After(now))
		var known int64
		for _, day := range c.Days {
			var sum int64
			for _, seconds := range day.StatusSeconds {
				sum += seconds
			}
			require.Equal(t, day.KnownSeconds, sum, "the statuses of a day add up to its known time")
			require.LessOrEqual(t, sum, int64(86400))
			known += sum
		}
		require.Len(t, c.Days, historyDays)
		oldest := midnight(now).AddDate(0, 0, -historyDays)
		if oldest.Before(noon) {
			oldest = noon
		}
		require.InDelta(t, now.Sub(oldest).Seconds(), known, float64(historyDays)/2, "the days add up to the known time")
	}
	total := len(v.InProgress) + len(v.Upcoming) + len(v.Completed)
	require.Len(t, p.Maintenances, total, "each maintenance has one phase")
	next, changes := p.Next(now)
	require.True(t, changes)
	require.True(t, next.After(now))
}

func TestAPortalSurvivesContinueAsNew(t *testing.T) {
	p := newPortal(t, maintenance("db", after(time.Hour), after(2*time.Hour), "", "db"))
	p.Receive(nightOf("prod/night", 1, after(time.Hour)).hasBegun(), after(time.Hour))
	p.Advance(after(90 * time.Minute))
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var next Portal
	require.NoError(t, json.Unmarshal(text, &next))
	next.Advance(after(50 * time.Hour))
	p.Advance(after(50 * time.Hour))
	require.Equal(t, p.View(), next.View())
}
