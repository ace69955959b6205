package scheduling

import (
	"cmp"
	"slices"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

const (
	// UncleanPause is how long a slot is kept whose holder ended without returning it. Until then its last effect is over, which may take the
	// node after its workflow has ended, and a mark that this left was seen, which holds the node from then on.
	UncleanPause = 15 * time.Second
	// returnedFor is for how long the mark of a maintenance that returned its node does not count: what is seen may be behind.
	returnedFor = 30 * time.Second
)

// Book is what the scheduler of a cluster knows: who asked, who has a slot, and how the nodes are. It changes only by what it is told.
type Book struct {
	// Parties in the order in which they asked first.
	Parties []Party `json:"parties,omitempty"`
	// Nodes by name.
	Nodes         []SeenNode                                  `json:"nodes,omitempty"`
	Config        maintenancev1.MaintenanceOperatorConfigSpec `json:"config"`
	ConfigTrouble string                                      `json:"configTrouble,omitempty"`
	// Seen is when whoever sees the nodes began to; Whole: all of them have been seen.
	Seen  time.Time `json:"seen"`
	Whole bool      `json:"whole,omitempty"`
	// Turns counts what was told.
	Turns int64 `json:"turns,omitempty"`
	// Returned slots whose mark may still be seen, or whose asker may not know of it.
	Returned []Returned `json:"returned,omitempty"`
}

// Party is an asker with its requests.
type Party struct {
	Asker Asker   `json:"asker"`
	Slots []Entry `json:"slots"`
	// Gone are requests that are over because their node is gone, and of which it was not told.
	Gone []Grant `json:"gone,omitempty"`
	// Told is the reason of the wait that it was told last, ToldMessage what was said of it, ToldHolder who has the node, and ToldHeld who could be joined;
	// ToldAt is when that was, and News since when it is otherwise.
	Told        string     `json:"told,omitempty"`
	ToldMessage string     `json:"toldMessage,omitempty"`
	ToldHolder  Asker      `json:"toldHolder,omitzero"`
	ToldHeld    []HeldNode `json:"toldHeld,omitempty"`
	ToldAt      time.Time  `json:"toldAt,omitzero"`
	News        time.Time  `json:"news,omitzero"`
}

// Entry is a request in the book.
type Entry struct {
	Slot
	// Told: the asker knows that it has the slot.
	Told bool `json:"told,omitempty"`
	// Until is when a slot ends whose holder ended without returning it.
	Until time.Time `json:"until,omitzero"`
}

func (e *Entry) name() Grant { return Grant{Namespace: e.Namespace, Name: e.Name, Number: e.Number} }

// Returned is a slot that was given back.
type Returned struct {
	// Maintenance has returned its node, and its mark may still be seen; empty once it counts again.
	Maintenance string    `json:"maintenance,omitempty"`
	At          time.Time `json:"at"`
	Asker       Asker     `json:"asker"`
	Number      int64     `json:"number"`
	// Heard: the asker knows of it. Until then it accounts for the slot as one that it has.
	Heard bool `json:"heard,omitempty"`
}

// Empty reports whether nobody asks for anything.
func (b *Book) Empty() bool { return len(b.Parties) == 0 }

// Take takes in what an asker says.
func (b *Book) Take(call Call, now time.Time) {
	for _, release := range call.Released {
		b.release(call.Asker, release, now)
	}
	for _, slot := range call.Slots {
		if !b.over(call.Asker, slot) {
			b.ask(call.Asker, slot)
		}
	}
	b.forgetSilent()
}

// ask takes in a request. One that is there already is another only if it has a higher number; a slot that its asker does not know of is
// told again.
func (b *Book) ask(asker Asker, slot Slot) {
	party := b.party(asker)
	i := party.index(slot.Namespace, slot.Name)
	switch {
	case i < 0:
		party.Slots = append(party.Slots, Entry{Slot: slot, Told: slot.Granted})
	case party.Slots[i].Number < slot.Number:
		party.Slots[i] = Entry{Slot: slot, Told: slot.Granted}
	case party.Slots[i].Number == slot.Number:
		known := &party.Slots[i]
		known.Granted = known.Granted || slot.Granted
		known.Told = slot.Granted
	}
}

// over reports whether a slot was given back by whoever worked on its node, so that its asker may have said before it heard of that that it has it. A
// number is not asked for twice.
func (b *Book) over(asker Asker, slot Slot) bool {
	if party := b.known(asker); party != nil && slices.ContainsFunc(party.Slots, func(e Entry) bool { return !e.Until.IsZero() && e.Number == slot.Number }) {
		return true
	}
	return slices.ContainsFunc(b.Returned, func(r Returned) bool { return r.Asker == asker && r.Number == slot.Number })
}

func (b *Book) party(asker Asker) *Party {
	if known := b.known(asker); known != nil {
		return known
	}
	b.Parties = append(b.Parties, Party{Asker: asker})
	return &b.Parties[len(b.Parties)-1]
}

// known returns nil for an asker that asks for nothing.
func (b *Book) known(asker Asker) *Party {
	if i := slices.IndexFunc(b.Parties, func(p Party) bool { return p.Asker == asker }); i >= 0 {
		return &b.Parties[i]
	}
	return nil
}

// index finds a request; not a slot whose holder ended without returning it, beside which the same may be asked for anew.
func (p *Party) index(namespace, name string) int {
	return slices.IndexFunc(p.Slots, func(e Entry) bool { return e.Namespace == namespace && e.Name == name && e.Until.IsZero() })
}

func (b *Book) release(asker Asker, release Release, now time.Time) {
	if !release.Unheard {
		b.hear(asker, release.Number)
	}
	party := b.known(asker)
	if party == nil {
		return
	}
	i := party.index(release.Namespace, release.Name)
	if i < 0 || party.Slots[i].Number > release.Number {
		return
	}
	entry := &party.Slots[i]
	if entry.Granted && release.Unclean {
		entry.end(now)
		return
	}
	if entry.Granted {
		b.Returned = append(b.Returned, Returned{
			Maintenance: entry.Maintenance, At: now, Asker: asker, Number: entry.Number, Heard: !release.Unheard,
		})
		if node := b.node(entry.Node); node != nil && release.LeftOut {
			node.Unavailable = true
		}
	}
	party.Slots = slices.Delete(party.Slots, i, i+1)
}

// hear takes in that an asker knows that its slot was given back.
func (b *Book) hear(asker Asker, number int64) {
	for i := range b.Returned {
		if r := &b.Returned[i]; r.Asker == asker && r.Number == number {
			r.Heard = true
		}
	}
}

// end keeps the slot for a little longer, and not more.
func (e *Entry) end(now time.Time) {
	if e.Until.IsZero() {
		e.Until = now.Add(UncleanPause)
	}
}

// Holder is an asker and the maintenances that it has slots for.
type Holder struct {
	Asker
	Maintenances []string `json:"maintenances,omitempty"`
}

// Holders are all askers.
func (b *Book) Holders() []Holder {
	holders := make([]Holder, 0, len(b.Parties))
	for _, party := range b.Parties {
		holder := Holder{Asker: party.Asker}
		for _, e := range party.Slots {
			if e.Granted && e.Until.IsZero() {
				holder.Maintenances = append(holder.Maintenances, e.Maintenance)
			}
		}
		holders = append(holders, holder)
	}
	return holders
}

// Lose takes in that an asker is over, and which of its maintenances go on. Requests of it that wait are dropped; so are, after a pause, slots of
// maintenances that are over, too. It returns those.
func (b *Book) Lose(over Holder, now time.Time) (lost []Slot) {
	party := b.known(over.Asker)
	if party == nil {
		return nil
	}
	party.Slots = slices.DeleteFunc(party.Slots, func(e Entry) bool { return !e.Granted })
	*party = Party{Asker: party.Asker, Slots: party.Slots} // nobody is there to be told anything
	for i := range party.Slots {
		if e := &party.Slots[i]; e.Until.IsZero() && !slices.Contains(over.Maintenances, e.Maintenance) {
			lost = append(lost, e.Slot)
			e.end(now)
		}
	}
	b.forgetSilent()
	return lost
}

// forgetSilent forgets askers that ask for nothing and have nothing to be told.
func (b *Book) forgetSilent() {
	b.Parties = slices.DeleteFunc(b.Parties, func(p Party) bool { return len(p.Slots)+len(p.Gone) == 0 })
}

// Miss takes in that the cluster does not have these nodes: requests that wait for them are over. One that was seen meanwhile is there.
func (b *Book) Miss(nodes []string) {
	for i := range b.Parties {
		party := &b.Parties[i]
		over := func(e Entry) bool { return !e.Granted && b.node(e.Node) == nil && slices.Contains(nodes, e.Node) }
		for _, e := range party.Slots {
			if over(e) {
				party.Gone = append(party.Gone, e.name())
			}
		}
		party.Slots = slices.DeleteFunc(party.Slots, over)
	}
}

// See takes in what is seen of the cluster. What comes from an earlier watch than the last is out of date.
func (b *Book) See(sight Sight) {
	switch {
	case sight.From.Before(b.Seen), sight.From.After(b.Seen) && !sight.First:
		return
	case sight.First:
		b.Seen, b.Whole, b.Nodes = sight.From, false, nil
	}
	for _, seen := range sight.Nodes {
		if i, known := b.find(seen.Name); known {
			b.Nodes[i] = seen
		} else {
			b.Nodes = slices.Insert(b.Nodes, i, seen)
		}
	}
	for _, name := range sight.Gone {
		if i, known := b.find(name); known {
			b.Nodes = slices.Delete(b.Nodes, i, i+1)
		}
	}
	if sight.Config != nil || sight.ConfigTrouble != "" {
		b.Config, b.ConfigTrouble = *cmp.Or(sight.Config, &maintenancev1.MaintenanceOperatorConfigSpec{}), sight.ConfigTrouble
	}
	b.Whole = b.Whole || sight.Last
}

func (b *Book) find(name string) (int, bool) {
	return slices.BinarySearchFunc(b.Nodes, name, func(n SeenNode, name string) int { return cmp.Compare(n.Name, name) })
}

func (b *Book) node(name string) *SeenNode {
	if i, known := b.find(name); known {
		return &b.Nodes[i]
	}
	return nil
}

// Forget forgets what was seen. What another watch shows begins with the first part of a whole sight.
func (b *Book) Forget() { b.Nodes, b.Whole, b.Seen = nil, false, time.Time{} }
