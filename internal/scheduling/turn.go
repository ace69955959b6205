package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// newsAfter is for how long a wait has to stand before its asker is told: most end sooner.
	newsAfter = time.Second
	// retoldAfter is how long after it was told of a wait an asker is told at the earliest what else there is to say of it: who has the slots now, say. It is
	// a tenth of the time for which it has waited, from retoldAfter up to retoldAtMost: what waits for months does not fill its history so.
	retoldAfter, retoldAtMost = time.Minute, time.Hour
	// turnsAtOnce is how many askers are told at a time: the server blocks a run with too many outgoing signals.
	turnsAtOnce = 100
	// turnHeld is how many nodes an asker is told of that others have.
	turnHeld = 50
	// turnBlockers is how many waiting requests a wait names: each waits for much the same.
	turnBlockers = 10
)

// Place is where a request stands in the queue.
type Place struct {
	Request
	Asker Asker     `json:"asker"`
	Since time.Time `json:"since"`
	// Rank of a waiting request, from 1; 0: it has a slot.
	Rank    int    `json:"rank,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Outcome is what follows from a decision.
type Outcome struct {
	Decision
	// Turns is what the askers are to be told.
	Turns []Turn
	// Again is when to decide again although nothing happens; the zero time: never.
	Again time.Time
}

// Decide grants what may be granted now. While there is a standstill nothing is granted; it says why.
func (b *Book) Decide(now time.Time, standstill *drydockv1.Wait) Outcome {
	out := Outcome{Again: b.lapse(now), Decision: b.decision(now, standstill)}
	b.grant(out.Granted)
	waits := b.waits(out.Waiting, now)
	for i := range b.Parties {
		party := &b.Parties[i]
		wait := waits[party.Asker]
		granted, due := party.news(wait, now)
		if len(granted)+len(party.Gone) == 0 && (due.IsZero() || due.After(now)) {
			out.Again = Earlier(out.Again, due)
			continue
		}
		if len(out.Turns) == turnsAtOnce {
			out.Again = now
			continue
		}
		b.Turns++
		out.Turns = append(out.Turns, party.tell(b.Turns, granted, wait, now))
	}
	b.forgetSilent()
	return out
}

// Left is how many more nodes may be under maintenance, and how many more may become unavailable, when all is granted that is granted here; nil is without
// limit.
func (d Decision) Left() (slots int, outages *int) { return d.left.slots, d.left.outages }

// Missing are the nodes that are waited for and that nobody has seen.
func (d Decision) Missing() (nodes []string) {
	for _, w := range d.Waiting {
		if w.Reason == NodeNotFound && !slices.Contains(nodes, w.Node) {
			nodes = append(nodes, w.Node)
		}
	}
	return nodes
}

// lapse drops what is over by now, and returns when the next is.
func (b *Book) lapse(now time.Time) (next time.Time) {
	for i := range b.Parties {
		b.Parties[i].Slots = slices.DeleteFunc(b.Parties[i].Slots, func(e Entry) bool { return !e.Until.IsZero() && !e.Until.After(now) })
		for _, e := range b.Parties[i].Slots {
			next = Earlier(next, e.Until)
		}
	}
	b.forgetSilent()
	b.Returned = slices.DeleteFunc(b.Returned, func(r Returned) bool {
		return r.At.Add(returnedFor).Before(now) && (r.Heard || b.known(r.Asker) == nil)
	})
	for i := range b.Returned {
		if r := &b.Returned[i]; r.At.Add(returnedFor).Before(now) {
			r.Maintenance = ""
		}
	}
	return next
}

// Earlier returns the earlier of two instants; the zero time is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Standstill is why nothing is granted: for the reason given, or because the book itself allows nothing. Nil: what the budgets allow is.
func (b *Book) Standstill(why *drydockv1.Wait) *drydockv1.Wait {
	switch {
	case why != nil:
		return why
	case !b.Whole:
		return &drydockv1.Wait{Reason: ReasonNodesUnknown, Message: "the nodes of the cluster have not been seen yet"}
	case b.ConfigTrouble != "":
		return &drydockv1.Wait{Reason: ReasonInvalidConfig, Message: b.ConfigTrouble}
	}
	return nil
}

// Reasons why nothing is granted at all.
const (
	// ReasonNodesUnknown: the nodes of the cluster have not been seen yet.
	ReasonNodesUnknown = "NodesUnknown"
	// ReasonAskersUnknown: it is not known yet who has slots.
	ReasonAskersUnknown = "AskersUnknown"
	// ReasonInvalidConfig: the cluster's budgets cannot be read.
	ReasonInvalidConfig = "InvalidConfig"
)

// decision decides on everything in the book. In a standstill, everybody waits for its end, in order of rank.
func (b *Book) decision(now time.Time, standstill *drydockv1.Wait) Decision {
	standstill = b.Standstill(standstill)
	in := b.input(now)
	if standstill != nil {
		in.Config.MaxParallelOperations = new(intstr.FromInt32(0))
	}
	decision := Schedule(in)
	waiting := decision.Waiting[:0]
	for _, w := range decision.Waiting {
		seen := b.node(w.Node)
		switch {
		case standstill != nil:
			w.Reason, w.Message = Reason(standstill.Reason), standstill.Message
		case w.Reason == NodeBusy && seen != nil && b.heldByOthers(*seen):
			w.Message = fmt.Sprintf("node %s is under maintenance by %s; it is next when that has returned the node", w.Node, seen.Maintenance)
		}
		waiting = append(waiting, w)
	}
	decision.Waiting = waiting
	return decision
}

func (b *Book) input(now time.Time) Input {
	in := Input{Nodes: make([]Node, 0, len(b.Nodes)), Config: b.Config, Now: now}
	for _, seen := range b.Nodes {
		in.Nodes = append(in.Nodes, seen.Node)
		if b.heldByOthers(seen) {
			in.Asks = append(in.Asks, Ask{Request: Request{Node: seen.Name, Name: seen.Maintenance}, Granted: true})
		}
	}
	for _, party := range b.Parties {
		for _, e := range party.Slots {
			in.Asks = append(in.Asks, Ask{Request: e.Request, Since: e.Since, Granted: e.Granted})
		}
	}
	return in
}

// heldByOthers reports whether a node bears the mark of a maintenance that has no slot in the book: of one that ended, say, and whose mark the
// sweeper will take back.
func (b *Book) heldByOthers(seen SeenNode) bool {
	if seen.Maintenance == "" || slices.ContainsFunc(b.Returned, func(r Returned) bool { return r.Maintenance == seen.Maintenance }) {
		return false
	}
	for _, party := range b.Parties {
		if slices.ContainsFunc(party.Slots, func(e Entry) bool { return e.Granted && e.Node == seen.Name }) {
			return false
		}
	}
	return true
}

// grant enters what was granted. A mark is that of the new maintenance from now on, though one of the same id had returned the node before.
func (b *Book) grant(granted []Request) {
	entries := b.unserved()
	for _, request := range granted {
		if found := entries[request]; len(found) > 0 {
			entry := found[0].entry
			entry.Granted = true
			for i := range b.Returned {
				if r := &b.Returned[i]; r.Maintenance == entry.Maintenance {
					r.Maintenance = ""
				}
			}
		}
	}
}

// placed is an entry and its asker.
type placed struct {
	asker Asker
	entry *Entry
}

// unserved are the entries without a slot. Of several that are the same to the eye, the one that was asked for first comes first.
func (b *Book) unserved() map[Request][]placed {
	entries := map[Request][]placed{}
	for i := range b.Parties {
		for j := range b.Parties[i].Slots {
			if e := &b.Parties[i].Slots[j]; !e.Granted {
				entries[e.Request] = append(entries[e.Request], placed{b.Parties[i].Asker, e})
			}
		}
	}
	return entries
}

// partyWait is why the first request of an asker waits.
type partyWait struct {
	drydockv1.Wait
	// asked is since when the request waits.
	asked time.Time
	// holder has the node that it waits for.
	holder Asker
	// held are the nodes of its requests for others that are with maintenances which asked for themselves.
	held []HeldNode
}

// holderOf is who has the slot for a node, and whether that is for itself; the zero values: nobody in the book.
func (b *Book) holderOf(node string) (held HeldNode, itself bool) {
	for _, party := range b.Parties {
		for _, e := range party.Slots {
			if e.Granted && e.Node == node {
				return HeldNode{Node: node, Holder: party.Asker, Number: e.Number}, e.Maintenance == party.Asker.WorkflowID
			}
		}
	}
	return HeldNode{}, false
}

// waits are, for each asker that waits, why its first request does, and all of them with their own reason.
func (b *Book) waits(queue []Waiting, now time.Time) map[Asker]*partyWait {
	entries, counts, waits := b.unserved(), map[Asker]int{}, map[Asker]*partyWait{}
	for _, w := range queue {
		found := entries[w.Request]
		if len(found) == 0 {
			continue
		}
		asker, asked := found[0].asker, found[0].entry
		entries[w.Request] = found[1:]
		counts[asker]++
		wait := waits[asker]
		if wait == nil {
			wait = &partyWait{asked: asked.Since, Wait: drydockv1.Wait{Reason: string(w.Reason), Message: w.Message, Since: metav1.NewTime(now)}}
			waits[asker] = wait
		}
		if w.Reason == NodeBusy {
			held, itself := b.holderOf(w.Node)
			if counts[asker] == 1 {
				wait.holder = held.Holder
			}
			if itself && asked.Maintenance != asker.WorkflowID && len(wait.held) < turnHeld {
				wait.held = append(wait.held, held)
			}
		}
		if len(wait.Blockers) < turnBlockers {
			wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "Node", Name: w.Node, Reason: string(w.Reason), Message: w.Message})
		}
	}
	for i := range b.Parties {
		asker := b.Parties[i].Asker
		if wait := waits[asker]; wait != nil {
			slices.SortFunc(wait.held, func(a, b HeldNode) int { return strings.Compare(a.Node, b.Node) })
		}
		if wait, count := waits[asker], counts[asker]; count > 1 {
			wait.Message = fmt.Sprintf("%s is next of %d: %s", wait.Blockers[0].Name, count, wait.Message)
		}
	}
	return waits
}

// news is what an asker has to be told: grants, at once; that it waits for another reason than it knows, when that has stood for a while; and now and then
// what else there is to say of the same reason.
func (p *Party) news(wait *partyWait, now time.Time) (granted []Grant, due time.Time) {
	for i := range p.Slots {
		if e := &p.Slots[i]; e.Granted && !e.Told {
			granted = append(granted, e.name())
		}
	}
	reason, holder, held := wait.key()
	known := reason == p.Told && holder == p.ToldHolder && slices.Equal(held, p.ToldHeld)
	switch {
	case known && wait.message() == p.ToldMessage:
		p.News = time.Time{}
		return granted, time.Time{}
	case known:
		p.News = time.Time{}
		return granted, p.ToldAt.Add(min(max(retoldAfter, p.ToldAt.Sub(wait.asked)/10), retoldAtMost))
	case p.News.IsZero():
		p.News = now
	}
	return granted, p.News.Add(newsAfter)
}

func (p *Party) tell(number int64, granted []Grant, wait *partyWait, now time.Time) Turn {
	for i := range p.Slots {
		p.Slots[i].Told = p.Slots[i].Granted
	}
	p.Told, p.ToldHolder, p.ToldHeld = wait.key()
	p.ToldMessage, p.ToldAt, p.News = wait.message(), now, time.Time{}
	turn := Turn{Asker: p.Asker, Number: number, Granted: granted, Gone: p.Gone, Held: p.ToldHeld}
	p.Gone = nil
	if wait != nil {
		turn.Wait = &wait.Wait
	}
	if p.ToldHolder != (Asker{}) {
		turn.Holder = new(p.ToldHolder)
	}
	return turn
}

// Untell takes in that an asker was not reached by a turn: with the next decision it is told everything again, if there is anything to tell still.
func (b *Book) Untell(turn Turn) {
	if b.known(turn.Asker) == nil && len(turn.Gone) == 0 {
		return
	}
	party := b.party(turn.Asker)
	party.Gone = append(party.Gone, turn.Gone...)
	for i := range party.Slots {
		party.Slots[i].Told = false
	}
	party.Told, party.ToldMessage, party.ToldHolder, party.ToldHeld, party.ToldAt = "", "", Asker{}, nil, time.Time{}
}

// key is by what one wait is told from another.
func (w *partyWait) key() (reason string, holder Asker, held []HeldNode) {
	if w == nil {
		return "", Asker{}, nil
	}
	return w.Reason, w.holder, w.held
}

// message is what there is to say of a wait.
func (w *partyWait) message() string {
	if w == nil {
		return ""
	}
	return w.Message
}

// Served are those with a slot, in the order in which they were asked for.
func (b *Book) Served() []Place {
	places := []Place{}
	for _, party := range b.Parties {
		for _, e := range party.Slots {
			if e.Granted {
				places = append(places, Place{Request: e.Request, Asker: party.Asker, Since: e.Since})
			}
		}
	}
	return places
}

// Queue is everybody in the book: those with a slot, in the order in which they were asked for, then those that wait, in order of rank.
func (b *Book) Queue(now time.Time, standstill *drydockv1.Wait) []Place {
	places := b.Served()
	entries := b.unserved()
	for i, w := range b.decision(now, standstill).Waiting {
		if found := entries[w.Request]; len(found) > 0 {
			entries[w.Request] = found[1:]
			places = append(places, Place{
				Request: w.Request, Asker: found[0].asker, Since: found[0].entry.Since, Rank: i + 1, Reason: w.Reason, Message: w.Message,
			})
		}
	}
	return places
}
