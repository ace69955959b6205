package portal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// nightOf is the announcement of a window that opens at start for four hours, and again on the next three days.
func nightOf(window string, number int64, start time.Time) Announcement {
	a := Announcement{Window: window, Number: number, Portal: "main", Title: "Nightly", Components: []string{"db"}, AffectedStatus: sreportalv1.StatusDegraded}
	for i := range announcedOpenings + 1 {
		opens := start.AddDate(0, 0, i)
		a.Openings = append(a.Openings, windows.Opening{Start: opens, End: opens.Add(4 * time.Hour)})
	}
	return a
}

// hasBegun returns the announcement after the start of the first opening.
func (a Announcement) hasBegun() Announcement {
	a.Number++
	a.Openings = append([]windows.Opening{}, a.Openings...)
	a.Openings[0].Begun = true
	return a
}

// hasEnded returns the announcement after the end of the first opening.
func (a Announcement) hasEnded() Announcement {
	a.Number++
	a.Openings = a.Openings[1:]
	return a
}

func TestAnOpeningOfAWindowIsUpcomingThenInProgressThenCompleted(t *testing.T) {
	p := newPortal(t)
	night := nightOf("prod/night", 1, after(time.Hour))
	require.True(t, p.Receive(night, noon))
	v := p.at(noon)
	require.Len(t, v.Upcoming, 4)
	require.Equal(t, MaintenanceView{
		Name: "prod/night/20261121T130000Z", Window: "prod/night", Title: "Nightly", Components: []string{"db"}, Phase: sreportalv1.PhaseUpcoming,
		AffectedStatus: sreportalv1.StatusDegraded, Start: after(time.Hour), End: after(5 * time.Hour),
	}, v.Upcoming[0])

	require.Equal(t, sreportalv1.StatusOperational, p.at(after(time.Hour-1)).Status)
	require.Equal(t, sreportalv1.StatusDegraded, p.at(after(time.Hour)).Status, "the opening counts as started on time")
	require.True(t, p.Receive(night.hasBegun(), after(time.Hour+time.Millisecond)))
	v = p.at(after(2 * time.Hour))
	require.Equal(t, sreportalv1.StatusDegraded, v.component("db").Status)
	require.Equal(t, []string{"prod/night/20261121T130000Z"}, v.component("db").Because)
	require.Equal(t, after(time.Hour), v.component("db").Since)
	require.Equal(t, sreportalv1.StatusDegraded, p.at(after(5*time.Hour-1)).Status)

	v = p.at(after(5 * time.Hour))
	require.Equal(t, sreportalv1.StatusOperational, v.Status, "an opening excludes its end, and needs no announcement of it")
	require.Equal(t, []string{"prod/night/20261121T130000Z"}, names(v.Completed))
	require.True(t, p.Receive(night.hasBegun().hasEnded(), after(5*time.Hour+time.Millisecond)))
	v = p.at(after(5*time.Hour + time.Second))
	require.Len(t, v.Completed, 1)
	require.False(t, v.Completed[0].Cancelled)
}

func TestAnOpeningThatChangesWhileItIsShown(t *testing.T) {
	begun := nightOf("prod/night", 1, after(time.Hour)).hasBegun()
	extended := nightOf("prod/night", 7, after(time.Hour)).hasBegun()
	extended.Openings[0].End = after(6 * time.Hour)
	moved := begun
	moved.Number, moved.Portal = 9, "other"
	for name, tt := range map[string]struct {
		announced Announcement
		at, shown time.Time
		status    sreportalv1.ServiceStatus
		completed int
		cut       bool
	}{
		"it is extended":                                      {extended, after(2 * time.Hour), after(330 * time.Minute), sreportalv1.StatusDegraded, 0, false},
		"it is extended just after its end":                   {extended, after(5*time.Hour + time.Millisecond), after(330 * time.Minute), sreportalv1.StatusDegraded, 0, false},
		"it is ended early, or cancelled":                     {begun.hasEnded(), after(2 * time.Hour), after(2 * time.Hour), sreportalv1.StatusOperational, 1, true},
		"another portal shows it":                             {moved, after(2 * time.Hour), after(2 * time.Hour), sreportalv1.StatusOperational, 0, false},
		"a repeated announcement changes nothing":             {begun, after(2 * time.Hour), after(2 * time.Hour), sreportalv1.StatusDegraded, 0, false},
		"a late announcement of the planned start is ignored": {nightOf("prod/night", 1, after(time.Hour)), after(2 * time.Hour), after(2 * time.Hour), sreportalv1.StatusDegraded, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPortal(t)
			p.Receive(begun, after(time.Hour))
			p.Receive(tt.announced, tt.at)
			v := p.at(tt.shown)
			require.Equal(t, tt.status, v.component("db").Status)
			require.Len(t, v.Completed, tt.completed)
			if tt.completed > 0 {
				require.Equal(t, tt.at, v.Completed[0].End)
				require.Equal(t, tt.cut, v.Completed[0].Cancelled)
			}
		})
	}
}

func TestAnOverdueWindowIsQueriedAndThenRemoved(t *testing.T) {
	p := newPortal(t)
	p.Receive(nightOf("prod/night", 1, after(time.Hour)), noon)
	require.Empty(t, p.Overdue(after(time.Hour+overdue-1)))
	require.Equal(t, sreportalv1.StatusDegraded, p.View().Status)
	next, _ := p.Next(after(time.Hour))
	require.Equal(t, after(time.Hour+overdue), next)
	require.Equal(t, []string{"prod/night"}, p.Overdue(next))
	require.Empty(t, p.Overdue(next), "it is queried once")
	v := p.at(next)
	require.Len(t, v.Upcoming, 3)
	require.Equal(t, sreportalv1.StatusOperational, v.Status)
	require.Empty(t, v.Completed)
	p.RemoveWindow("prod/night", next)
	require.Empty(t, p.at(next).Upcoming)
}

// During the start, neither the window nor the portal ran.
func TestAnOpeningWithoutAnnouncedStartDoesNotCount(t *testing.T) {
	p := newPortal(t)
	p.Receive(nightOf("prod/night", 1, after(time.Hour)), noon)
	v := p.at(after(3 * time.Hour))
	require.Equal(t, int64(3*3600), v.component("db").Days[historyDays-1].StatusSeconds[sreportalv1.StatusOperational])
	require.Equal(t, []string{"prod/night"}, p.Overdue(after(3*time.Hour)))
	late := nightOf("prod/night", 2, after(time.Hour)).hasBegun()
	p.Receive(late, after(3*time.Hour))
	require.Equal(t, sreportalv1.StatusDegraded, p.at(after(4*time.Hour)).Status, "it has opened late")
}

// The portal observed the start, and was then down, as was the window.
func TestAnOutageJustAfterAStartDoesNotCountAsMaintenance(t *testing.T) {
	p := newPortal(t)
	p.Receive(nightOf("prod/night", 1, after(time.Hour)), noon)
	require.Equal(t, sreportalv1.StatusDegraded, p.at(after(time.Hour)).Status)
	v := p.at(after(9 * time.Hour))
	require.Equal(t, int64(60), v.component("db").Days[historyDays-1].StatusSeconds[sreportalv1.StatusDegraded])
	require.Equal(t, after(time.Hour+overdue), v.component("db").Since)
	require.Len(t, v.Upcoming, 3)
	require.Equal(t, []string{"prod/night"}, p.Overdue(after(9*time.Hour)))
}

func TestAShortUnconfirmedOpeningLeavesNoTrace(t *testing.T) {
	p := newPortal(t)
	night := nightOf("prod/night", 1, after(time.Hour))
	night.Openings = night.Openings[:1]
	night.Openings[0].End = after(time.Hour + overdue/2)
	p.Receive(night, noon)
	for _, moment := range []time.Time{after(time.Hour), night.Openings[0].End, after(time.Hour + overdue)} {
		next, _ := p.Next(p.Counted)
		require.Equal(t, moment, next)
		require.Empty(t, p.at(next).Completed, "an unconfirmed opening does not count")
	}
	require.Equal(t, []string{"prod/night"}, p.Overdue(after(time.Hour+overdue)))
	require.Empty(t, p.Windows)

	p.Receive(night.hasBegun(), after(time.Hour+2*overdue))
	require.Len(t, p.at(after(time.Hour+2*overdue)).Completed, 1, "a late announcement confirms the opening")
}

func TestACancelledOpeningLeavesNoTrace(t *testing.T) {
	p := newPortal(t)
	night := nightOf("prod/night", 1, after(time.Hour))
	p.Receive(night, noon)
	p.Receive(night.hasEnded(), after(time.Hour+time.Millisecond)) // missed, or cancelled at its start
	v := p.at(after(time.Hour + time.Second))
	require.Equal(t, sreportalv1.StatusOperational, v.Status)
	require.Empty(t, append(v.Completed, v.InProgress...))
	require.Empty(t, p.Overdue(after(2*time.Hour)))
}

func TestADeletedWindowIsShownUntilItsOpeningEnds(t *testing.T) {
	p := newPortal(t)
	p.Receive(nightOf("prod/night", 1, after(time.Hour)).hasBegun(), after(time.Hour))
	p.RemoveWindow("prod/night", after(2*time.Hour))
	v := p.at(after(2 * time.Hour))
	require.Len(t, v.InProgress, 1)
	require.Empty(t, v.Upcoming)
	require.Len(t, p.at(after(5*time.Hour)).Completed, 1)
	require.Empty(t, p.Windows)
}

func TestAWindowBeyondTheCapacityIsRefusedWithAProblem(t *testing.T) {
	p := newPortal(t)
	large := nightOf("prod/night", 1, after(time.Hour))
	large.Description = string(make([]byte, maxTexts/4))
	require.True(t, p.Receive(large, noon))
	require.Contains(t, p.at(noon).Problems[0], "window prod/night is not shown: the texts of portal main")
	require.Empty(t, p.Windows)
	require.True(t, p.Receive(nightOf("prod/night", 2, after(time.Hour)), noon))
	require.Empty(t, p.at(noon).Problems)
	require.False(t, p.Receive(Announcement{Window: "prod/other", Number: 1, Portal: "other"}, noon), "the window belongs to another portal")
}

// Past openings use only the capacity that upcoming ones leave.
func TestAFreedCapacityAdmitsARefusedWindow(t *testing.T) {
	p := newPortal(t)
	wide := component("wide", sreportalv1.StatusOperational)
	wide.Spec.Description = strings.Repeat("d", maxTexts*3/4)
	apply(t, p, noon, ApplyRequest{Components: []sreportalv1.Component{wide}})
	large := nightOf("prod/night", 1, after(time.Hour))
	large.Description = strings.Repeat("d", maxTexts/2)
	p.Receive(large, noon)
	require.Len(t, p.at(noon).Problems, 1)
	require.Empty(t, p.Overdue(noon))

	p.Delete(DeleteRequest{Components: []string{"wide"}}, after(time.Minute))
	require.Equal(t, []string{"prod/night"}, p.Overdue(after(time.Minute)))
	require.Empty(t, p.Overdue(after(time.Minute)), "it is queried once")
	require.Empty(t, p.View().Problems)
	p.Receive(large, after(time.Minute))
	require.NotEmpty(t, p.at(after(time.Minute)).Upcoming)
}

func TestASilentRefusedWindowIsForgotten(t *testing.T) {
	p := &Portal{Name: "main"}
	large := nightOf("prod/night", 1, after(time.Hour))
	large.Description = strings.Repeat("d", maxTexts)
	p.Receive(large, noon)
	over := large.Openings[len(large.Openings)-1].End
	p.Advance(over.Add(-1))
	require.False(t, p.Empty())
	next, _ := p.Next(p.Counted)
	require.Equal(t, over, next)
	p.Advance(next)
	require.True(t, p.Empty())
}

func TestPastOpeningsGiveWayToNewOnes(t *testing.T) {
	p := newPortal(t)
	announce := func(a Announcement, at time.Time) {
		a.Description = strings.Repeat("d", 10<<10)
		p.Receive(a, at)
	}
	for day := range 25 {
		for i, window := range []string{"prod/early", "prod/late"} {
			night := nightOf(window, int64(3*day+1), after(time.Duration(24*day+6*i+1)*time.Hour))
			announce(night, night.Openings[0].Start)
			announce(night.hasBegun(), night.Openings[0].Start)
			announce(night.hasBegun().hasEnded(), night.Openings[0].End)
		}
	}
	require.Len(t, p.Windows, 2)
	require.Empty(t, p.Refused)
	past := len(p.Past)
	require.Greater(t, past, maxPast/2)
	require.Less(t, past, maxPast, "as many as the capacity allows")
	require.Equal(t, p.Counted, p.Past[past-1].End, "the latest one stays")
	apply(t, p, p.Counted, ApplyRequest{Components: []sreportalv1.Component{component("db", sreportalv1.StatusMajorOutage)}})
}

func TestLittleCapacityShowsFewerOpenings(t *testing.T) {
	p := &Portal{Name: "main"}
	var r ApplyRequest
	var listed []string
	for i := range 200 {
		listed = append(listed, fmt.Sprintf("component-%d", i))
		r.Components = append(r.Components, component(listed[i], sreportalv1.StatusOperational))
	}
	apply(t, p, noon, r)
	announce := func(number int64, length int) {
		for i := range 100 {
			a := nightOf(fmt.Sprintf("prod/night-%d", i), number, after(time.Hour))
			a.Components = listed[:length]
			p.Receive(a, noon)
		}
	}
	announce(1, len(listed))
	require.Empty(t, p.Refused)
	require.Len(t, p.Windows, 100)
	v := p.at(noon)
	require.Greater(t, len(v.Upcoming), 100)
	require.Less(t, len(v.Upcoming), 200)
	require.Equal(t, after(time.Hour), v.Upcoming[99].Start, "every window shows its next opening")
	require.Equal(t, after(25*time.Hour), v.Upcoming[len(v.Upcoming)-1].Start, "further openings follow by start")
	announce(2, 1)
	require.Len(t, p.at(noon).Upcoming, 100*(1+announcedOpenings), "with free capacity, all are announced again")
}

func TestAnExcludedOpeningIsAnnouncedWhenTheExclusionEnds(t *testing.T) {
	open := windows.Opening{Start: noon, End: after(4 * time.Hour), Begun: true}
	state := windows.State{
		Window: &drydockv1.MaintenanceWindow{}, Running: &open,
		Schedule: windows.Schedule{Excluded: []windows.Span{{Start: after(time.Hour), End: after(2 * time.Hour)}}, Last: true},
	}
	state.Window.Spec.Title, state.Window.Spec.PortalRef, state.Window.Spec.Components = "Nightly", "main", []string{"db"}
	p := newPortal(t)
	receive := func(number int64, at time.Time) View {
		p.Receive(Announce(&state, "prod/night", number, at), at)
		return p.at(at)
	}
	require.Equal(t, sreportalv1.StatusMaintenance, receive(1, noon).Status)
	v := receive(2, after(time.Hour))
	require.Equal(t, sreportalv1.StatusOperational, v.Status)
	require.Empty(t, v.InProgress)
	state.Override = &windows.Override{Since: after(90 * time.Minute), Until: after(100 * time.Minute)}
	require.Equal(t, []string{"prod/night/20261121T133000Z"}, names(receive(3, after(90*time.Minute)).InProgress), "an emergency override is not excluded")
	v = receive(4, after(2*time.Hour))
	require.Equal(t, []string{"prod/night/20261121T120000Z"}, names(v.InProgress))
	require.Len(t, v.Completed, 1, "the emergency override")
}

func TestAWindowAnnouncesItsOpeningsOnlyWithATitle(t *testing.T) {
	object := drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"}}
	object.Spec.TimeZone, object.Spec.PortalRef, object.Spec.Components = "UTC", "main", []string{"db"}
	object.Spec.Recurrence, object.Spec.Duration = "FREQ=DAILY;BYHOUR=13", "4h"
	var state windows.State
	require.Empty(t, Announce(&state, "prod/night", 1, noon).Portal, "the window is not defined")
	define := func() {
		window, err := windows.New(&object)
		require.NoError(t, err)
		schedule, err := window.Schedule(noon)
		require.NoError(t, err)
		state.Define(windows.DefineRequest{Object: object}, schedule, noon)
	}
	define()
	require.Equal(t, Announcement{Window: "prod/night", Number: 2}, Announce(&state, "prod/night", 2, noon))
	object.Spec.Title = "Nightly"
	define()
	a := Announce(&state, "prod/night", 3, noon)
	require.Equal(t, "main", a.Portal)
	require.Len(t, a.Openings, announcedOpenings)

	state.Advance(after(time.Hour))
	state.SetOverride(windows.OverrideRequest{Request: windows.Request{Actor: "ann", Reason: "CVE"}, Until: after(3 * time.Hour)}, after(2*time.Hour))
	a = Announce(&state, "prod/night", 4, after(2*time.Hour))
	require.Len(t, a.Openings, 2+announcedOpenings)
	require.Equal(t, windows.Opening{Start: after(2 * time.Hour), End: after(3 * time.Hour), Begun: true}, a.Openings[0], "an emergency override is announced too")
	require.True(t, a.Openings[1].Begun)

	state.Cancel(windows.CancelRequest{All: true}, after(150*time.Minute))
	state.Advance(after(150 * time.Minute))
	require.Len(t, Announce(&state, "prod/night", 5, after(4*time.Hour)).Openings, 0)
}
