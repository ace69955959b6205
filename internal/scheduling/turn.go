package scheduling

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// newsAfter is for how long a wait has to stand before its asker is told: most end sooner.
	newsAfter = time.Second
	// turnsAtOnce is how many askers are told at a time: the server blocks a run with too many outgoing signals.
	turnsAtOnce = 100
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

// Decide grants what may be granted now, and returns what the askers are to be told, and when to decide again although nothing happens; the
// zero time: never. While there is a standstill, which is why, nothing is granted.
func (b *Book) Decide(now time.Time, standstill *drydockv1.Wait) (turns []Turn, again time.Time) {
	again = b.lapse(now)
	decision := b.decision(now)
	if standstill == nil {
		standstill = b.standstill()
	}
	if standstill == nil {
		b.grant(decision)
		decision.Waiting = slices.DeleteFunc(decision.Waiting, func(w Waiting) bool { return w.Reason == NodeNotFound })
	} else {
		decision = Decision{Waiting: b.standing(*standstill)}
	}
	waits := b.waits(decision.Waiting, now)
	for i := range b.Parties {
		party := &b.Parties[i]
		granted, due := party.news(waits[party.Asker], now)
		if len(granted) == 0 && (due.IsZero() || due.After(now)) {
			again = earlier(again, due)
			continue
		}
		if len(turns) == turnsAtOnce {
			again = now
			continue
		}
		b.Turns++
		turns = append(turns, party.tell(b.Turns, granted, waits[party.Asker]))
	}
	return turns, again
}

// lapse drops what is over by now, and returns when the next is.
func (b *Book) lapse(now time.Time) (next time.Time) {
	for i := range b.Parties {
		b.Parties[i].Slots = slices.DeleteFunc(b.Parties[i].Slots, func(e Entry) bool { return !e.Until.IsZero() && !e.Until.After(now) })
		for _, e := range b.Parties[i].Slots {
			next = earlier(next, e.Until)
		}
	}
	b.forgetSilent()
	b.Returned = slices.DeleteFunc(b.Returned, func(r Returned) bool { return r.At.Add(returnedFor).Before(now) })
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// standstill is why the book itself allows nothing.
func (b *Book) standstill() *drydockv1.Wait {
	switch {
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
	// ReasonInvalidConfig: the cluster's budgets cannot be read.
	ReasonInvalidConfig = "InvalidConfig"
)

// decision decides on everything in the book.
func (b *Book) decision(now time.Time) Decision {
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
	decision := Schedule(in)
	for i := range decision.Waiting {
		waiting := &decision.Waiting[i]
		if seen := b.node(waiting.Node); waiting.Reason == NodeBusy && seen != nil && b.heldByOthers(*seen) {
			waiting.Message = fmt.Sprintf("node %s is under maintenance by %s; it is next when that has returned the node", waiting.Node, seen.Maintenance)
		}
	}
	return decision
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

// grant enters what was granted. A node that is gone needs no slot: its maintenance ends at once.
func (b *Book) grant(decision Decision) {
	granted := slices.Clone(decision.Granted)
	for _, waiting := range decision.Waiting {
		if waiting.Reason == NodeNotFound {
			granted = append(granted, waiting.Request)
		}
	}
	for _, request := range granted {
		if e := b.waiting(request); e != nil {
			e.Granted = true
		}
	}
}

// waiting finds a request that waits. Of two that are the same to the eye, the one that was asked for first.
func (b *Book) waiting(request Request) *Entry {
	for i := range b.Parties {
		for j := range b.Parties[i].Slots {
			if e := &b.Parties[i].Slots[j]; !e.Granted && e.Request == request {
				return e
			}
		}
	}
	return nil
}

// standing is the queue while nothing is granted.
func (b *Book) standing(why drydockv1.Wait) (waiting []Waiting) {
	for _, party := range b.Parties {
		for _, e := range party.Slots {
			if !e.Granted {
				waiting = append(waiting, Waiting{Request: e.Request, Reason: Reason(why.Reason), Message: why.Message})
			}
		}
	}
	return waiting
}
