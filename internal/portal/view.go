// Package portal decides what a status page shows: the declared status of its components and what maintenances in progress and incidents make of it, all maintenances,
// and thirty days of history. It reads no clock: callers pass the time.
package portal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// View is the content of a portal at a moment: the answer to the status query of the workflow.
type View struct {
	Name string `json:"name"`
	// Number grows with every visible change.
	Number int64 `json:"number"`
	// Status is the worst of its components; unknown if it has none.
	Status sreportalv1.ServiceStatus `json:"status"`
	// Components by group, then by display name.
	Components []ComponentView `json:"components"`
	// InProgress by end, Upcoming by start, Completed the last to end first.
	InProgress []MaintenanceView `json:"inProgress"`
	Upcoming   []MaintenanceView `json:"upcoming"`
	Completed  []MaintenanceView `json:"completed"`
	// Incidents that are not resolved, the latest to start first, then the others, the last to be resolved first.
	Incidents []IncidentView `json:"incidents,omitempty"`
	// Problems are declared objects that cannot be shown, and why.
	Problems []string `json:"problems,omitempty"`
	// Events are the latest requests of people, in order.
	Events []Event `json:"events,omitempty"`
	// AsOf is when the view was last updated: since then only the share of today has changed.
	AsOf time.Time `json:"asOf"`
}

// ComponentView is the status of one component, with its history.
type ComponentView struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	Group       string `json:"group"`
	Link        string `json:"link,omitempty"`
	// Declared is the status that people declared; Status is shown, Since then.
	Declared sreportalv1.ServiceStatus `json:"declared"`
	Status   sreportalv1.ServiceStatus `json:"status"`
	Since    time.Time                 `json:"since"`
	// Because are the maintenances in progress that replace the declared status, and the incidents that make it worse, as "incident NAME"; of very many,
	// those with the worst status. Empty: the declared status is shown. BecauseMore is how many more there are.
	Because     []string `json:"because,omitempty"`
	BecauseMore int      `json:"becauseMore,omitempty"`
	// Days are the last thirty days, oldest first; the last one is that of AsOf.
	Days []Day `json:"days"`
}

// Day is the status of a component during one day in UTC.
type Day struct {
	// Date as in 2026-11-21.
	Date string `json:"date"`
	// Worst status of the day; empty: unknown.
	Worst sreportalv1.ServiceStatus `json:"worst,omitempty"`
	// KnownSeconds is how long a status was shown that day; StatusSeconds how long each.
	KnownSeconds  int64                               `json:"knownSeconds"`
	StatusSeconds map[sreportalv1.ServiceStatus]int64 `json:"statusSeconds,omitempty"`
}

// MaintenanceView is a maintenance, or one opening of a window.
type MaintenanceView struct {
	// Name is that of the Maintenance, or of the window and the start of its opening. It is unique in the portal.
	Name        string                       `json:"name"`
	Title       string                       `json:"title"`
	Description string                       `json:"description,omitempty"`
	Components  []string                     `json:"components,omitempty"`
	Start       time.Time                    `json:"start"`
	End         time.Time                    `json:"end"`
	Phase       sreportalv1.MaintenancePhase `json:"phase"`
	// AffectedStatus is the status of its components while it is in progress.
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus"`
	// Window is namespace/name when it is an opening of a window.
	Window string `json:"window,omitempty"`
	// Unknown are those of its components that the portal does not have.
	Unknown []string `json:"unknownComponents,omitempty"`
	// Cancelled: a person ended it early.
	Cancelled bool `json:"cancelled,omitempty"`
}

// Event is a request of a person.
type Event struct {
	At time.Time `json:"at"`
	// By is who requested it, and Reason why.
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// status of the whole portal: the worst of its components.
func (p *Portal) status() sreportalv1.ServiceStatus {
	var all []sreportalv1.ServiceStatus
	for _, c := range p.Components {
		all = append(all, c.Status)
	}
	return Worst(all...)
}

// View returns the view at the moment until which time has passed.
func (p *Portal) View() View {
	v := p.Overview()
	dates := lastDates(p.Counted)
	histories := map[string]History{}
	for _, c := range p.Components {
		histories[c.Name] = c.History
	}
	for i := range v.Components {
		v.Components[i].Days = histories[v.Components[i].Name].days(dates)
	}
	return v
}

// Overview returns the view without past days.
func (p *Portal) Overview() View {
	v := View{
		Name: p.Name, Number: p.Number, Status: p.status(), Events: p.Events, AsOf: p.Counted,
		Components: []ComponentView{}, InProgress: []MaintenanceView{}, Upcoming: []MaintenanceView{}, Completed: []MaintenanceView{},
	}
	because := map[string][]MaintenanceView{}
	for _, o := range p.occasions(p.Counted) {
		if o.Window != "" {
			o.Name = openingName(o.Window, o.Start)
		}
		o.Unknown = p.unknown(o.Components)
		switch o.Phase {
		case sreportalv1.PhaseInProgress:
			v.InProgress = append(v.InProgress, o.MaintenanceView)
			for _, component := range o.Components {
				because[component] = append(because[component], o.MaintenanceView)
			}
		case sreportalv1.PhaseUpcoming:
			v.Upcoming = append(v.Upcoming, o.MaintenanceView)
		case sreportalv1.PhaseCompleted:
			v.Completed = append(v.Completed, o.MaintenanceView)
		}
		if o.invalid != "" {
			v.Problems = append(v.Problems, fmt.Sprintf("maintenance %s has no phase: %s", o.Name, o.invalid))
		}
	}
	for _, incident := range p.Incidents {
		v.Incidents = append(v.Incidents, incident.view(p))
	}
	for _, refused := range p.Refused {
		v.Problems = append(v.Problems, fmt.Sprintf("window %s is not shown: %s", refused.Window, refused.Why))
	}
	for _, c := range p.Components {
		names, more := causes(append(because[c.Name], incidentCauses(p.activeIncidents(c))...))
		v.Components = append(v.Components, ComponentView{
			Name: c.Name, DisplayName: c.Spec.DisplayName, Description: c.Spec.Description, Group: c.Spec.Group, Link: c.Spec.Link,
			Declared: Worst(c.Spec.Status), Status: c.Status, Since: c.Since.UTC(), Because: names, BecauseMore: more,
		})
	}
	v.order()
	return v
}

// maxBecause limits the maintenances that are named for a component.
const maxBecause = 10

// causes are the first maintenances and incidents, of very many those with the worst status, and how many more there are.
func causes(of []MaintenanceView) (names []string, more int) {
	slices.SortFunc(of, func(a, b MaintenanceView) int {
		return cmp.Or(slices.Index(statuses(), known(a.AffectedStatus))-slices.Index(statuses(), known(b.AffectedStatus)), strings.Compare(a.Name, b.Name))
	})
	of = slices.CompactFunc(of, func(a, b MaintenanceView) bool { return a.Name == b.Name }) // a maintenance may list a component twice
	for _, m := range of[:min(len(of), maxBecause)] {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names, len(of) - len(names)
}

// BecauseOf names the maintenances and incidents that replace the declared status; empty: none.
func (c ComponentView) BecauseOf() string {
	text := strings.Join(c.Because, ", ")
	if c.BecauseMore > 0 {
		text += fmt.Sprintf(" and %d more", c.BecauseMore)
	}
	return text
}

// order sorts the view.
func (v *View) order() {
	slices.SortStableFunc(v.Components, func(a, b ComponentView) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.DisplayName, b.DisplayName))
	})
	byName := func(a, b MaintenanceView) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(v.InProgress, func(a, b MaintenanceView) int { return cmp.Or(a.End.Compare(b.End), byName(a, b)) })
	slices.SortFunc(v.Upcoming, func(a, b MaintenanceView) int { return cmp.Or(a.Start.Compare(b.Start), byName(a, b)) })
	slices.SortStableFunc(v.Incidents, compareIncidents)
	slices.SortFunc(v.Completed, func(a, b MaintenanceView) int { return cmp.Or(b.End.Compare(a.End), byName(a, b)) })
}

// At returns the view at a later time, if only time has passed.
func (v View) At(now time.Time) View {
	if !now.After(v.AsOf) {
		return v
	}
	v.Components = slices.Clone(v.Components)
	dates := lastDates(now)
	for i := range v.Components {
		c := &v.Components[i]
		c.Days = historyOf(c.Days).Add(c.Status, v.AsOf, now).days(dates)
	}
	v.AsOf = now
	return v
}
