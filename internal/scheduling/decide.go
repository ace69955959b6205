package scheduling

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Reasons of a standstill: nothing is granted.
const (
	// ReasonNodesUnknown: the nodes of the cluster are not listed yet.
	ReasonNodesUnknown = "NodesUnknown"
	// ReasonSlotOwnersUnknown: the scheduler started without state, and its resync is not complete.
	ReasonSlotOwnersUnknown = "SlotOwnersUnknown"
	// ReasonInvalidConfig: the cluster's budgets cannot be read.
	ReasonInvalidConfig = "InvalidConfig"
)

// QueueEntry is a request in the queue.
type QueueEntry struct {
	Request
	Owner SlotOwner `json:"owner"`
	Since time.Time `json:"since"`
	// Rank of a waiting request, from 1; 0: it has a slot.
	Rank    int    `json:"rank,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Outcome is a decision with its consequences.
type Outcome struct {
	Decision
	// Responses to send to the owners.
	Responses []SlotResponse
	// Again is when to decide again without a change; zero: never.
	Again time.Time
}

// Decide grants requests within the budgets, and answers the owners. During a standstill it grants nothing; standstill is the reason.
func (s *SlotState) Decide(now time.Time, standstill *drydockv1.Wait) Outcome {
	out := Outcome{Again: s.expire(now), Decision: s.decision(now, standstill)}
	s.grant(out.Granted)
	s.respond(&out, now)
	return out
}

// Missing returns the nodes of waiting requests that the watch has not listed.
func (d Decision) Missing() (nodes []string) {
	for _, w := range d.Waiting {
		if w.Reason == NodeNotFound && !slices.Contains(nodes, w.Node) {
			nodes = append(nodes, w.Node)
		}
	}
	return nodes
}

// expire ends entries whose Until has passed, and returns when the next slot becomes free.
func (s *SlotState) expire(now time.Time) (next time.Time) {
	for i := range s.Requesters {
		for j := range s.Requesters[i].Slots {
			e := &s.Requesters[i].Slots[j]
			switch {
			case e.Until.IsZero():
			case !e.Until.After(now):
				*e = SlotEntry{Number: e.Number, Status: SlotOver, Unlisted: e.Unlisted}
			case e.Status == SlotEnding:
				next = Earlier(next, e.Until)
			}
		}
	}
	s.prune()
	return next
}

// Earlier returns the earlier of two instants; the zero time is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Standstill returns why nothing is granted: the given reason, or else one of the state. Nil: requests are granted within the budgets.
func (s *SlotState) Standstill(why *drydockv1.Wait) *drydockv1.Wait {
	switch {
	case why != nil:
		return why
	case !s.AllListed:
		return &drydockv1.Wait{Reason: ReasonNodesUnknown, Message: "the nodes of the cluster are not listed yet"}
	case s.ConfigTrouble != "":
		return &drydockv1.Wait{Reason: ReasonInvalidConfig, Message: s.ConfigTrouble}
	}
	return nil
}

// decision schedules all requests. In a standstill all wait for its end, in order of rank.
func (s *SlotState) decision(now time.Time, standstill *drydockv1.Wait) Decision {
	standstill = s.Standstill(standstill)
	in := s.input(now)
	if standstill != nil {
		in.Config.MaxParallelOperations = new(intstr.FromInt32(0))
	}
	decision := Schedule(in)
	for i := range decision.Waiting {
		w := &decision.Waiting[i]
		observed := s.node(w.Node)
		switch {
		case standstill != nil:
			w.Reason, w.Message = Reason(standstill.Reason), standstill.Message
		case w.Reason == NodeBusy && observed != nil && s.markCounts(*observed):
			w.Message = fmt.Sprintf("node %s is under maintenance by %s; it is next after the node is returned", w.Node, observed.Maintenance)
		}
	}
	return decision
}

// input returns the input of a decision. A counting mark is a granted request.
func (s *SlotState) input(now time.Time) Input {
	in := Input{Nodes: make([]Node, 0, len(s.Nodes)), Config: s.Config, Now: now}
	for _, observed := range s.Nodes {
		in.Nodes = append(in.Nodes, observed.Node)
		if s.markCounts(observed) {
			in.Requests = append(in.Requests, SlotRequest{Request: Request{Node: observed.Name, Name: observed.Maintenance}, Granted: true})
		}
	}
	for _, r := range s.Requesters {
		for _, e := range r.Slots {
			if e.counts() || e.Status == SlotWaiting {
				in.Requests = append(in.Requests, SlotRequest{Request: e.Request, Since: e.Since, Granted: e.counts()})
			}
		}
	}
	return in
}

// markCounts reports whether a node has the mark of a maintenance without a slot: for example of a terminated one, until the sweeper removes the mark.
func (s *SlotState) markCounts(observed ObservedNode) bool {
	if observed.Maintenance == "" {
		return false
	}
	for _, r := range s.Requesters {
		if slices.ContainsFunc(r.Slots, func(e SlotEntry) bool {
			return e.counts() && e.Node == observed.Name || e.Status == SlotReturned && e.Maintenance == observed.Maintenance
		}) {
			return false
		}
	}
	return true
}

// grant grants requests. From now on, a mark belongs to the new maintenance, even if an earlier one with the same id has returned its node.
func (s *SlotState) grant(granted []Request) {
	waiting := s.waiting()
	for _, request := range granted {
		found := waiting[request]
		if len(found) == 0 {
			continue
		}
		entry := found[0].entry
		entry.Status = SlotGranted
		for i := range s.Requesters {
			for j := range s.Requesters[i].Slots {
				if e := &s.Requesters[i].Slots[j]; e.Status == SlotReturned && e.Maintenance == entry.Maintenance {
					e.Status = SlotOver
				}
			}
		}
	}
}

// ownedEntry is an entry with its owner.
type ownedEntry struct {
	owner SlotOwner
	entry *SlotEntry
}

// waiting returns the waiting entries by request, in order of their owners.
func (s *SlotState) waiting() map[Request][]ownedEntry {
	entries := map[Request][]ownedEntry{}
	for i := range s.Requesters {
		for j := range s.Requesters[i].Slots {
			if e := &s.Requesters[i].Slots[j]; e.Status == SlotWaiting {
				entries[e.Request] = append(entries[e.Request], ownedEntry{s.Requesters[i].Owner, e})
			}
		}
	}
	return entries
}

// Slots returns the granted slots, in the order of their requests.
func (s *SlotState) Slots() []QueueEntry {
	places := []QueueEntry{}
	for _, r := range s.Requesters {
		for _, e := range r.Slots {
			if e.counts() {
				places = append(places, QueueEntry{Request: e.Request, Owner: r.Owner, Since: e.Since})
			}
		}
	}
	return places
}

// Queue returns the granted slots, then the waiting requests in order of rank.
func (s *SlotState) Queue(now time.Time, standstill *drydockv1.Wait) []QueueEntry {
	places, waiting := s.Slots(), s.waiting()
	for i, w := range s.decision(now, standstill).Waiting {
		if found := waiting[w.Request]; len(found) > 0 {
			waiting[w.Request] = found[1:]
			places = append(places, QueueEntry{
				Request: w.Request, Owner: found[0].owner, Since: found[0].entry.Since, Rank: i + 1, Reason: w.Reason, Message: w.Message,
			})
		}
	}
	return places
}
