package portal

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// textsMost is how many bytes all that is said of components, maintenances and windows may have. With the history of its components a portal is handed
// from one run of its workflow to the next, and its view is one answer: the server takes 2 MiB.
const textsMost = 480 << 10

// checkRoom says why there is no room for more; nil: there is.
func (p *Portal) checkRoom(r ApplyRequest, more ...Announcement) error {
	trial := Portal{
		Name: p.Name, Components: slices.Clone(p.Components), Maintenances: slices.Clone(p.Maintenances),
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

// length is how many bytes all that must be said has as JSON: of each window, one opening.
func (p *Portal) length() int {
	total := 0
	for _, c := range p.Components {
		total += c.Bytes
	}
	for _, m := range p.Maintenances {
		total += m.Bytes
	}
	for _, a := range p.Windows {
		total += a.Bytes
	}
	return total
}

// fit leaves out openings for which there is no room: first those that are over, the oldest first, then those furthest ahead. Their windows tell them
// again with the next that they tell.
func (p *Portal) fit() {
	room := textsMost - p.length()
	for _, past := range p.Past {
		room -= past.Bytes
	}
	for _, a := range p.Windows {
		room -= a.Bytes * max(0, len(a.Openings)-1)
	}
	for ; room < 0 && len(p.Past) > 0; p.Past = p.Past[1:] {
		room += p.Past[0].Bytes
	}
	for room < 0 {
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
		room += a.Bytes
	}
}

// last is when the last of its openings starts.
func (a Announcement) last() time.Time { return a.Openings[len(a.Openings)-1].Start }

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
