package portal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// The kinds of objects.
const (
	KindComponent   = "Component"
	KindMaintenance = "Maintenance"
	KindIncident    = "Incident"
)

// ObjectRequest declares a component, a maintenance or an incident by its object on the hub. One of them is set.
type ObjectRequest struct {
	Component   *sreportalv1.Component   `json:"component,omitempty"`
	Maintenance *sreportalv1.Maintenance `json:"maintenance,omitempty"`
	Incident    *sreportalv1.Incident    `json:"incident,omitempty"`
	// Withdrawn: the object is deleted, invalid, or of another portal. Only its metadata count.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// ObjectName names an object on the hub; without a name: all of the kind.
type ObjectName struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Declaration is the object on the hub that declares a component, a maintenance or an incident.
type Declaration struct {
	UID        types.UID   `json:"uid"`
	Created    metav1.Time `json:"created"`
	Generation int64       `json:"generation"`
	// Since is when the portal first showed it. Shown identifies the status that was written to it last.
	Since time.Time `json:"since"`
	Shown string    `json:"shown,omitempty"`
}

// declaration returns the declaration of an object of the request; nil: people applied it otherwise.
func (r ApplyRequest) declaration(object metav1.ObjectMeta, now time.Time) *Declaration {
	if !r.declaring {
		return nil
	}
	return &Declaration{UID: object.UID, Created: object.CreationTimestamp, Generation: object.Generation, Since: now}
}

// after returns a declaration that follows another one: that of the same object knows what it shows.
func (d *Declaration) after(before *Declaration) *Declaration {
	if d != nil && before != nil && d.UID == before.UID {
		d.Since, d.Shown = before.Since, before.Shown
	}
	return d
}

// others returns why a request cannot change what d declares, or nil; d nil: people applied it.
func (d *Declaration) others(object metav1.ObjectMeta, declaring bool) error {
	switch {
	case declaring && d == nil:
		return errors.New("metadata.name: was applied with drydock: delete it with `drydock portal delete`, or use another name")
	case declaring && d.UID == object.UID && object.Generation < d.Generation, declaring && object.CreationTimestamp.Before(&d.Created):
		return errors.New("metadata.generation: is out of date")
	case !declaring && d != nil:
		return errors.New("metadata.name: an object on the hub declares it: change that object")
	}
	return nil
}

// apply returns the request as one that applies the object.
func (r ObjectRequest) apply() ApplyRequest {
	apply := ApplyRequest{declaring: true}
	if r.Component != nil {
		apply.Components = []sreportalv1.Component{*r.Component}
	}
	if r.Maintenance != nil {
		apply.Maintenances = []sreportalv1.Maintenance{*r.Maintenance}
	}
	if r.Incident != nil {
		apply.incidents = []sreportalv1.Incident{*r.Incident}
	}
	return apply
}

// CheckDeclare returns why an object cannot be shown, or nil.
func (p *Portal) CheckDeclare(r ObjectRequest) error {
	apply := r.apply()
	switch {
	case len(apply.Components)+len(apply.Maintenances)+len(apply.incidents) != 1:
		return errors.New("one of component, maintenance and incident must be set")
	case r.Withdrawn:
		return nil
	}
	return p.CheckApply(apply)
}

// Declare shows or withdraws an object that CheckDeclare has accepted. It returns what is new here.
func (p *Portal) Declare(r ObjectRequest, now time.Time) (Answer, Move) {
	if r.Withdrawn {
		p.Advance(now)
		switch {
		case r.Component != nil:
			p.withdraw(KindComponent, r.Component.UID, now)
		case r.Maintenance != nil:
			p.withdraw(KindMaintenance, r.Maintenance.UID, now)
		case r.Incident != nil:
			p.withdraw(KindIncident, r.Incident.UID, now)
		}
		return p.answer(nil), Move{To: p.Name}
	}
	answer, added := p.Apply(r.apply(), now)
	if m := r.Maintenance; m != nil {
		_, err := p.maintenance(m.Name)
		answer.Forgotten = err != nil
	}
	if incident := r.Incident; incident != nil {
		answer.Forgotten = p.incident(incident.Name) == nil
	}
	return answer, added
}

// withdraw removes what an object declares, and reports whether there was anything.
func (p *Portal) withdraw(kind string, uid types.UID, now time.Time) bool {
	gone := ""
	is := func(of, name string, d *Declaration) bool {
		if of != kind || d == nil || d.UID != uid {
			return false
		}
		gone = name
		return true
	}
	p.Components = slices.DeleteFunc(p.Components, func(c Component) bool { return is(KindComponent, c.Name, c.Object) })
	p.Maintenances = slices.DeleteFunc(p.Maintenances, func(m Maintenance) bool { return is(KindMaintenance, m.Name, m.Object) })
	p.Incidents = slices.DeleteFunc(p.Incidents, func(one Incident) bool { return is(KindIncident, one.Name, one.Object) })
	if gone == "" {
		return false
	}
	p.record(Request{}, kind+" "+gone+" withdrawn", now)
	p.changed(now)
	return true
}

// ObjectStatus is the status to write to an object.
type ObjectStatus struct {
	ObjectName
	UID types.UID
	// Status is a sreportalv1.ComponentStatus, MaintenanceStatus or IncidentStatus.
	Status any

	shown string
}

// Unpublished returns at most limit statuses that their objects lack. run is the first run of the portal's workflow.
func (p *Portal) Unpublished(run string, limit int) []ObjectStatus {
	var all []ObjectStatus
	add := func(kind, namespace, name string, d *Declaration, shown string, status func() any) {
		shown = fmt.Sprintf("%d %s", d.Generation, shown)
		if d.Shown != shown && len(all) < limit {
			all = append(all, ObjectStatus{ObjectName{kind, namespace, name}, d.UID, status(), shown})
		}
	}
	for _, c := range p.Components {
		if d := c.Object; d != nil {
			active := len(p.activeIncidents(c))
			add(KindComponent, c.Namespace, c.Name, d, fmt.Sprintf("%s %s %d %s", c.Status, clock(c.Since), active, dateOf(p.Counted)), func() any {
				return sreportalv1.ComponentStatus{
					ComputedStatus: c.Status, LastStatusChange: new(metav1.NewTime(c.Since.UTC().Truncate(time.Second))),
					ActiveIncidents: active, DailyWorstStatus: c.dailyWorst(p.Counted),
					ObservedGeneration: d.Generation, PortalRun: run, Conditions: d.ready("status: " + string(c.Status)),
				}
			})
		}
	}
	for _, m := range p.Maintenances {
		if d := m.Object; d != nil {
			phase, message := m.shown(p.Counted)
			add(KindMaintenance, m.Namespace, m.Name, d, message, func() any {
				return sreportalv1.MaintenanceStatus{Phase: phase, ObservedGeneration: d.Generation, PortalRun: run, Conditions: d.ready(message)}
			})
		}
	}
	for _, incident := range p.Incidents {
		if d := incident.Object; d != nil {
			status := IncidentStatus(incident.Spec.Updates)
			add(KindIncident, incident.Namespace, incident.Name, d, string(status.CurrentPhase), func() any {
				status.ObservedGeneration, status.PortalRun, status.Conditions = d.Generation, run, d.ready("phase: "+string(status.CurrentPhase))
				return status
			})
		}
	}
	return all
}

// shown returns the phase of a maintenance as its object shows it. A cancelled one is completed.
func (m Maintenance) shown(at time.Time) (sreportalv1.MaintenancePhase, string) {
	phase, message := m.occasion(at).Phase, ""
	if m.Cancelled != nil {
		phase, message = sreportalv1.PhaseCompleted, "; cancelled "+clock(*m.Cancelled)
	}
	return phase, "phase: " + string(phase) + message
}

// Completed returns the status of a maintenance that was over too long ago for its portal.
func Completed(generation int64, since metav1.Time) sreportalv1.MaintenanceStatus {
	d := &Declaration{Generation: generation, Since: since.Time}
	return sreportalv1.MaintenanceStatus{
		Phase: sreportalv1.PhaseCompleted, ObservedGeneration: generation, Conditions: d.ready("phase: " + string(sreportalv1.PhaseCompleted)),
	}
}

// Resolved returns the status of an incident that was resolved too long ago for its portal.
func Resolved(generation int64, since metav1.Time, updates []sreportalv1.IncidentUpdate) sreportalv1.IncidentStatus {
	d := &Declaration{Generation: generation, Since: since.Time}
	status := IncidentStatus(updates)
	status.ObservedGeneration, status.Conditions = generation, d.ready("phase: "+string(status.CurrentPhase))
	return status
}

// ready returns the condition Ready of an object that the portal shows.
func (d *Declaration) ready(message string) []metav1.Condition {
	return []metav1.Condition{{
		Type: sreportalv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reconciled", Message: message,
		ObservedGeneration: d.Generation, LastTransitionTime: metav1.NewTime(d.Since.UTC().Truncate(time.Second)),
	}}
}

// Published records that a status was written, or that its object is gone, and withdraws what that declares. It reports whether the view has changed.
func (p *Portal) Published(s ObjectStatus, gone bool, now time.Time) bool {
	if gone {
		p.Advance(now)
		return p.withdraw(s.Kind, s.UID, now)
	}
	p.eachDeclaration(func(kind, _, _ string, d *Declaration) {
		if kind == s.Kind && d.UID == s.UID {
			d.Shown = s.shown
		}
	})
	return false
}

// Recheck writes statuses again: their objects may be gone.
func (p *Portal) Recheck(of ObjectName) {
	p.eachDeclaration(func(kind, namespace, name string, d *Declaration) {
		if of == (ObjectName{kind, namespace, name}) || of == (ObjectName{Kind: kind}) {
			d.Shown = ""
		}
	})
}

func (p *Portal) eachDeclaration(visit func(kind, namespace, name string, d *Declaration)) {
	for _, c := range p.Components {
		if c.Object != nil {
			visit(KindComponent, c.Namespace, c.Name, c.Object)
		}
	}
	for _, m := range p.Maintenances {
		if m.Object != nil {
			visit(KindMaintenance, m.Namespace, m.Name, m.Object)
		}
	}
	for _, incident := range p.Incidents {
		if incident.Object != nil {
			visit(KindIncident, incident.Namespace, incident.Name, incident.Object)
		}
	}
}
