package portal

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// maxTexts is the largest size of all texts of components, maintenances, incidents and windows, in bytes. A portal passes them, with the history of its
// components, from run to run of its workflow, and its view is one answer: the server's limit is 2 MiB.
const maxTexts = 480 << 10

// checkCapacity returns why the objects exceed the capacity, or nil.
func (p *Portal) checkCapacity(r ApplyRequest, more ...Announcement) error {
	trial := Portal{
		Name: p.Name, Components: slices.Clone(p.Components), Maintenances: slices.Clone(p.Maintenances),
		Incidents: slices.Clone(p.Incidents), Windows: append(slices.Clone(p.Windows), more...),
	}
	for _, c := range r.Components {
		trial.applyComponent(c, nil, p.Counted)
	}
	for _, m := range r.Maintenances {
		trial.applyMaintenance(m, nil, p.Counted)
	}
	for _, incident := range r.incidents {
		trial.applyIncident(incident, nil, p.Counted)
	}
	return trial.checkSize()
}

func (p *Portal) checkSize() error {
	for _, kind := range []struct {
		name        string
		have, limit int
	}{
		{"components", len(p.Components), maxComponents},
		{"maintenances", len(p.Maintenances), maxMaintenances},
		{"incidents", len(p.Incidents), maxIncidents},
		{"windows", len(p.Windows), maxWindows},
	} {
		if kind.have > kind.limit {
			return fmt.Errorf("portal %s would have %d %s, and can have %d: delete some, or use another portal", p.Name, kind.have, kind.name, kind.limit)
		}
	}
	if total := p.length(); total > maxTexts {
		return fmt.Errorf("the texts of portal %s would have %d bytes, more than %d: shorten descriptions, or use another portal",
			p.Name, total, maxTexts)
	}
	return nil
}

// length is the size of all texts as JSON: of each window, one opening.
func (p *Portal) length() int {
	total := 0
	for _, c := range p.Components {
		total += c.Bytes
	}
	for _, m := range p.Maintenances {
		total += m.Bytes
	}
	for _, incident := range p.Incidents {
		total += incident.Bytes
	}
	for _, a := range p.Windows {
		total += a.Bytes
	}
	return total
}

// fit leaves out openings beyond the capacity: first past ones, the oldest first, then those furthest ahead. Their windows announce them again later.
func (p *Portal) fit() {
	free := maxTexts - p.length()
	for _, past := range p.Past {
		free -= past.Bytes
	}
	for _, a := range p.Windows {
		free -= a.Bytes * max(0, len(a.Openings)-1)
	}
	for ; free < 0 && len(p.Past) > 0; p.Past = p.Past[1:] {
		free += p.Past[0].Bytes
	}
	for free < 0 {
		furthest := -1
		for i, a := range p.Windows {
			if len(a.Openings) > 1 && (furthest < 0 || a.last().After(p.Windows[furthest].last())) {
				furthest = i
			}
		}
		if furthest < 0 {
			return
		}
		a := &p.Windows[furthest]
		a.Openings = a.Openings[:len(a.Openings)-1]
		free += a.Bytes
	}
}

// last is when the last of its openings starts.
func (a Announcement) last() time.Time { return a.Openings[len(a.Openings)-1].Start }

// lengthOf is the size of an object with these texts, as JSON.
func lengthOf(texts ...string) int {
	const overhead = 250 // times, statuses, and the names of the fields
	total := overhead
	for _, text := range texts {
		total += len(`"",`)
		for _, r := range text {
			total += escaped(r)
		}
	}
	return total
}

// escaped is the size of a character in a JSON text, where markup is escaped, too.
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
