package portal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

const (
	// maxComponents, maxMaintenances, maxIncidents and maxWindows are the limits of a portal; windows count if they have an opening.
	maxComponents   = 220
	maxMaintenances = 200
	maxIncidents    = 200
	maxWindows      = 200
	// maxText is the longest name or reason, in bytes.
	maxText = 1000
)

// CheckName returns why a portal cannot have a name, or nil.
func CheckName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

func (r Request) check() error {
	switch {
	case len(r.Actor) > maxText:
		return fmt.Errorf("actor: has %d bytes, more than %d", len(r.Actor), maxText)
	case len(r.Reason) > maxText:
		return fmt.Errorf("reason: has %d bytes, more than %d", len(r.Reason), maxText)
	}
	return nil
}

// CheckApply returns all problems of objects, or nil. It repeats the checks of the schema, because it is the last check before the page.
func (p *Portal) CheckApply(r ApplyRequest) error {
	if len(r.Components)+len(r.Maintenances)+len(r.incidents) == 0 {
		return errors.New("components, maintenances: there are none")
	}
	problems := []error{r.check()}
	if err := CheckName(p.Name); err != nil {
		problems = append(problems, fmt.Errorf("the portal cannot be named %w", err))
	}
	names := map[string]bool{}
	for _, c := range r.Components {
		problems = append(problems, p.checkObject(names, "Component", c.Namespace, c.Name, c.Spec.PortalRef, p.checkComponent(c, r.declaring)))
	}
	for _, m := range r.Maintenances {
		problems = append(problems, p.checkObject(names, "Maintenance", m.Namespace, m.Name, m.Spec.PortalRef, p.checkMaintenance(m, r.declaring)))
	}
	for _, incident := range r.incidents {
		problems = append(problems, p.checkObject(names, KindIncident, incident.Namespace, incident.Name, incident.Spec.PortalRef, p.checkIncident(incident)))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return p.checkCapacity(r)
}

// checkObject returns the problem of one object, or nil.
func (p *Portal) checkObject(names map[string]bool, kind, namespace, name, portalRef string, problem error) error {
	object := kind + " " + namespace + "/" + name
	key := kind + "/" + name
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("%s: metadata.name: %q is not a valid name", object, name)
	case names[key]:
		return fmt.Errorf("%s: is given twice, or in two namespaces: a portal identifies objects by name", object)
	case portalRef != p.Name:
		return fmt.Errorf("%s: spec.portalRef: is %q, but this is portal %s", object, portalRef, p.Name)
	case problem != nil:
		return fmt.Errorf("%s: %w", object, problem)
	}
	names[key] = true
	return nil
}

func (p *Portal) checkComponent(c sreportalv1.Component, declaring bool) error {
	i := slices.IndexFunc(p.Components, func(known Component) bool { return known.Name == c.Name })
	link := c.Spec.Link
	switch {
	case i >= 0 && p.Components[i].Namespace != c.Namespace:
		return fmt.Errorf("metadata.namespace: the portal has a component %s of namespace %s: give this one another name", c.Name, p.Components[i].Namespace)
	case i >= 0 && p.Components[i].Object.others(c.ObjectMeta, declaring) != nil:
		return p.Components[i].Object.others(c.ObjectMeta, declaring)
	case c.Spec.DisplayName == "":
		return errors.New("spec.displayName: must be set")
	case c.Spec.Group == "":
		return errors.New("spec.group: must be set")
	case link != "" && !strings.HasPrefix(link, "http://") && !strings.HasPrefix(link, "https://"):
		return fmt.Errorf("spec.link: %q is neither http nor https", link)
	case c.Spec.Status == sreportalv1.StatusMaintenance:
		return errors.New("spec.status: maintenance cannot be declared: it follows from a Maintenance in progress")
	case c.Spec.Status != "" && !slices.Contains(statuses(), c.Spec.Status):
		return fmt.Errorf("spec.status: %q is not a status", c.Spec.Status)
	}
	return nil
}

func (p *Portal) checkMaintenance(m sreportalv1.Maintenance, declaring bool) error {
	i := slices.IndexFunc(p.Maintenances, func(known Maintenance) bool { return known.Name == m.Name })
	affected := m.Spec.AffectedStatus
	allowed := []sreportalv1.ServiceStatus{
		"", sreportalv1.StatusMaintenance, sreportalv1.StatusDegraded, sreportalv1.StatusPartialOutage, sreportalv1.StatusMajorOutage,
	}
	switch {
	case i >= 0 && p.Maintenances[i].Namespace != m.Namespace:
		return fmt.Errorf("metadata.namespace: the portal has a maintenance %s of namespace %s: give this one another name", m.Name, p.Maintenances[i].Namespace)
	case i >= 0 && p.Maintenances[i].Object.others(m.ObjectMeta, declaring) != nil:
		return p.Maintenances[i].Object.others(m.ObjectMeta, declaring)
	case m.Spec.Title == "":
		return errors.New("spec.title: must be set")
	case !slices.Contains(allowed, affected):
		return fmt.Errorf("spec.affectedStatus: %q is not a status that a maintenance can have", affected)
	}
	if _, err := windows.ComputePhase(m.Spec.ScheduledStart.Time, m.Spec.ScheduledStart.Time, m.Spec.ScheduledEnd.Time); err != nil {
		return fmt.Errorf("spec.scheduledEnd: %w", err)
	}
	return nil
}
