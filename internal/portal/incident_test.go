package portal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// update is one of an incident, that long after noon.
func update(after time.Duration, phase sreportalv1.IncidentPhase) sreportalv1.IncidentUpdate {
	return sreportalv1.IncidentUpdate{Timestamp: metav1.NewTime(noon.Add(after)), Phase: phase, Message: string(phase) + " it"}
}

// incident affects the components web and db.
func incident(name string, severity sreportalv1.IncidentSeverity, updates ...sreportalv1.IncidentUpdate) ObjectRequest {
	return ObjectRequest{Incident: &sreportalv1.Incident{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), Generation: int64(len(updates)), CreationTimestamp: metav1.NewTime(noon)},
		Spec:       sreportalv1.IncidentSpec{Title: "No " + name, PortalRef: "main", Components: []string{"web", "db"}, Severity: severity, Updates: updates},
	}}
}

func declare(t *testing.T, p *Portal, at time.Time, r ObjectRequest) Answer {
	t.Helper()
	require.NoError(t, p.CheckDeclare(r))
	answer, _ := p.Declare(r, at)
	return answer
}

func TestTheLatestUpdateOfAnIncidentHasItsPhase(t *testing.T) {
	for name, tt := range map[string]struct {
		updates  []sreportalv1.IncidentUpdate
		phase    sreportalv1.IncidentPhase
		resolved time.Duration
		minutes  int
	}{
		"one":                   {[]sreportalv1.IncidentUpdate{update(0, sreportalv1.IncidentInvestigating)}, sreportalv1.IncidentInvestigating, 0, 0},
		"not in order":          {[]sreportalv1.IncidentUpdate{update(time.Hour, sreportalv1.IncidentMonitoring), update(0, sreportalv1.IncidentIdentified)}, sreportalv1.IncidentMonitoring, 0, 0},
		"resolved":              {[]sreportalv1.IncidentUpdate{update(0, sreportalv1.IncidentInvestigating), update(90*time.Second, sreportalv1.IncidentResolved)}, sreportalv1.IncidentResolved, 90 * time.Second, 1},
		"open again":            {[]sreportalv1.IncidentUpdate{update(0, sreportalv1.IncidentResolved), update(time.Hour, sreportalv1.IncidentInvestigating)}, sreportalv1.IncidentInvestigating, 0, 0},
		"two at the same time":  {[]sreportalv1.IncidentUpdate{update(0, sreportalv1.IncidentIdentified), update(0, sreportalv1.IncidentResolved)}, sreportalv1.IncidentResolved, 0, 0},
		"resolved at the start": {[]sreportalv1.IncidentUpdate{update(0, sreportalv1.IncidentResolved)}, sreportalv1.IncidentResolved, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			status := IncidentStatus(tt.updates)
			require.Equal(t, tt.phase, status.CurrentPhase)
			require.Equal(t, noon, status.StartedAt.UTC())
			require.Equal(t, tt.minutes, status.DurationMinutes)
			if tt.phase != sreportalv1.IncidentResolved {
				require.Nil(t, status.ResolvedAt)
				return
			}
			require.Equal(t, noon.Add(tt.resolved), status.ResolvedAt.UTC())
		})
	}
	require.Zero(t, IncidentStatus(nil))
}

func TestAnIncidentMakesTheStatusOfItsComponentsWorseUntilItIsResolved(t *testing.T) {
	p := newPortal(t, maintenance("db", after(time.Hour), after(3*time.Hour), sreportalv1.StatusPartialOutage, "db"))
	declare(t, p, after(time.Minute), incident("login", sreportalv1.SeverityMinor, update(0, sreportalv1.IncidentInvestigating)))
	v := p.at(after(2 * time.Minute))
	require.Equal(t, sreportalv1.StatusDegraded, v.component("web").Status)
	require.Equal(t, []string{"incident login"}, v.component("web").Because)
	require.Equal(t, sreportalv1.StatusDegraded, v.Status)
	require.Equal(t, "investigating it", v.Incidents[0].Message)

	v = p.at(after(2 * time.Hour))
	require.Equal(t, sreportalv1.StatusPartialOutage, v.component("db").Status, "the maintenance is worse than the incident")
	require.Equal(t, []string{"db", "incident login"}, v.component("db").Because)
	declare(t, p, after(2*time.Hour), incident("dns", sreportalv1.SeverityCritical, update(2*time.Hour, sreportalv1.IncidentIdentified)))
	v = p.at(after(2*time.Hour + time.Minute))
	require.Equal(t, sreportalv1.StatusMajorOutage, v.component("db").Status)
	require.Equal(t, []string{"dns", "login"}, []string{v.Incidents[0].Name, v.Incidents[1].Name}, "the latest to start first")

	declare(t, p, after(4*time.Hour), incident("dns", sreportalv1.SeverityCritical, update(2*time.Hour, sreportalv1.IncidentIdentified), update(4*time.Hour, sreportalv1.IncidentResolved)))
	v = p.at(after(4 * time.Hour))
	require.Equal(t, sreportalv1.StatusDegraded, v.component("web").Status)
	require.Equal(t, []string{"login", "dns"}, []string{v.Incidents[0].Name, v.Incidents[1].Name}, "resolved ones last")
	withdrawn := incident("login", sreportalv1.SeverityMinor)
	withdrawn.Withdrawn = true
	declare(t, p, after(5*time.Hour), withdrawn)
	require.Equal(t, sreportalv1.StatusOperational, p.at(after(5*time.Hour)).component("web").Status)
}

func TestAnIncidentCountsOnlyInItsNamespace(t *testing.T) {
	p := newPortal(t)
	r := incident("login", sreportalv1.SeverityMajor, update(0, sreportalv1.IncidentInvestigating))
	r.Incident.Namespace = "other"
	declare(t, p, noon, r)
	require.Equal(t, sreportalv1.StatusOperational, p.at(noon).component("web").Status)
	r.Incident.Namespace = "prod"
	require.ErrorContains(t, p.CheckDeclare(r), "the portal has an incident login of namespace other")
}

func TestAnInvalidIncidentIsRefused(t *testing.T) {
	p := newPortal(t)
	for name, tt := range map[string]struct {
		r   ObjectRequest
		why string
	}{
		"without updates":  {incident("login", sreportalv1.SeverityMinor), "spec.updates: has no entry"},
		"an unknown phase": {incident("login", sreportalv1.SeverityMinor, update(0, "done")), `spec.updates[0].phase: "done" is not a phase`},
		"a severity":       {incident("login", "bad", update(0, sreportalv1.IncidentIdentified)), `spec.severity: "bad" is not a severity`},
		"two kinds": {ObjectRequest{
			Incident:  incident("login", sreportalv1.SeverityMinor, update(0, sreportalv1.IncidentIdentified)).Incident,
			Component: &sreportalv1.Component{},
		}, "one of component, maintenance and incident must be set"},
	} {
		require.ErrorContains(t, p.CheckDeclare(tt.r), tt.why, name)
	}
}

func TestAResolvedIncidentIsForgottenAfterThirtyDays(t *testing.T) {
	p := newPortal(t)
	resolved := incident("login", sreportalv1.SeverityMinor, update(-time.Hour, sreportalv1.IncidentInvestigating), update(0, sreportalv1.IncidentResolved))
	require.False(t, declare(t, p, noon, resolved).Forgotten)
	require.Len(t, p.at(after(retention-time.Second)).Incidents, 1)
	require.Empty(t, p.at(after(retention+24*time.Hour)).Incidents)
	require.True(t, declare(t, p, after(retention+24*time.Hour), resolved).Forgotten)
	past := Resolved(2, resolved.Incident.CreationTimestamp, resolved.Incident.Spec.Updates)
	require.Equal(t, 60, past.DurationMinutes)
	require.EqualValues(t, 2, past.ObservedGeneration)
	require.Equal(t, "phase: resolved", past.Conditions[0].Message)
}

func TestTheStatusOfAComponentHasItsIncidentsAndTheWorstOfEachDay(t *testing.T) {
	p := &Portal{Name: "main"}
	web := component("web", sreportalv1.StatusOperational)
	web.UID, web.Generation = "c1", 1
	declare(t, p, noon, ObjectRequest{Component: &web})
	declare(t, p, after(time.Hour), incident("login", sreportalv1.SeverityMajor, update(time.Hour, sreportalv1.IncidentInvestigating)))
	shown := func(at time.Time) (status sreportalv1.ComponentStatus) {
		p.Advance(at)
		for _, one := range p.Unpublished("run", 10) {
			p.Published(one, false, at)
			if one.Kind == KindComponent {
				status = one.Status.(sreportalv1.ComponentStatus)
			}
		}
		return status
	}
	status := shown(after(2 * time.Hour))
	require.Equal(t, 1, status.ActiveIncidents)
	require.Len(t, status.DailyWorstStatus, 30)
	require.Equal(t, sreportalv1.DailyComponentStatus{Date: "2026-11-21", WorstStatus: sreportalv1.StatusPartialOutage}, status.DailyWorstStatus[29])
	require.Equal(t, sreportalv1.DailyComponentStatus{Date: "2026-11-20", WorstStatus: sreportalv1.StatusOperational}, status.DailyWorstStatus[28], "nothing is known of it")
	require.Zero(t, shown(after(3*time.Hour)), "nothing has changed")

	declare(t, p, after(4*time.Hour), incident("login", sreportalv1.SeverityMajor, update(time.Hour, sreportalv1.IncidentInvestigating), update(4*time.Hour, sreportalv1.IncidentResolved)))
	status = shown(after(4 * time.Hour))
	require.Zero(t, status.ActiveIncidents)
	require.Equal(t, sreportalv1.StatusPartialOutage, status.DailyWorstStatus[29].WorstStatus)
	status = shown(after(13 * time.Hour))
	require.Equal(t, sreportalv1.DailyComponentStatus{Date: "2026-11-22", WorstStatus: sreportalv1.StatusOperational}, status.DailyWorstStatus[29], "the next day")
	require.Equal(t, sreportalv1.StatusPartialOutage, status.DailyWorstStatus[28].WorstStatus)
}
