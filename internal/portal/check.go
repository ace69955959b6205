package portal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

const (
	// componentsMost, maintenancesMost and windowsMost are how many a portal has at most; of windows, those with an opening in sight.
	componentsMost   = 220
	maintenancesMost = 200
	windowsMost      = 200
	// textsMost is how many bytes all that is said of them may have. With the history of its components a portal is handed from one run of its workflow
	// to the next, and its view is one answer: the server takes 2 MiB.
	textsMost = 480 << 10
	// longestReason is how long a name or a reason may be, in bytes.
	longestReason = 1000
)

// CheckName says why a portal cannot have a name; nil: it can.
func CheckName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

func (r Request) check() error {
	switch {
	case len(r.Actor) > longestReason:
		return fmt.Errorf("actor: has %d bytes, more than %d", len(r.Actor), longestReason)
	case len(r.Reason) > longestReason:
		return fmt.Errorf("reason: has %d bytes, more than %d", len(r.Reason), longestReason)
	}
	return nil
}

// CheckApply says what is wrong with objects, all of it; nil: they can be applied. Whoever sends them has held them to their schema already, or not: this is
// the last that stands between them and a page.
func (p *Portal) CheckApply(r ApplyRequest) error {
	if len(r.Components)+len(r.Maintenances) == 0 {
		return errors.New("components, maintenances: there are none")
	}
	problems := []error{r.check()}
	if err := CheckName(p.Name); err != nil {
		problems = append(problems, fmt.Errorf("the portal cannot be named %w", err))
	}
	names := map[string]bool{}
	for _, c := range r.Components {
		problems = append(problems, p.checkObject(names, "Component", c.Namespace, c.Name, c.Spec.PortalRef, p.checkComponent(c)))
	}
	for _, m := range r.Maintenances {
		problems = append(problems, p.checkObject(names, "Maintenance", m.Namespace, m.Name, m.Spec.PortalRef, p.checkMaintenance(m)))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return p.checkRoom(r)
}

// checkObject says what is wrong with one object.
func (p *Portal) checkObject(names map[string]bool, kind, namespace, name, portalRef string, problem error) error {
	object := kind + " " + namespace + "/" + name
	key := kind + "/" + name
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("%s: metadata.name: %q is no name", object, name)
	case names[key]:
		return fmt.Errorf("%s: is there twice, or in two namespaces: a portal knows its objects by name", object)
	case portalRef != p.Name:
		return fmt.Errorf("%s: spec.portalRef: is %q, and this is portal %s", object, portalRef, p.Name)
	case problem != nil:
		return fmt.Errorf("%s: %w", object, problem)
	}
	names[key] = true
	return nil
}

func (p *Portal) checkComponent(c sreportalv1.Component) error {
	i := slices.IndexFunc(p.Components, func(known Component) bool { return known.Name == c.Name })
	link := c.Spec.Link
	switch {
	case i >= 0 && p.Components[i].Namespace != c.Namespace:
		return fmt.Errorf("metadata.namespace: the portal has a component %s of namespace %s: give this one another name", c.Name, p.Components[i].Namespace)
	case c.Spec.DisplayName == "":
		return errors.New("spec.displayName: must be set")
	case c.Spec.Group == "":
		return errors.New("spec.group: must be set")
	case link != "" && !strings.HasPrefix(link, "http://") && !strings.HasPrefix(link, "https://"):
		return fmt.Errorf("spec.link: %q is neither http nor https", link)
	case c.Spec.Status == sreportalv1.StatusMaintenance:
		return errors.New("spec.status: nobody declares maintenance: it comes of a Maintenance in progress")
	case c.Spec.Status != "" && !slices.Contains(statuses(), c.Spec.Status):
		return fmt.Errorf("spec.status: %q is none", c.Spec.Status)
	}
	return nil
}

func (p *Portal) checkMaintenance(m sreportalv1.Maintenance) error {
	i := slices.IndexFunc(p.Maintenances, func(known Maintenance) bool { return known.Name == m.Name })
	affected := m.Spec.AffectedStatus
	gives := []sreportalv1.ServiceStatus{
		"", sreportalv1.StatusMaintenance, sreportalv1.StatusDegraded, sreportalv1.StatusPartialOutage, sreportalv1.StatusMajorOutage,
	}
	switch {
	case i >= 0 && p.Maintenances[i].Namespace != m.Namespace:
		return fmt.Errorf("metadata.namespace: the portal has a maintenance %s of namespace %s: give this one another name", m.Name, p.Maintenances[i].Namespace)
	case m.Spec.Title == "":
		return errors.New("spec.title: must be set")
	case !slices.Contains(gives, affected):
		return fmt.Errorf("spec.affectedStatus: %q is not what a maintenance can bring", affected)
	}
	if _, err := windows.ComputePhase(m.Spec.ScheduledStart.Time, m.Spec.ScheduledStart.Time, m.Spec.ScheduledEnd.Time); err != nil {
		return fmt.Errorf("spec.scheduledEnd: %w", err)
	}
	return nil
}

// checkRoom says why there is no room for more; nil: there is.
func (p *Portal) checkRoom(r ApplyRequest, more ...Announcement) error {
	trial := Portal{
		Name: p.Name, Components: slices.Clone(p.Components), Maintenances: slices.Clone(p.Maintenances), Past: p.Past,
		Windows: append(slices.Clone(p.Windows), more...),
	}
	for _, c := range r.Components {
		trial.applyComponent(c, p.Counted)
	}
	for _, m := range r.Maintenances {
		trial.applyMaintenance(m, p.Counted)
	}
	return trial.checkSize()
}

func (p *Portal) checkSize() error {
	for _, kind := range []struct {
		name       string
		have, most int
	}{
		{"components", len(p.Components), componentsMost},
		{"maintenances", len(p.Maintenances), maintenancesMost},
		{"windows", len(p.Windows), windowsMost},
	} {
		if kind.have > kind.most {
			return fmt.Errorf("portal %s would have %d %s, and can have %d: delete some, or use another portal", p.Name, kind.have, kind.name, kind.most)
		}
	}
	if total := p.length(); total > textsMost {
		return fmt.Errorf("what portal %s says of its components, maintenances and windows would have %d bytes, more than %d: shorten descriptions, or use another portal",
			p.Name, total, textsMost)
	}
	return nil
}

// length is how many bytes all that is said has as JSON. What is said of a window is said of each opening.
func (p *Portal) length() int {
	total := 0
	for _, c := range p.Components {
		total += c.Bytes
	}
	for _, m := range p.Maintenances {
		total += m.Bytes
	}
	for _, past := range p.Past {
		total += past.Bytes
	}
	for _, a := range p.Windows {
		total += a.Bytes * len(a.Openings)
	}
	return total
}

// lengthOf is how many bytes something has as JSON that says these texts.
func lengthOf(texts ...string) int {
	const besides = 250 // times, statuses, and the names of the fields
	total := besides
	for _, text := range texts {
		total += len(`"",`)
		for _, r := range text {
			total += escaped(r)
		}
	}
	return total
}

// escaped is how many bytes a character has within a JSON text, where what could be markup is escaped, too.
func escaped(r rune) int {
	const asCode = len(`\u0000`)
	switch r {
	case '"', '\\', '\n', '\r', '\t', '\b', '\f':
		return len(`\n`)
	case '<', '>', '&', '\u2028', '\u2029', utf8.RuneError:
		return asCode
	}
	if r < ' ' {
		return asCode
	}
	return utf8.RuneLen(r)
}
