package portal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// Request has the actor and the reason of a change of a portal.
type Request struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ApplyRequest declares components and maintenances: new ones are added, those with the same name are replaced. All or none are applied.
type ApplyRequest struct {
	Request
	Components   []sreportalv1.Component   `json:"components,omitempty"`
	Maintenances []sreportalv1.Maintenance `json:"maintenances,omitempty"`

	// declaring: it has one object of the hub. Only such a request has an incident.
	declaring bool
	incidents []sreportalv1.Incident
}

// DeleteRequest removes components, with their history, and maintenances.
type DeleteRequest struct {
	Request
	Components   []string `json:"components,omitempty"`
	Maintenances []string `json:"maintenances,omitempty"`
	// All removes everything. A window returns with its next announcement.
	All bool `json:"all,omitempty"`
}

// CancelRequest cancels a maintenance: one in progress ends now, an upcoming one does not take place.
type CancelRequest struct {
	Request
	Maintenance string `json:"maintenance"`
}

// Answer is the answer of a portal to a request.
type Answer struct {
	Portal string `json:"portal"`
	// Number and Status are those of its view then.
	Number int64                     `json:"number"`
	Status sreportalv1.ServiceStatus `json:"status"`
	// Changes are the results by object, e.g. "component web added".
	Changes []string `json:"changes,omitempty"`
	// Warnings are effects that the author may not expect.
	Warnings []string `json:"warnings,omitempty"`
	// Forgotten: the portal does not keep the declared maintenance or incident, which ended too long ago.
	Forgotten bool `json:"forgotten,omitempty"`
}

// Apply adds components and maintenances that CheckApply has accepted. It returns those that are new here: no other portal may show them.
func (p *Portal) Apply(r ApplyRequest, now time.Time) (Answer, Move) {
	p.Advance(now)
	added := Move{To: p.Name}
	var changes, warnings, applied []string
	report := func(kind, name, result string) { changes = append(changes, kind+" "+name+" "+result) }
	for _, object := range r.Components {
		result := p.applyComponent(object, r.declaration(object.ObjectMeta, now), now)
		if result == "added" {
			added.Components = append(added.Components, Object{object.Namespace, object.Name, now})
		}
		report("component", object.Name, result)
	}
	for _, object := range r.Maintenances {
		moved := p.movesInProgress(object, now)
		result := p.applyMaintenance(object, r.declaration(object.ObjectMeta, now), now)
		if result == "added" {
			added.Maintenances = append(added.Maintenances, Object{object.Namespace, object.Name, now})
		}
		report("maintenance", object.Name, result)
		if warnings = append(warnings, moved...); result != unchanged {
			applied = append(applied, object.Name)
		}
	}
	for _, object := range r.incidents {
		result := p.applyIncident(object, r.declaration(object.ObjectMeta, now), now)
		if result == "added" {
			added.Incidents = append(added.Incidents, Object{object.Namespace, object.Name, now})
		}
		report("incident", object.Name, result)
	}
	changed := slices.DeleteFunc(slices.Clone(changes), func(change string) bool { return strings.HasSuffix(change, unchanged) })
	if len(changed) > 0 {
		p.record(r.Request, listed(changed), now)
		p.changed(now)
	}
	for _, object := range r.Maintenances {
		warnings = append(warnings, p.warnings(object.Name, now)...)
		if known, err := p.maintenance(object.Name); err == nil && slices.Contains(applied, object.Name) && known.occasion(now).Phase == sreportalv1.PhaseCompleted {
			warnings = append(warnings, fmt.Sprintf("maintenance %s was over when it was applied: it ended %s", object.Name, clock(object.Spec.ScheduledEnd.Time)))
		}
	}
	answer := p.answer(changes)
	answer.Warnings = warnings
	return answer, added
}

const unchanged = "unchanged"

func (p *Portal) applyComponent(object sreportalv1.Component, by *Declaration, now time.Time) string {
	spec := object.Spec
	if spec.Status == "" {
		spec.Status = sreportalv1.StatusUnknown
	}
	bytes := lengthOf(object.Name, spec.DisplayName, spec.Description, spec.Group, spec.Link)
	i, found := slices.BinarySearchFunc(p.Components, object.Name, func(c Component, name string) int { return strings.Compare(c.Name, name) })
	if !found {
		p.Components = slices.Insert(p.Components, i, Component{Namespace: object.Namespace, Name: object.Name, Spec: spec, Applied: now, Bytes: bytes, Object: by})
		return "added"
	}
	c := &p.Components[i]
	c.Applied, c.Object = now, by.after(c.Object)
	if c.Spec == spec {
		return unchanged
	}
	c.Spec, c.Bytes = spec, bytes
	return "changed"
}

// applyMaintenance adds or replaces a maintenance. A cancelled one stays so until its time changes.
func (p *Portal) applyMaintenance(object sreportalv1.Maintenance, by *Declaration, now time.Time) string {
	spec := object.Spec
	applied := Maintenance{Namespace: object.Namespace, Name: object.Name, Spec: spec, Applied: now, Object: by}
	applied.Bytes = lengthOf(append(slices.Clone(spec.Components), object.Name, spec.Title, spec.Description)...)
	i, found := slices.BinarySearchFunc(p.Maintenances, object.Name, func(m Maintenance, name string) int { return strings.Compare(m.Name, name) })
	if !found {
		p.Maintenances = slices.Insert(p.Maintenances, i, applied)
		return "added"
	}
	before := p.Maintenances[i]
	applied.Object = by.after(before.Object)
	if before.Spec.ScheduledStart.Equal(&applied.Spec.ScheduledStart) && before.Spec.ScheduledEnd.Equal(&applied.Spec.ScheduledEnd) {
		applied.Cancelled = before.Cancelled
	}
	p.Maintenances[i] = applied
	if sameMaintenance(before.Spec, applied.Spec) {
		return unchanged
	}
	return "changed"
}

func sameMaintenance(a, b sreportalv1.MaintenanceSpec) bool {
	return a.Title == b.Title && a.Description == b.Description && a.PortalRef == b.PortalRef && a.AffectedStatus == b.AffectedStatus &&
		a.ScheduledStart.Equal(&b.ScheduledStart) && a.ScheduledEnd.Equal(&b.ScheduledEnd) && slices.Equal(a.Components, b.Components)
}

// warnings returns effects that the author of a maintenance may not expect.
func (p *Portal) warnings(name string, now time.Time) []string {
	i := slices.IndexFunc(p.Maintenances, func(m Maintenance) bool { return m.Name == name })
	if i < 0 {
		return []string{fmt.Sprintf("maintenance %s ended too long ago to be shown", name)}
	}
	var warnings []string
	m := p.Maintenances[i]
	if m.Cancelled != nil {
		warnings = append(warnings, fmt.Sprintf("maintenance %s was cancelled, and stays so: give it another time, or delete it first", name))
	}
	if unknown := p.unknown(m.Spec.Components); len(unknown) > 0 && m.occasion(now).Phase != sreportalv1.PhaseCompleted {
		warnings = append(warnings, fmt.Sprintf("maintenance %s: spec.components: the portal does not have %s yet", name, listed(unknown)))
	}
	return warnings
}

// movesInProgress warns of another time for a maintenance in progress.
func (p *Portal) movesInProgress(object sreportalv1.Maintenance, now time.Time) []string {
	known, err := p.maintenance(object.Name)
	if err != nil || known.occasion(now).Phase != sreportalv1.PhaseInProgress ||
		known.Spec.ScheduledStart.Equal(&object.Spec.ScheduledStart) && known.Spec.ScheduledEnd.Equal(&object.Spec.ScheduledEnd) {
		return nil
	}
	return []string{fmt.Sprintf("maintenance %s was in progress when its schedule was changed", object.Name)}
}

// unknown are the names without a component.
func (p *Portal) unknown(names []string) []string {
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(p.Components, func(c Component) bool { return c.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// CheckDelete returns why something cannot be deleted, or nil.
func (p *Portal) CheckDelete(r DeleteRequest) error {
	if !r.All && len(r.Components)+len(r.Maintenances) == 0 {
		return errors.New("components, maintenances: name at least one")
	}
	if unknown := p.unknown(r.Components); len(unknown) > 0 {
		return fmt.Errorf("components: the portal has no %s", listed(unknown))
	}
	declared := 0
	p.eachDeclaration(func(string, string, string, *Declaration) { declared++ })
	if r.All && declared > 0 {
		return fmt.Errorf("all: objects on the hub declare %d components, maintenances and incidents of the portal: delete those objects", declared)
	}
	for _, c := range p.Components {
		if c.Object != nil && slices.Contains(r.Components, c.Name) {
			return fmt.Errorf("components: Component %s/%s on the hub declares %s: delete that object", c.Namespace, c.Name, c.Name)
		}
	}
	for _, name := range r.Maintenances {
		m, err := p.maintenance(name)
		if err != nil {
			return fmt.Errorf("maintenances: %w", err)
		}
		if m.Object != nil {
			return fmt.Errorf("maintenances: Maintenance %s/%s on the hub declares %s: delete that object", m.Namespace, m.Name, m.Name)
		}
	}
	return r.check()
}

// maintenance returns the Maintenance with that name. Openings of windows are not included.
func (p *Portal) maintenance(name string) (*Maintenance, error) {
	i := slices.IndexFunc(p.Maintenances, func(m Maintenance) bool { return m.Name == name })
	if i >= 0 {
		return &p.Maintenances[i], nil
	}
	if namespace, rest, opening := strings.Cut(name, "/"); opening {
		window, _, _ := strings.Cut(rest, "/")
		return nil, fmt.Errorf("%s is an opening of a window: `drydock window cancel %s/%s` cancels it", name, namespace, window)
	}
	return nil, fmt.Errorf("the portal has no maintenance %s", name)
}

// Delete removes components and maintenances.
func (p *Portal) Delete(r DeleteRequest, now time.Time) Answer {
	p.Advance(now)
	var changes []string
	gone := func(kind string, names []string, name string) bool {
		if !r.All && !slices.Contains(names, name) {
			return false
		}
		changes = append(changes, kind+" "+name+" deleted")
		return true
	}
	p.Components = slices.DeleteFunc(p.Components, func(c Component) bool { return gone("component", r.Components, c.Name) })
	p.Maintenances = slices.DeleteFunc(p.Maintenances, func(m Maintenance) bool { return gone("maintenance", r.Maintenances, m.Name) })
	if r.All {
		p.Incidents, p.Windows, p.Past, p.Refused = nil, nil, nil, nil
	}
	p.record(r.Request, listed(changes), now)
	p.changed(now)
	return p.answer(changes)
}

// CheckCancel returns why a maintenance cannot be cancelled, or nil.
func (p *Portal) CheckCancel(r CancelRequest, now time.Time) error {
	m, err := p.maintenance(r.Maintenance)
	if err != nil {
		return fmt.Errorf("maintenance: %w", err)
	}
	switch o := m.occasion(now); {
	case m.Cancelled != nil:
		return fmt.Errorf("maintenance: %s is cancelled already", m.Name)
	case o.invalid == "" && o.Phase == sreportalv1.PhaseCompleted:
		return fmt.Errorf("maintenance: %s is over since %s", m.Name, clock(o.End))
	}
	return r.check()
}

// Cancel cancels a maintenance.
func (p *Portal) Cancel(r CancelRequest, now time.Time) Answer {
	p.Advance(now)
	m, _ := p.maintenance(r.Maintenance)
	result := "cancelled, and does not take place"
	if m.occasion(now).Phase == sreportalv1.PhaseInProgress {
		result = "cancelled, and ends now"
	}
	m.Cancelled = &now
	changes := []string{"maintenance " + m.Name + " " + result}
	p.record(r.Request, listed(changes), now)
	p.changed(now)
	return p.answer(changes)
}

// answer is the answer to a request.
func (p *Portal) answer(changes []string) Answer {
	return Answer{Portal: p.Name, Number: p.Number, Status: p.status(), Changes: changes}
}

// maxEvents limits the events that a portal keeps.
const maxEvents = 20

func (p *Portal) record(r Request, message string, now time.Time) {
	p.Events = append(p.Events, Event{At: now, By: r.Actor, Reason: r.Reason, Message: message})
	p.Events = slices.Clone(p.Events[max(0, len(p.Events)-maxEvents):])
}

// listed names the first ten.
func listed(names []string) string {
	const limit = 10
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}

// clock formats a moment for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
