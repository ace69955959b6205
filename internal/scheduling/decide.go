package scheduling

import (
	"fmt"
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
	// Responses to the owners of new grants, and of requests that have ended.
	Responses []SlotResponse
	// Again is when to decide again without a change; zero: never.
	Again time.Time
}

// Decide grants requests within the budgets, and answers their owners. During a standstill it grants nothing; standstill is the reason. Reports answers
// the others.
func (s *SlotState) Decide(now time.Time, standstill *drydockv1.Wait) Outcome {
	next := s.expire(now)
	decision, granted, waiting := s.decision(now, standstill)
	out := Outcome{Again: next, Decision: decision}
	s.grant(granted)
	s.noteWaits(decision, waiting)
	s.respond(&out, now)
	return out
}

// Missing returns the nodes of waiting requests that the watch has not listed.
func (d Decision) Missing() (nodes []string) {
	seen := map[string]bool{}
	for i := range d.Waiting {
		if w := &d.Waiting[i]; w.Reason == NodeNotFound && !seen[w.Node] {
			seen[w.Node] = true
			nodes = append(nodes, w.Node)
		}
	}
	return nodes
}

// expire ends entries whose Until has passed, and returns when the next slot becomes free.
func (s *SlotState) expire(now time.Time) (next time.Time) {
	for _, r := range s.Requesters {
		for i := range r.Slots {
			e := &r.Slots[i]
			switch {
			case e.Until.IsZero():
			case !e.Until.After(now):
				s.change(r, e, SlotOver)
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

// decision schedules all requests, and returns the entries of the granted and the waiting ones. In a standstill all wait for its end, in order of rank.
func (s *SlotState) decision(now time.Time, standstill *drydockv1.Wait) (decision Decision, granted, waiting []ownedEntry) {
	standstill = s.Standstill(standstill)
	in, entries, marks := s.input(now)
	if standstill != nil {
		in.Config.MaxParallelOperations = new(intstr.FromInt32(0))
	}
	decision, grantedAt, waitingAt := schedule(in)
	for i := range decision.Waiting {
		w := &decision.Waiting[i]
		switch {
		case standstill != nil:
			w.Reason, w.Message = Reason(standstill.Reason), standstill.Message
		case w.Reason == NodeBusy && marks[w.Node] != "":
			w.Message = fmt.Sprintf("node %s is under maintenance by %s; it is next after the node is returned", w.Node, marks[w.Node])
		}
	}
	return decision, entriesAt(entries, grantedAt), entriesAt(entries, waitingAt)
}

// ownedEntry is an entry with its requester.
type ownedEntry struct {
	*SlotEntry
	requester *Requester
}

func entriesAt(entries []ownedEntry, indexes []int) []ownedEntry {
	found := make([]ownedEntry, len(indexes))
	for i, index := range indexes {
		found[i] = entries[index]
	}
	return found
}

// input returns the input of a decision with the entries of its requests, and the counting marks by node. Such a mark is a granted request without an entry.
func (s *SlotState) input(now time.Time) (in Input, entries []ownedEntry, marks map[string]string) {
	in = Input{Nodes: make([]Node, 0, len(s.Nodes)), Requests: make([]SlotRequest, 0, len(s.Requesters)), Config: s.Config, Now: now}
	entries, marks = make([]ownedEntry, 0, len(s.Requesters)), s.countingMarks()
	for i := range s.Nodes {
		observed := &s.Nodes[i]
		in.Nodes = append(in.Nodes, observed.Node)
		if mark := marks[observed.Name]; mark != "" {
			in.Requests = append(in.Requests, SlotRequest{Request: Request{Node: observed.Name, Name: mark}, Granted: true})
			entries = append(entries, ownedEntry{})
		}
	}
	for _, r := range s.Requesters {
		for i := range r.Slots {
			if e := &r.Slots[i]; e.counts() || e.Status == SlotWaiting {
				in.Requests = append(in.Requests, SlotRequest{Request: e.Request, Since: e.Since, Granted: e.counts()})
				entries = append(entries, ownedEntry{e, r})
			}
		}
	}
	return in, entries, marks
}

// countingMarks returns, by node, the marks of maintenances without a slot: for example of a terminated one, until the sweeper removes the mark.
func (s *SlotState) countingMarks() map[string]string {
	held, returned := map[string]bool{}, map[string]bool{}
	for _, r := range s.Requesters {
		for i := range r.Slots {
			switch e := &r.Slots[i]; {
			case e.counts():
				held[e.Node] = true
			case e.Status == SlotReturned:
				returned[e.Maintenance] = true
			}
		}
	}
	marks := map[string]string{}
	for i := range s.Nodes {
		if node := &s.Nodes[i]; node.Maintenance != "" && !held[node.Name] && !returned[node.Maintenance] {
			marks[node.Name] = node.Maintenance
		}
	}
	return marks
}

// grant grants requests. From now on, a mark belongs to the new maintenance, even if an earlier one with the same id has returned its node.
func (s *SlotState) grant(granted []ownedEntry) {
	if len(granted) == 0 {
		return
	}
	started := map[string]bool{}
	for _, entry := range granted {
		s.change(entry.requester, entry.SlotEntry, SlotGranted)
		started[entry.Maintenance] = true
	}
	for _, r := range s.Requesters {
		for i := range r.Slots {
			if e := &r.Slots[i]; e.Status == SlotReturned && started[e.Maintenance] {
				s.change(r, e, SlotOver)
			}
		}
	}
}

// Slots returns the granted slots, in the order of their requests.
func (s *SlotState) Slots() []QueueEntry {
	places := []QueueEntry{}
	for _, r := range s.Requesters {
		for i := range r.Slots {
			if e := &r.Slots[i]; e.counts() {
				places = append(places, QueueEntry{Request: e.Request, Owner: r.Owner, Since: e.Since})
			}
		}
	}
	return places
}

// Queue returns the granted slots, then the waiting requests in order of rank.
func (s *SlotState) Queue(now time.Time, standstill *drydockv1.Wait) []QueueEntry {
	places := s.Slots()
	decision, _, waiting := s.decision(now, standstill)
	for i := range decision.Waiting {
		w, entry := &decision.Waiting[i], waiting[i]
		places = append(places, QueueEntry{
			Request: w.Request, Owner: entry.requester.Owner, Since: entry.Since, Rank: i + 1, Reason: w.Reason, Message: w.Message,
		})
	}
	return places
}
