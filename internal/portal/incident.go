package portal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// Incident is a declared incident. Only objects on the hub declare incidents.
type Incident struct {
	Namespace string                   `json:"namespace,omitempty"`
	Name      string                   `json:"name"`
	Spec      sreportalv1.IncidentSpec `json:"spec"`
	Applied   time.Time                `json:"applied"`
	Bytes     int                      `json:"bytes"`
	// Object is as for a component.
	Object *Declaration `json:"object,omitempty"`
}

// IncidentView is an incident, and what is known of it.
type IncidentView struct {
	Name       string                       `json:"name"`
	Title      string                       `json:"title"`
	Severity   sreportalv1.IncidentSeverity `json:"severity"`
	Phase      sreportalv1.IncidentPhase    `json:"phase"`
	Components []string                     `json:"components,omitempty"`
	StartedAt  time.Time                    `json:"startedAt"`
	ResolvedAt *time.Time                   `json:"resolvedAt,omitempty"`
	// Message is that of the latest update.
	Message string `json:"message"`
	// Unknown are those of its components that the portal does not have.
	Unknown []string `json:"unknownComponents,omitempty"`
}

// IncidentStatus returns the status that follows from the updates of an incident. They count by their times, not by their order.
func IncidentStatus(updates []sreportalv1.IncidentUpdate) sreportalv1.IncidentStatus {
	if len(updates) == 0 {
		return sreportalv1.IncidentStatus{}
	}
	first, last := ends(updates)
	status := sreportalv1.IncidentStatus{CurrentPhase: last.Phase, StartedAt: new(wholeSeconds(first.Timestamp))}
	if last.Phase == sreportalv1.IncidentResolved {
		status.ResolvedAt = new(wholeSeconds(last.Timestamp))
		status.DurationMinutes = int(last.Timestamp.Sub(first.Timestamp.Time).Minutes())
	}
	return status
}

// ends are the first and the latest update. Of several at the same time, the last one counts as the latest.
func ends(updates []sreportalv1.IncidentUpdate) (first, last sreportalv1.IncidentUpdate) {
	sorted := slices.Clone(updates)
	slices.SortStableFunc(sorted, func(a, b sreportalv1.IncidentUpdate) int { return a.Timestamp.Compare(b.Timestamp.Time) })
	return sorted[0], sorted[len(sorted)-1]
}

func wholeSeconds(t metav1.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// StatusOf is the status that components have at least, because of an incident of that severity.
func StatusOf(severity sreportalv1.IncidentSeverity) sreportalv1.ServiceStatus {
	switch severity {
	case sreportalv1.SeverityCritical:
		return sreportalv1.StatusMajorOutage
	case sreportalv1.SeverityMajor:
		return sreportalv1.StatusPartialOutage
	}
	return sreportalv1.StatusDegraded
}

// active reports whether the incident is not resolved.
func (i Incident) active() bool {
	return IncidentStatus(i.Spec.Updates).CurrentPhase != sreportalv1.IncidentResolved
}

// activeIncidents are the incidents of the component's namespace that list it, and are not resolved.
func (p *Portal) activeIncidents(c Component) []Incident {
	var active []Incident
	for _, incident := range p.Incidents {
		if incident.Namespace == c.Namespace && slices.Contains(incident.Spec.Components, c.Name) && incident.active() {
			active = append(active, incident)
		}
	}
	return active
}

// withIncidents returns the status of a component that is otherwise shown as status. An incident never improves it.
func (p *Portal) withIncidents(c Component, status sreportalv1.ServiceStatus) sreportalv1.ServiceStatus {
	for _, incident := range p.activeIncidents(c) {
		status = Worst(status, StatusOf(incident.Spec.Severity))
	}
	return status
}

// incidentCauses are incidents as causes of a status.
func incidentCauses(incidents []Incident) []MaintenanceView {
	var all []MaintenanceView
	for _, incident := range incidents {
		all = append(all, MaintenanceView{Name: "incident " + incident.Name, AffectedStatus: StatusOf(incident.Spec.Severity)})
	}
	return all
}

// incident returns the incident with that name; nil: there is none.
func (p *Portal) incident(name string) *Incident {
	i := slices.IndexFunc(p.Incidents, func(one Incident) bool { return one.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Incidents[i]
}

// checkIncident returns why an object cannot be shown as an incident, or nil.
func (p *Portal) checkIncident(object sreportalv1.Incident) error {
	spec := object.Spec
	if known := p.incident(object.Name); known != nil {
		if known.Namespace != object.Namespace {
			return fmt.Errorf("metadata.namespace: the portal has an incident %s of namespace %s: give this one another name", object.Name, known.Namespace)
		}
		if err := known.Object.others(object.ObjectMeta, true); err != nil {
			return err
		}
	}
	severities := []sreportalv1.IncidentSeverity{sreportalv1.SeverityCritical, sreportalv1.SeverityMajor, sreportalv1.SeverityMinor}
	switch {
	case spec.Title == "":
		return errors.New("spec.title: must be set")
	case !slices.Contains(severities, spec.Severity):
		return fmt.Errorf("spec.severity: %q is not a severity", spec.Severity)
	}
	return CheckUpdates(spec.Updates)
}

// CheckUpdates returns why an incident with these updates has no phase, or nil.
func CheckUpdates(updates []sreportalv1.IncidentUpdate) error {
	if len(updates) == 0 {
		return errors.New("spec.updates: has no entry, so the incident has no phase")
	}
	phases := []sreportalv1.IncidentPhase{
		sreportalv1.IncidentInvestigating, sreportalv1.IncidentIdentified, sreportalv1.IncidentMonitoring, sreportalv1.IncidentResolved,
	}
	for i, update := range updates {
		if !slices.Contains(phases, update.Phase) {
			return fmt.Errorf("spec.updates[%d].phase: %q is not a phase", i, update.Phase)
		}
	}
	return nil
}

// applyIncident adds or replaces an incident.
func (p *Portal) applyIncident(object sreportalv1.Incident, by *Declaration, now time.Time) string {
	spec := *object.Spec.DeepCopy()
	applied := Incident{Namespace: object.Namespace, Name: object.Name, Spec: spec, Applied: now, Object: by}
	texts := append(slices.Clone(spec.Components), object.Name, spec.Title)
	for _, update := range spec.Updates {
		texts = append(texts, update.Message, update.Timestamp.UTC().Format(time.RFC3339), string(update.Phase))
	}
	applied.Bytes = lengthOf(texts...)
	i, found := slices.BinarySearchFunc(p.Incidents, object.Name, func(one Incident, name string) int { return strings.Compare(one.Name, name) })
	if !found {
		p.Incidents = slices.Insert(p.Incidents, i, applied)
		return "added"
	}
	before := p.Incidents[i]
	applied.Object = by.after(before.Object)
	p.Incidents[i] = applied
	if sameIncident(before.Spec, spec) {
		return unchanged
	}
	return "changed"
}

func sameIncident(a, b sreportalv1.IncidentSpec) bool {
	return a.Title == b.Title && a.PortalRef == b.PortalRef && a.Severity == b.Severity && slices.Equal(a.Components, b.Components) &&
		slices.EqualFunc(a.Updates, b.Updates, func(a, b sreportalv1.IncidentUpdate) bool {
			return a.Timestamp.Equal(&b.Timestamp) && a.Phase == b.Phase && a.Message == b.Message
		})
}

// forgetIncidents removes those that were resolved too long ago, or exceed the limit.
func (p *Portal) forgetIncidents(at time.Time) {
	var resolved []time.Time
	for _, incident := range p.Incidents {
		if end := IncidentStatus(incident.Spec.Updates).ResolvedAt; end != nil {
			resolved = append(resolved, end.Time)
		}
	}
	slices.SortFunc(resolved, func(a, b time.Time) int { return b.Compare(a) })
	p.Incidents = slices.DeleteFunc(p.Incidents, func(incident Incident) bool {
		end := IncidentStatus(incident.Spec.Updates).ResolvedAt
		return end != nil && (!at.Before(end.Add(retention)) || len(resolved) > maxPast && end.Time.Before(resolved[maxPast-1]))
	})
}

// view returns the incident as the portal shows it.
func (i Incident) view(p *Portal) IncidentView {
	status := IncidentStatus(i.Spec.Updates)
	_, last := ends(i.Spec.Updates)
	v := IncidentView{
		Name: i.Name, Title: i.Spec.Title, Severity: i.Spec.Severity, Phase: status.CurrentPhase, Components: i.Spec.Components,
		StartedAt: status.StartedAt.UTC(), Message: last.Message, Unknown: p.unknown(i.Spec.Components),
	}
	if status.ResolvedAt != nil {
		v.ResolvedAt = new(status.ResolvedAt.UTC())
	}
	return v
}

// compareIncidents orders incidents as a view has them.
func compareIncidents(a, b IncidentView) int {
	switch {
	case a.ResolvedAt == nil && b.ResolvedAt == nil:
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(a.Name, b.Name))
	case a.ResolvedAt == nil:
		return -1
	case b.ResolvedAt == nil:
		return 1
	}
	return cmp.Or(b.ResolvedAt.Compare(*a.ResolvedAt), strings.Compare(a.Name, b.Name))
}

// dailyWorst is the worst status of a component on each of the last thirty days. A day of which nothing is known counts as operational, as with the
// original operator.
func (c Component) dailyWorst(now time.Time) []sreportalv1.DailyComponentStatus {
	days := c.History.days(lastDates(now))
	today := &days[len(days)-1]
	today.Worst = Worst(cmp.Or(today.Worst, c.Status), c.Status)
	all := make([]sreportalv1.DailyComponentStatus, len(days))
	for i, day := range days {
		all[i] = sreportalv1.DailyComponentStatus{Date: day.Date, WorstStatus: cmp.Or(day.Worst, sreportalv1.StatusOperational)}
	}
	return all
}
