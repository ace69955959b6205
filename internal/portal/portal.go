package portal

import (
	"cmp"
	"slices"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// Portal is the state of a status page. Its methods change it with time, on request, and by announcements of windows.
type Portal struct {
	Name string `json:"name"`
	// Number grows with every visible change.
	Number int64 `json:"number"`
	// Components and Maintenances are the applied ones, by name.
	Components   []Component   `json:"components,omitempty"`
	Maintenances []Maintenance `json:"maintenances,omitempty"`
	// Incidents are the declared ones, by name.
	Incidents []Incident `json:"incidents,omitempty"`
	// Windows are the latest announcements, by name.
	Windows []Announcement `json:"windows,omitempty"`
	// Past are past openings of windows, in the order of their ends.
	Past []PastOpening `json:"past,omitempty"`
	// Refused are windows that are not shown; Silent are windows to query: see Overdue.
	Refused []RefusedWindow `json:"refused,omitempty"`
	Silent  []string        `json:"silent,omitempty"`
	// Events are the latest requests of people.
	Events []Event `json:"events,omitempty"`
	// Counted is until when the history is known.
	Counted time.Time `json:"counted"`
}

// Component is an applied component, and its shown status.
type Component struct {
	Namespace string                    `json:"namespace,omitempty"`
	Name      string                    `json:"name"`
	Spec      sreportalv1.ComponentSpec `json:"spec"`
	Applied   time.Time                 `json:"applied"`
	// Status is shown since then.
	Status  sreportalv1.ServiceStatus `json:"status"`
	Since   time.Time                 `json:"since"`
	History History                   `json:"history,omitempty"`
	// Bytes is its size: see checkSize.
	Bytes int `json:"bytes"`
	// Object declares it on the hub; nil: people applied it otherwise.
	Object *Declaration `json:"object,omitempty"`
}

// Maintenance is an applied maintenance.
type Maintenance struct {
	Namespace string                      `json:"namespace,omitempty"`
	Name      string                      `json:"name"`
	Spec      sreportalv1.MaintenanceSpec `json:"spec"`
	Applied   time.Time                   `json:"applied"`
	// Cancelled is when a person ended it; nil: it keeps its own end.
	Cancelled *time.Time `json:"cancelled,omitempty"`
	Bytes     int        `json:"bytes"`
	// Object is as for a component.
	Object *Declaration `json:"object,omitempty"`
}

// PastOpening is a past opening of a window.
type PastOpening struct {
	Window         string                    `json:"window"`
	Title          string                    `json:"title"`
	Description    string                    `json:"description,omitempty"`
	Components     []string                  `json:"components,omitempty"`
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus"`
	Start          time.Time                 `json:"start"`
	End            time.Time                 `json:"end"`
	// Cut: it ended early.
	Cut   bool `json:"cut,omitempty"`
	Bytes int  `json:"bytes"`
}

const (
	// retention is how long past maintenances and openings are kept, and maxPast how many of each kind.
	retention = historyDays * 24 * time.Hour
	maxPast   = 50
	// overdue is how long after its planned start an opening is shown without its window's announcement of the start.
	overdue = time.Minute
)

// Empty reports whether there is nothing to show.
func (p *Portal) Empty() bool {
	return len(p.Components)+len(p.Maintenances)+len(p.Incidents)+len(p.Windows)+len(p.Past)+len(p.Refused) == 0
}

// occasion is a time at which components are maintained: a maintenance or an opening.
type occasion struct {
	MaintenanceView
	// over is the first moment after it. begun: its window has announced the start.
	over  time.Time
	begun bool
	// invalid is why it has no phase.
	invalid string
}

// occasions are all maintenances and openings, with their phases at that moment.
func (p *Portal) occasions(at time.Time) []occasion {
	all := make([]occasion, 0, len(p.Maintenances)+len(p.Windows)*(2+announcedOpenings)+len(p.Past))
	for _, m := range p.Maintenances {
		all = append(all, m.occasion(at))
	}
	for _, a := range p.Windows {
		for _, opening := range a.Openings {
			all = append(all, a.occasion(opening, at))
		}
	}
	for _, past := range p.Past {
		all = append(all, past.occasion())
	}
	return all
}

// occasion of a maintenance: its end is included, unless a person cancelled it then.
func (m Maintenance) occasion(at time.Time) occasion {
	o := occasion{MaintenanceView: MaintenanceView{
		Name: m.Name, Title: m.Spec.Title, Description: m.Spec.Description, Components: m.Spec.Components,
		Start: m.Spec.ScheduledStart.UTC(), End: m.Spec.ScheduledEnd.UTC(), AffectedStatus: cmp.Or(m.Spec.AffectedStatus, sreportalv1.StatusMaintenance),
	}}
	phase, err := windows.ComputePhase(at, o.Start, o.End)
	if err != nil {
		o.invalid = err.Error()
		return o
	}
	o.Phase, o.over = phase, o.End.Add(time.Nanosecond)
	switch {
	case m.Cancelled == nil:
	case !m.Cancelled.After(o.Start):
		o.Phase = "" // it does not take place
	default:
		o.End, o.over, o.Cancelled = *m.Cancelled, *m.Cancelled, true
		if !at.Before(o.over) {
			o.Phase = sreportalv1.PhaseCompleted
		}
	}
	return o
}

// occasion of an opening: its end is not included. It counts as started on time, before its window confirms it: of many windows that open in the same
// second, the last reports seconds later.
func (a Announcement) occasion(opening windows.Opening, at time.Time) occasion {
	o := PastOpening{
		Window: a.Window, Title: a.Title, Description: a.Description, Components: a.Components, AffectedStatus: a.AffectedStatus,
		Start: opening.Start, End: opening.End,
	}.occasion()
	o.begun = opening.Begun
	switch {
	case opening.Begun && !at.Before(opening.End): // it stays completed
	case opening.Begun, at.Before(opening.End) && !at.Before(opening.Start) && at.Before(opening.Start.Add(overdue)):
		o.Phase = sreportalv1.PhaseInProgress
	case at.Before(opening.Start):
		o.Phase = sreportalv1.PhaseUpcoming
	default:
		o.Phase = ""
	}
	return o
}

func (o PastOpening) occasion() occasion {
	return occasion{
		MaintenanceView: MaintenanceView{
			Window: o.Window, Title: o.Title, Description: o.Description, Components: o.Components,
			AffectedStatus: cmp.Or(o.AffectedStatus, sreportalv1.StatusMaintenance),
			Start:          o.Start.UTC(), End: o.End.UTC(), Phase: sreportalv1.PhaseCompleted, Cancelled: o.Cut,
		},
		over: o.End, begun: true,
	}
}

// openingName is unique among openings and Maintenances. Only shown openings have one.
func openingName(window string, start time.Time) string {
	return window + "/" + start.UTC().Format("20060102T150405Z")
}

// Next returns the next moment at which the view changes without a request; false: none.
func (p *Portal) Next(after time.Time) (time.Time, bool) {
	var next time.Time
	at := func(t time.Time) {
		if t.After(after) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, o := range p.occasions(after) {
		if o.Phase == sreportalv1.PhaseUpcoming || o.Phase == sreportalv1.PhaseInProgress {
			at(o.Start)
			at(o.over)
		}
		if o.Window != "" && !o.begun {
			at(o.Start.Add(overdue)) // even if it is short
		}
	}
	for _, refused := range p.Refused {
		at(refused.Until)
	}
	if !p.Empty() {
		at(midnight(after)) // a day is added to the history, and one is forgotten
	}
	return next, !next.IsZero()
}

// Advance advances the state to now, and reports whether the view has changed. Changes during an outage get their own times.
func (p *Portal) Advance(now time.Time) bool {
	if p.Counted.IsZero() {
		p.Counted = now
	}
	unseen := p.dropOverdue(now)
	changed := unseen
	for {
		next, changes := p.Next(p.Counted)
		if !changes || next.After(now) {
			break
		}
		p.count(next)
		p.dropOverdue(next)
		p.settle(next)
		changed = true
	}
	p.count(now)
	if unseen {
		p.settle(now)
	}
	if changed {
		p.renumber(now)
	}
	return changed
}

// dropOverdue removes openings whose windows have not announced the start for too long. An opening that was not observed never took place. One that
// was observed counts until it is overdue.
func (p *Portal) dropOverdue(now time.Time) bool {
	late := func(o windows.Opening) bool {
		until := o.Start.Add(overdue)
		shown := !p.Counted.Before(o.Start) && p.Counted.Before(until)
		return !o.Begun && !now.Before(until) && !shown
	}
	dropped := false
	for i := range p.Windows {
		a := &p.Windows[i]
		if slices.ContainsFunc(a.Openings, late) {
			a.Openings = slices.DeleteFunc(slices.Clone(a.Openings), late)
			p.Silent = append(p.Silent, a.Window)
			dropped = true
		}
	}
	return dropped
}

// changed recomputes the view after a request or an announcement.
func (p *Portal) changed(now time.Time) {
	p.settle(now)
	p.renumber(now)
}

// renumber counts a change. A portal that is applied again after its workflow was terminated has higher numbers.
func (p *Portal) renumber(now time.Time) { p.Number = max(p.Number+1, now.UnixMicro()) }

// count adds the time until then to the history.
func (p *Portal) count(until time.Time) {
	for i := range p.Components {
		c := &p.Components[i]
		c.History = c.History.Add(c.Status, p.Counted, until)
	}
	if until.After(p.Counted) {
		p.Counted = until
	}
}

// settle recomputes the view from that moment on.
func (p *Portal) settle(at time.Time) {
	p.retire(at)
	statuses := map[string][]sreportalv1.ServiceStatus{}
	for _, o := range p.occasions(at) {
		if o.Phase == sreportalv1.PhaseInProgress {
			for _, component := range o.Components {
				statuses[component] = append(statuses[component], o.AffectedStatus)
			}
		}
	}
	for i := range p.Components {
		c := &p.Components[i]
		if status := p.withIncidents(*c, Computed(c.Spec.Status, statuses[c.Name]...)); status != c.Status {
			c.Status, c.Since = status, at
		}
	}
}

// retire moves openings that have ended to the past ones, and removes those that ended too long ago or do not fit.
func (p *Portal) retire(at time.Time) {
	for i := range p.Windows {
		a := &p.Windows[i]
		for _, opening := range a.Openings {
			if opening.Begun && !at.Before(opening.End) {
				p.past(*a, opening, opening.End)
			}
		}
		a.Openings = slices.DeleteFunc(slices.Clone(a.Openings), func(o windows.Opening) bool { return o.Begun && !at.Before(o.End) })
	}
	p.Windows = slices.DeleteFunc(p.Windows, func(a Announcement) bool { return len(a.Openings) == 0 })
	slices.SortStableFunc(p.Past, func(a, b PastOpening) int { return a.End.Compare(b.End) })
	p.Past = p.Past[max(0, len(p.Past)-maxPast):]
	p.Past = slices.DeleteFunc(p.Past, func(o PastOpening) bool { return !at.Before(o.End.Add(retention)) })
	p.forgetMaintenances(at)
	p.forgetIncidents(at)
	p.Refused = slices.DeleteFunc(p.Refused, func(r RefusedWindow) bool { return !at.Before(r.Until) })
	p.fit()
	p.reconsider()
}

// forgetMaintenances removes those that ended too long ago, or exceed the limit.
func (p *Portal) forgetMaintenances(at time.Time) {
	over := map[string]time.Time{}
	var ends []time.Time
	for _, m := range p.Maintenances {
		if o := m.occasion(at); o.invalid == "" && !at.Before(o.over) {
			over[m.Name] = o.over
			ends = append(ends, o.over)
		}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	p.Maintenances = slices.DeleteFunc(p.Maintenances, func(m Maintenance) bool {
		end, ended := over[m.Name]
		return ended && (!at.Before(end.Add(retention)) || len(ends) > maxPast && end.Before(ends[maxPast-1]))
	})
}

// past records an opening that has ended then.
func (p *Portal) past(a Announcement, opening windows.Opening, end time.Time) {
	p.removePast(a.Window, opening.Start)
	p.Past = append(p.Past, PastOpening{
		Window: a.Window, Title: a.Title, Description: a.Description, Components: a.Components, AffectedStatus: a.AffectedStatus,
		Start: opening.Start, End: end, Cut: end.Before(opening.End), Bytes: a.Bytes,
	})
}

// removePast removes an opening from the past ones.
func (p *Portal) removePast(window string, start time.Time) {
	p.Past = slices.DeleteFunc(p.Past, func(o PastOpening) bool { return o.Window == window && o.Start.Equal(start) })
}
