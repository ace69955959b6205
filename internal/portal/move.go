package portal

import (
	"fmt"
	"slices"
	"time"
)

// Move lists the components, maintenances and incidents that another portal shows now.
type Move struct {
	To           string   `json:"to"`
	Components   []Object `json:"components,omitempty"`
	Maintenances []Object `json:"maintenances,omitempty"`
	Incidents    []Object `json:"incidents,omitempty"`
}

// Object is a component, maintenance or incident of a portal.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// At is when it was applied there.
	At time.Time `json:"at"`
}

func (o Object) is(other Object) bool { return o.Namespace == other.Namespace && o.Name == other.Name }

// Empty reports whether nothing has moved.
func (m Move) Empty() bool { return len(m.Components)+len(m.Maintenances)+len(m.Incidents) == 0 }

// And merges two moves; of each object the later entry counts.
func (m Move) And(more Move) Move {
	return Move{
		To: more.To, Components: latest(m.Components, more.Components), Maintenances: latest(m.Maintenances, more.Maintenances),
		Incidents: latest(m.Incidents, more.Incidents),
	}
}

func latest(all, more []Object) []Object {
	all = slices.Clone(all)
	for _, o := range more {
		i := slices.IndexFunc(all, o.is)
		switch {
		case i < 0:
			all = append(all, o)
		case o.At.After(all[i].At):
			all[i] = o
		}
	}
	return all
}

// Without removes what was sent already, except objects that were applied since.
func (m Move) Without(sent Move) Move {
	return Move{
		To: m.To, Components: unsent(m.Components, sent.Components), Maintenances: unsent(m.Maintenances, sent.Maintenances),
		Incidents: unsent(m.Incidents, sent.Incidents),
	}
}

func unsent(all, sent []Object) []Object {
	return slices.DeleteFunc(slices.Clone(all), func(o Object) bool {
		return slices.ContainsFunc(sent, func(t Object) bool { return t.is(o) && !o.At.After(t.At) })
	})
}

// RemoveMoved removes objects that another portal shows now, unless it was applied here since, and reports whether there was anything.
func (p *Portal) RemoveMoved(m Move, now time.Time) bool {
	if m.To == p.Name {
		return false
	}
	p.Advance(now)
	var gone []string
	leaves := func(kind string, moved []Object, here Object) bool {
		if len(unsent([]Object{here}, moved)) > 0 {
			return false
		}
		gone = append(gone, kind+" "+here.Name)
		return true
	}
	p.Components = slices.DeleteFunc(p.Components, func(c Component) bool {
		return leaves("component", m.Components, Object{c.Namespace, c.Name, c.Applied})
	})
	p.Maintenances = slices.DeleteFunc(p.Maintenances, func(one Maintenance) bool {
		return leaves("maintenance", m.Maintenances, Object{one.Namespace, one.Name, one.Applied})
	})
	p.Incidents = slices.DeleteFunc(p.Incidents, func(one Incident) bool {
		return leaves("incident", m.Incidents, Object{one.Namespace, one.Name, one.Applied})
	})
	if len(gone) == 0 {
		return false
	}
	p.record(Request{}, fmt.Sprintf("moved to portal %s: %s", m.To, listed(gone)), now)
	p.changed(now)
	return true
}
