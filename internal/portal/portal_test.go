package portal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// noon is when the tests begin.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func component(name string, status sreportalv1.ServiceStatus) sreportalv1.Component {
	return sreportalv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec:       sreportalv1.ComponentSpec{DisplayName: strings.ToUpper(name), Group: "Shop", PortalRef: "main", Status: status},
	}
}

func maintenance(name string, start, end time.Time, affected sreportalv1.ServiceStatus, components ...string) sreportalv1.Maintenance {
	return sreportalv1.Maintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec: sreportalv1.MaintenanceSpec{
			Title: "New " + name, PortalRef: "main", Components: components, AffectedStatus: affected,
			ScheduledStart: metav1.NewTime(start), ScheduledEnd: metav1.NewTime(end),
		},
	}
}

// newPortal has the operational components web and db since noon.
func newPortal(t *testing.T, maintenances ...sreportalv1.Maintenance) *Portal {
	p := &Portal{Name: "main"}
	apply(t, p, noon, ApplyRequest{
		Components:   []sreportalv1.Component{component("web", sreportalv1.StatusOperational), component("db", sreportalv1.StatusOperational)},
		Maintenances: maintenances,
	})
	return p
}

func apply(t *testing.T, p *Portal, at time.Time, r ApplyRequest) Answer {
	t.Helper()
	require.NoError(t, p.CheckApply(r))
	answer, _ := p.Apply(r, at)
	return answer
}

func applyOne(t *testing.T, p *Portal, at time.Time, m sreportalv1.Maintenance) Answer {
	t.Helper()
	return apply(t, p, at, ApplyRequest{Maintenances: []sreportalv1.Maintenance{m}})
}

// at advances the portal, and returns its view.
func (p *Portal) at(now time.Time) View {
	p.Advance(now)
	return p.View()
}

func (v View) component(name string) ComponentView {
	for _, c := range v.Components {
		if c.Name == name {
			return c
		}
	}
	return ComponentView{}
}

func names(views []MaintenanceView) []string {
	var all []string
	for _, v := range views {
		all = append(all, v.Name)
	}
	return all
}

func TestAMaintenanceReplacesTheDeclaredStatusFromItsStartToItsEndToTheNanosecond(t *testing.T) {
	start, end := after(time.Hour), after(2*time.Hour)
	for name, tt := range map[string]struct {
		at     time.Time
		status sreportalv1.ServiceStatus
		phase  string
	}{
		"before the start": {start.Add(-time.Nanosecond), sreportalv1.StatusOperational, "upcoming"},
		"at the start":     {start, sreportalv1.StatusMaintenance, "in progress"},
		"at the end":       {end, sreportalv1.StatusMaintenance, "in progress"},
		"after the end":    {end.Add(time.Nanosecond), sreportalv1.StatusOperational, "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newPortal(t, maintenance("db", start, end, "", "db")).at(tt.at)
			require.Equal(t, tt.status, v.component("db").Status)
			require.Equal(t, sreportalv1.StatusOperational, v.component("web").Status, "the maintenance does not list it")
			require.Equal(t, tt.status, v.Status, "the portal has the status of its worst component")
			lists := map[string][]MaintenanceView{"upcoming": v.Upcoming, "in progress": v.InProgress, "completed": v.Completed}
			for phase, list := range lists {
				require.Len(t, list, map[bool]int{true: 1}[phase == tt.phase], phase)
			}
		})
	}
}

func TestNothingChangesBetweenTheMomentsThatNextReturns(t *testing.T) {
	p := newPortal(t, maintenance("db", after(time.Hour), after(2*time.Hour), "", "db"))
	for _, want := range []time.Time{after(time.Hour), after(2*time.Hour + 1), after(12 * time.Hour), after(36 * time.Hour)} {
		next, changes := p.Next(p.Counted)
		require.True(t, changes)
		require.Equal(t, want, next)
		number := p.Number
		require.False(t, p.Advance(next.Add(-1)))
		require.Equal(t, number, p.Number)
		require.True(t, p.Advance(next))
		require.Greater(t, p.Number, number)
	}
}

func TestTheWorstOfSeveralMaintenancesCountsAndAllAreNamed(t *testing.T) {
	p := newPortal(t,
		maintenance("slow", after(0), after(3*time.Hour), sreportalv1.StatusDegraded, "db", "db"),
		maintenance("dark", after(time.Hour), after(2*time.Hour), sreportalv1.StatusMajorOutage, "db", "web"),
	)
	v := p.at(after(90 * time.Minute))
	require.Equal(t, sreportalv1.StatusMajorOutage, v.component("db").Status)
	require.Equal(t, []string{"dark", "slow"}, v.component("db").Because)
	require.Equal(t, after(time.Hour), v.component("db").Since)
	require.Equal(t, []string{"dark", "slow"}, names(v.InProgress), "sorted by end")
	require.Equal(t, sreportalv1.StatusDegraded, p.at(after(150*time.Minute)).component("db").Status)
}

func TestOnlyTheWorstOfManyMaintenancesAreNamed(t *testing.T) {
	var all []sreportalv1.Maintenance
	for i := range 12 {
		all = append(all, maintenance(fmt.Sprintf("m%02d", i), noon, after(time.Hour), "", "db"))
	}
	all = append(all, maintenance("outage", noon, after(time.Hour), sreportalv1.StatusMajorOutage, "db", "db"))
	db := newPortal(t, all...).at(noon).component("db")
	require.Len(t, db.Because, maxBecause)
	require.Equal(t, "m00, m01, m02, m03, m04, m05, m06, m07, m08, outage and 3 more", db.BecauseOf())
	require.Empty(t, ComponentView{}.BecauseOf())
}

func TestADeclaredOutageIsReplacedByAMaintenanceAndReturns(t *testing.T) {
	p := newPortal(t, maintenance("db", after(0), after(time.Hour), "", "db"))
	answer := apply(t, p, after(time.Minute), ApplyRequest{Components: []sreportalv1.Component{component("db", sreportalv1.StatusMajorOutage)}})
	require.Equal(t, []string{"component db changed"}, answer.Changes)
	require.Equal(t, sreportalv1.StatusMaintenance, p.at(after(time.Minute)).component("db").Status)
	v := p.at(after(2 * time.Hour))
	require.Equal(t, sreportalv1.StatusMajorOutage, v.component("db").Status)
	require.Empty(t, v.component("db").Because)
	require.Equal(t, after(time.Hour+1), v.component("db").Since)
}

func TestAPortalWithoutComponentsIsUnknown(t *testing.T) {
	require.Equal(t, sreportalv1.StatusUnknown, (&Portal{Name: "main"}).at(noon).Status)
}

func TestChangesDuringAnOutageGetTheirOwnTimes(t *testing.T) {
	p := newPortal(t, maintenance("db", after(time.Hour), after(3*time.Hour), "", "db"))
	v := p.at(noon.AddDate(0, 0, 2))
	require.Equal(t, after(3*time.Hour+1), v.component("db").Since)
	require.Equal(t, []string{"db"}, names(v.Completed))
	day := v.component("db").Days[historyDays-3]
	require.Equal(t, Day{
		Date: "2026-11-21", Worst: sreportalv1.StatusMaintenance, KnownSeconds: 12 * 3600,
		StatusSeconds: map[sreportalv1.ServiceStatus]int64{sreportalv1.StatusMaintenance: 2 * 3600, sreportalv1.StatusOperational: 10 * 3600},
	}, day)
	require.Equal(t, Day{Date: "2026-11-20"}, v.component("db").Days[historyDays-4], "the day is unknown")
	require.Equal(t, "2026-11-23", v.component("db").Days[historyDays-1].Date)
}

func TestAnInvalidScheduleClearsThePhase(t *testing.T) {
	p := newPortal(t, maintenance("db", after(0), after(time.Hour), "", "db"))
	require.Equal(t, sreportalv1.StatusMaintenance, p.at(after(time.Minute)).component("db").Status)
	broken := maintenance("db", after(time.Hour), after(time.Hour), "", "db")
	err := p.CheckApply(ApplyRequest{Maintenances: []sreportalv1.Maintenance{broken}})
	require.ErrorIs(t, err, windows.ErrInvalidSchedule)
	require.ErrorContains(t, err, "Maintenance prod/db: spec.scheduledEnd")

	p.Apply(ApplyRequest{Maintenances: []sreportalv1.Maintenance{broken}}, after(2*time.Minute)) // without CheckApply
	v := p.at(after(3 * time.Minute))
	require.Equal(t, sreportalv1.StatusOperational, v.component("db").Status)
	require.Empty(t, append(append(v.InProgress, v.Upcoming...), v.Completed...))
	require.Contains(t, v.Problems[0], "invalid schedule")
}

func TestAMaintenanceOfAnUnknownComponentIsShownWithAWarning(t *testing.T) {
	p := newPortal(t)
	answer := applyOne(t, p, noon, maintenance("core", after(0), after(time.Hour), "", "switch", "db"))
	require.Equal(t, []string{"maintenance core: spec.components: the portal does not have switch yet"}, answer.Warnings)
	require.Equal(t, []string{"switch"}, p.at(noon).InProgress[0].Unknown)
	apply(t, p, after(time.Minute), ApplyRequest{Components: []sreportalv1.Component{component("switch", "")}})
	v := p.at(after(time.Minute))
	require.Equal(t, sreportalv1.StatusMaintenance, v.component("switch").Status, "the new component is under maintenance")
	require.Equal(t, sreportalv1.StatusUnknown, v.component("switch").Declared)
	require.Empty(t, v.InProgress[0].Unknown)
}

func TestAMaintenanceInThePastOrMovedWhileInProgressHasAWarning(t *testing.T) {
	p := newPortal(t)
	over := maintenance("core", after(-2*time.Hour), after(-time.Hour), "", "db")
	require.Equal(t, []string{"maintenance core was over when it was applied: it ended 2026-11-21 11:00:00Z"}, applyOne(t, p, noon, over).Warnings)
	require.Empty(t, applyOne(t, p, noon, over).Warnings, "it is unchanged")
	require.Empty(t, applyOne(t, p, noon, maintenance("core", after(-time.Hour), after(time.Hour), "", "db")).Warnings)
	require.Equal(t, []string{"maintenance core was in progress when its schedule was changed"},
		applyOne(t, p, noon, maintenance("core", after(time.Hour), after(2*time.Hour), "", "db")).Warnings)
	require.Equal(t, []string{"maintenance core was over when it was applied: it ended 2026-11-21 11:00:00Z"}, applyOne(t, p, noon, over).Warnings)
}

func TestACancelledMaintenanceEndsNowOrDoesNotTakePlace(t *testing.T) {
	now := after(90 * time.Minute)
	running := maintenance("running", after(time.Hour), after(3*time.Hour), "", "db")
	coming := maintenance("coming", after(2*time.Hour), after(3*time.Hour), "", "web")
	p := newPortal(t, running, coming)
	p.Advance(now)
	for _, name := range []string{"running", "coming"} {
		require.NoError(t, p.CheckCancel(CancelRequest{Maintenance: name}, now))
		p.Cancel(CancelRequest{Request: Request{Actor: "ann", Reason: "no spare parts"}, Maintenance: name}, now)
		require.ErrorContains(t, p.CheckCancel(CancelRequest{Maintenance: name}, now), "cancelled already")
	}
	v := p.at(now)
	require.Equal(t, sreportalv1.StatusOperational, v.Status)
	require.Empty(t, v.Upcoming)
	require.Equal(t, []string{"running"}, names(v.Completed))
	require.True(t, v.Completed[0].Cancelled)
	require.Equal(t, now, v.Completed[0].End)
	require.Equal(t, "ann", v.Events[len(v.Events)-1].By)
	require.Equal(t, sreportalv1.StatusOperational, p.at(after(150*time.Minute)).component("web").Status)

	answer := applyOne(t, p, after(150*time.Minute), coming)
	require.Equal(t, []string{"maintenance coming unchanged"}, answer.Changes)
	require.Contains(t, answer.Warnings[0], "was cancelled, and stays so")
	coming.Spec.ScheduledEnd = metav1.NewTime(after(4 * time.Hour))
	require.Empty(t, applyOne(t, p, after(150*time.Minute), coming).Warnings)
	require.Equal(t, sreportalv1.StatusMaintenance, p.at(after(150*time.Minute)).component("web").Status, "a new time revokes the cancellation")
}

func TestAnInvalidObjectIsRefusedWithItsField(t *testing.T) {
	object := func(change func(*sreportalv1.Component)) ApplyRequest {
		c := component("api", "")
		change(&c)
		return ApplyRequest{Components: []sreportalv1.Component{c}}
	}
	long := component("api", "")
	long.Spec.Description = strings.Repeat("x", maxTexts)
	var many []sreportalv1.Component
	for i := range maxComponents + 1 {
		many = append(many, component("c"+strings.Repeat("i", i%50)+string(rune('a'+i/50)), ""))
	}
	for message, r := range map[string]ApplyRequest{
		"components, maintenances: there are none": {},
		`spec.portalRef: is "other"`:               object(func(c *sreportalv1.Component) { c.Spec.PortalRef = "other" }),
		"metadata.name":                            object(func(c *sreportalv1.Component) { c.Name = "a/b" }),
		"metadata.namespace: the portal has a component db of namespace prod": object(func(c *sreportalv1.Component) { c.Name, c.Namespace = "db", "test" }),
		"spec.displayName": object(func(c *sreportalv1.Component) { c.Spec.DisplayName = "" }),
		"spec.group":       object(func(c *sreportalv1.Component) { c.Spec.Group = "" }),
		"spec.link":        object(func(c *sreportalv1.Component) { c.Spec.Link = "javascript:alert(1)" }),
		"spec.status: maintenance cannot be declared": object(func(c *sreportalv1.Component) { c.Spec.Status = sreportalv1.StatusMaintenance }),
		`spec.status: "fine" is not a status`:         object(func(c *sreportalv1.Component) { c.Spec.Status = "fine" }),
		"is given twice":                              {Components: []sreportalv1.Component{component("api", ""), component("api", "")}},
		"spec.title":                                  {Maintenances: []sreportalv1.Maintenance{{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: sreportalv1.MaintenanceSpec{PortalRef: "main"}}}},
		"spec.affectedStatus":                         {Maintenances: []sreportalv1.Maintenance{maintenance("m", noon, after(1), sreportalv1.StatusOperational)}},
		"bytes, more than":                            {Components: []sreportalv1.Component{long}},
		"would have 223 components, and can have":     {Components: many},
		"reason: has":                                 {Request: Request{Reason: strings.Repeat("x", maxText+1)}, Components: []sreportalv1.Component{component("api", "")}},
	} {
		t.Run(message, func(t *testing.T) {
			p := newPortal(t)
			before, err := json.Marshal(p)
			require.NoError(t, err)
			require.ErrorContains(t, p.CheckApply(r), message)
			untouched, err := json.Marshal(p)
			require.NoError(t, err)
			require.JSONEq(t, string(before), string(untouched))
		})
	}
	require.ErrorContains(t, (&Portal{Name: "a/b"}).CheckApply(object(func(*sreportalv1.Component) {})), "cannot be named")
}

func TestAMissingObjectCannotBeDeletedOrCancelled(t *testing.T) {
	p := newPortal(t, maintenance("past", after(-2*time.Hour), after(-time.Hour), "", "db"))
	require.ErrorContains(t, p.CheckDelete(DeleteRequest{}), "name at least one")
	require.ErrorContains(t, p.CheckDelete(DeleteRequest{Components: []string{"db", "disk"}}), "components: the portal has no disk")
	require.ErrorContains(t, p.CheckDelete(DeleteRequest{Maintenances: []string{"m"}}), "maintenances: the portal has no maintenance m")
	require.ErrorContains(t, p.CheckCancel(CancelRequest{Maintenance: "past"}, noon), "is over since 2026-11-21 11:00:00Z")
	require.ErrorContains(t, p.CheckCancel(CancelRequest{Maintenance: "prod/night/20261121T220000Z"}, noon), "`drydock window cancel prod/night`")
	require.NoError(t, p.CheckDelete(DeleteRequest{Components: []string{"db"}, Maintenances: []string{"past"}}))
	require.Len(t, p.Delete(DeleteRequest{Components: []string{"db"}, Maintenances: []string{"past"}}, noon).Changes, 2)
	require.Len(t, p.View().Components, 1)
	require.False(t, p.Empty())
	p.Delete(DeleteRequest{All: true}, noon)
	require.True(t, p.Empty())
	_, changes := p.Next(noon)
	require.False(t, changes, "no change is due")
}

func TestApplyingTwiceChangesNothing(t *testing.T) {
	m := maintenance("db", after(time.Hour), after(2*time.Hour), "", "db")
	p := newPortal(t, m)
	number := p.Number
	answer := apply(t, p, noon, ApplyRequest{Components: []sreportalv1.Component{component("db", sreportalv1.StatusOperational)}, Maintenances: []sreportalv1.Maintenance{m}})
	require.Equal(t, []string{"component db unchanged", "maintenance db unchanged"}, answer.Changes)
	require.Equal(t, number, p.Number)
	require.Len(t, p.Events, 1)
}

func TestAMovedComponentIsRemovedUnlessItReturned(t *testing.T) {
	p := newPortal(t, maintenance("m", after(time.Hour), after(2*time.Hour), "", "db"))
	moved := func(at time.Time) Move {
		return Move{To: "other", Components: []Object{{"prod", "db", at}, {"test", "web", at}}, Maintenances: []Object{{"prod", "m", at}}}
	}
	move, back := moved(after(time.Minute)), moved(noon.Add(-time.Minute))
	require.False(t, p.RemoveMoved(back, after(time.Minute)), "it was applied here later")
	require.False(t, p.RemoveMoved(Move{To: "main", Components: move.Components}, after(time.Minute)))
	require.True(t, p.RemoveMoved(move, after(time.Minute)))
	v := p.View()
	require.Equal(t, "web", v.Components[0].Name)
	require.Len(t, v.Components, 1)
	require.Empty(t, v.Upcoming)
	require.Contains(t, v.Events[1].Message, "moved to portal other")
}

func TestAMoveKeepsTheLatestEntryOfEachObject(t *testing.T) {
	first := Move{To: "main", Components: []Object{{"prod", "db", noon}, {"prod", "web", after(1)}}}
	second := Move{To: "main", Components: []Object{{"prod", "db", after(2)}, {"test", "web", after(2)}}, Maintenances: []Object{{"prod", "db", after(2)}}}
	both := first.And(second)
	require.Equal(t, Move{
		To: "main", Components: []Object{{"prod", "db", after(2)}, {"prod", "web", after(1)}, {"test", "web", after(2)}}, Maintenances: second.Maintenances,
	}, both)
	require.Equal(t, noon, first.Components[0].At)
	require.Equal(t, both, second.And(both).And(first).sorted())
	require.Equal(t, second, both.Without(first), "a later entry is not sent yet")
	require.True(t, both.Without(both).Empty())
	require.False(t, second.Without(first).Empty())
	require.True(t, Move{}.Empty())
}

func (m Move) sorted() Move {
	slices.SortFunc(m.Components, func(a, b Object) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return m
}

func TestOldMaintenancesAreForgotten(t *testing.T) {
	var all []sreportalv1.Maintenance
	for i := range maxPast + 10 {
		start := after(-time.Duration(i+2) * time.Hour)
		all = append(all, maintenance("m"+string(rune('a'+i/10))+string(rune('a'+i%10)), start, start.Add(time.Hour), "", "db"))
	}
	p := newPortal(t, all...)
	v := p.at(noon)
	require.Len(t, v.Completed, maxPast)
	require.Equal(t, "maa", v.Completed[0].Name, "the last that ended")
	later := noon.Add(retention + 24*time.Hour)
	require.Empty(t, p.at(later).Completed)
	answer := applyOne(t, p, later, all[0])
	require.Contains(t, answer.Warnings[0], "ended too long ago")
}

func TestTheSizeOfATextIsItsSizeAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("a<>&\"\\\n\t\b\f\x01\u2028\x7fä")), 0, 20, -1)).Draw(t, "text")
		text = strings.ReplaceAll(text, "\ufffd", "") // JSON escapes it when it stands for invalid UTF-8
		encoded, err := json.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, len(encoded)+len(","), lengthOf(text)-lengthOf())
	})
	require.Equal(t, len(`"\ufffd",`), lengthOf("\xff")-lengthOf())
}

// The portal admits as many of 200 components and 100 windows as fit, each with thirty days of outages.
func TestTheLargestPortalFitsIntoAPayload(t *testing.T) {
	p := &Portal{Name: "main"}
	var r ApplyRequest
	for i := range maxComponents {
		c := component("component-"+string(rune('a'+i/26))+string(rune('a'+i%26)), sreportalv1.StatusOperational)
		c.Spec.Description = strings.Repeat("d", 600)
		r.Components = append(r.Components, c)
	}
	apply(t, p, noon, r)
	for i := range maxWindows {
		a := nightOf("prod/night-"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1, after(24*time.Hour*40))
		a.Description = strings.Repeat("d", 1000)
		p.Receive(a, noon)
	}
	require.Len(t, p.Windows, maxWindows)
	require.Greater(t, p.length(), maxTexts*3/4, "the portal is almost full")
	now := noon
	for range historyDays + 1 {
		for _, status := range statuses() {
			for i := range p.Components {
				p.Components[i].Status = status
			}
			now = now.Add(4 * time.Hour)
			p.count(now)
		}
	}
	for name, of := range map[string]any{"the view": p.View(), "the state": p} {
		text, err := json.Marshal(of)
		require.NoError(t, err)
		t.Logf("%s has %d bytes", name, len(text))
		require.Less(t, len(text), 2<<20, name)
	}
}
