package scheduling

import (
	"slices"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

const (
	// UncleanPause is how long a slot is kept whose maintenance ended without returning the node. By then the last write of the maintenance has
	// happened and was seen. From then on the marks on the node count.
	UncleanPause = 15 * time.Second
	// returnedFor is how long the mark of a maintenance that has returned its node does not count: what was seen may be older than the return.
	returnedFor = 30 * time.Second
)

// SlotState is all that the scheduler of a cluster knows: the owners with their requests and slots, and the nodes. Only messages change it.
type SlotState struct {
	// Requesters in the order of their first request.
	Requesters []Requester `json:"requesters,omitempty"`
	// Nodes by name.
	Nodes         []SeenNode                                  `json:"nodes,omitempty"`
	Config        maintenancev1.MaintenanceOperatorConfigSpec `json:"config"`
	ConfigTrouble string                                      `json:"configTrouble,omitempty"`
	// Watch is when the present watch on the nodes began. AllSeen: it has shown all nodes.
	Watch   time.Time `json:"watch"`
	AllSeen bool      `json:"allSeen,omitempty"`
	// Responses counts the responses.
	Responses int64 `json:"responses,omitempty"`
}

// Requester is an owner with its requests and slots.
type Requester struct {
	Owner SlotOwner `json:"owner"`
	// Version of the last SlotRequests.
	Version int64       `json:"version"`
	Slots   []SlotEntry `json:"slots"`
	// Closed: the workflow of the owner is closed, so no response reaches it.
	Closed bool `json:"closed,omitempty"`
	// Sent is the last response, as far as later ones are compared with it, and SentAt when it was sent. ChangedAt is since when there is another
	// reason to wait. No response is sent before RetryAt: the last one did not reach the owner.
	Sent      SlotResponse `json:"sent"`
	SentAt    time.Time    `json:"sentAt,omitzero"`
	ChangedAt time.Time    `json:"changedAt,omitzero"`
	RetryAt   time.Time    `json:"retryAt,omitzero"`
}

// SlotEntry is a request, or a slot, of a Requester.
type SlotEntry struct {
	Request
	Number int64 `json:"number"`
	// Maintenance is the id of the workflow that works on the node. It may outlive the owner.
	Maintenance string     `json:"maintenance,omitempty"`
	Since       time.Time  `json:"since,omitzero"`
	Status      SlotStatus `json:"status"`
	// Until is when a slot that is Ending or Returned is Over.
	Until time.Time `json:"until,omitzero"`
	// Unlisted: the owner no longer lists it.
	Unlisted bool `json:"unlisted,omitempty"`
}

// SlotStatus is the status of a SlotEntry.
type SlotStatus string

const (
	// SlotWaiting: the request waits.
	SlotWaiting SlotStatus = "Waiting"
	// SlotGranted: the owner has the slot.
	SlotGranted SlotStatus = "Granted"
	// SlotNodeGone: the cluster does not have the node of the request.
	SlotNodeGone SlotStatus = "NodeGone"
	// SlotEnding: the maintenance ended without returning the node. The slot still counts.
	SlotEnding SlotStatus = "Ending"
	// SlotReturned: the slot is free. The mark of its maintenance does not count yet.
	SlotReturned SlotStatus = "Returned"
	// SlotOver: only the number is remembered, until the owner stops listing it. Otherwise a set that the owner sent before it knew of the return would
	// bring the slot back.
	SlotOver SlotStatus = "Over"
)

// active reports whether there is anything left to do for the entry.
func (e *SlotEntry) active() bool { return e.Status != SlotReturned && e.Status != SlotOver }

// counts reports whether the entry takes a slot.
func (e *SlotEntry) counts() bool { return e.Status == SlotGranted || e.Status == SlotEnding }

// Empty reports whether no owner requests a slot or has one.
func (s *SlotState) Empty() bool {
	return !slices.ContainsFunc(s.Requesters, func(r Requester) bool { return r.active() })
}

// Take replaces what is known of an owner by its latest set.
func (s *SlotState) Take(set SlotRequests, now time.Time) {
	r := s.requester(set.Owner)
	if set.Version < r.Version || r.Closed {
		return
	}
	r.Version = set.Version
	r.Sent.Granted, r.Sent.NodesGone = nil, nil
	for i := range r.Slots {
		if e := &r.Slots[i]; !slices.ContainsFunc(set.Slots, func(slot Slot) bool { return slot.Number == e.Number }) {
			s.release(e, set.releaseOf(e.Number), now)
		}
	}
	for _, slot := range set.Slots {
		r.list(set, slot)
	}
	s.tidy()
}

// releaseOf is what the set says about a released slot.
func (set SlotRequests) releaseOf(number int64) Release {
	for _, release := range set.Releases {
		if release.Number == number {
			return release
		}
	}
	return Release{}
}

// list takes over a slot that the owner lists. What the owner already knows need not be sent again.
func (r *Requester) list(set SlotRequests, slot Slot) {
	e := r.entry(slot.Number)
	if e == nil {
		r.Slots = append(r.Slots, SlotEntry{
			Request: Request{Namespace: set.Namespace, Name: slot.Name, Node: slot.Node, Requestor: set.Requestor},
			Number:  slot.Number, Maintenance: set.Maintenances + slot.Name, Since: slot.Since, Status: SlotWaiting,
		})
		e = &r.Slots[len(r.Slots)-1]
	}
	if !slot.Granted {
		return
	}
	r.Sent.Granted = append(r.Sent.Granted, slot.Number)
	if e.Status == SlotWaiting || e.Status == SlotNodeGone {
		e.Status = SlotGranted
	}
}

// Return frees a slot whose maintenance has returned its node.
func (s *SlotState) Return(returned SlotReturn, now time.Time) {
	r := s.known(returned.Owner)
	if r == nil {
		return
	}
	if e := r.entry(returned.Number); e != nil && e.Status == SlotGranted {
		unlisted := e.Unlisted
		s.release(e, Release{LeftOut: returned.LeftOut}, now)
		e.Unlisted = unlisted
	}
}

// release frees the slot of an entry, or withdraws its request.
func (s *SlotState) release(e *SlotEntry, release Release, now time.Time) {
	e.Unlisted = true
	switch {
	case !e.counts() && e.Status != SlotReturned:
		e.Status = SlotOver
	case e.Status != SlotGranted: // it was released before
	case release.Unclean:
		e.Status, e.Until = SlotEnding, now.Add(UncleanPause)
	default:
		e.Status, e.Until = SlotReturned, now.Add(returnedFor)
		if node := s.node(e.Node); node != nil && release.LeftOut {
			node.Unavailable = true
		}
	}
}

func (s *SlotState) requester(owner SlotOwner) *Requester {
	if known := s.known(owner); known != nil {
		return known
	}
	s.Requesters = append(s.Requesters, Requester{Owner: owner})
	return &s.Requesters[len(s.Requesters)-1]
}

// known returns nil for an owner that has no entries.
func (s *SlotState) known(owner SlotOwner) *Requester {
	if i := slices.IndexFunc(s.Requesters, func(r Requester) bool { return r.Owner == owner }); i >= 0 {
		return &s.Requesters[i]
	}
	return nil
}

func (r *Requester) entry(number int64) *SlotEntry {
	if i := slices.IndexFunc(r.Slots, func(e SlotEntry) bool { return e.Number == number }); i >= 0 {
		return &r.Slots[i]
	}
	return nil
}

// Holder is an owner with the maintenances that have its slots.
type Holder struct {
	SlotOwner
	Maintenances []string `json:"maintenances,omitempty"`
}

// Holders are all owners that request slots or have them.
func (s *SlotState) Holders() []Holder {
	var holders []Holder
	for i := range s.Requesters {
		r := &s.Requesters[i]
		if !r.active() {
			continue
		}
		holder := Holder{SlotOwner: r.Owner}
		for _, e := range r.Slots {
			if e.Status == SlotGranted {
				holder.Maintenances = append(holder.Maintenances, e.Maintenance)
			}
		}
		holders = append(holders, holder)
	}
	return holders
}

func (r *Requester) active() bool {
	return slices.ContainsFunc(r.Slots, func(e SlotEntry) bool { return e.active() })
}

// OwnerClosed withdraws the requests of an owner whose workflow is closed. Its slots stay with those maintenances that are still running, which
// closed.Maintenances names. The others ended without returning their nodes: it returns these.
func (s *SlotState) OwnerClosed(closed Holder, now time.Time) (nodes []string) {
	r := s.known(closed.SlotOwner)
	if r == nil {
		return nil
	}
	r.Closed = true
	for i := range r.Slots {
		e := &r.Slots[i]
		switch {
		case e.Status != SlotGranted:
			s.release(e, Release{}, now)
		case !slices.Contains(closed.Maintenances, e.Maintenance):
			s.release(e, Release{Unclean: true}, now)
			nodes = append(nodes, e.Node)
		}
		e.Unlisted = true
	}
	s.tidy()
	return nodes
}

// tidy removes entries that are over, and owners without any other.
func (s *SlotState) tidy() {
	for i := range s.Requesters {
		r := &s.Requesters[i]
		r.Slots = slices.DeleteFunc(r.Slots, func(e SlotEntry) bool { return e.Status == SlotOver && e.Unlisted })
	}
	s.Requesters = slices.DeleteFunc(s.Requesters, func(r Requester) bool {
		return !slices.ContainsFunc(r.Slots, func(e SlotEntry) bool { return e.Status != SlotOver })
	})
}

// NodesGone ends the requests for nodes that the cluster does not have, unless a node was seen meanwhile.
func (s *SlotState) NodesGone(nodes []string) {
	for i := range s.Requesters {
		for j := range s.Requesters[i].Slots {
			if e := &s.Requesters[i].Slots[j]; e.Status == SlotWaiting && s.node(e.Node) == nil && slices.Contains(nodes, e.Node) {
				e.Status = SlotNodeGone
			}
		}
	}
}

// Undelivered takes in that a response did not reach its owner. The owner gets all of it again, but not before retryAt.
func (s *SlotState) Undelivered(response SlotResponse, retryAt time.Time) {
	if r := s.known(response.Owner); r != nil && r.Sent.Number <= response.Number {
		r.Sent, r.SentAt, r.ChangedAt, r.RetryAt = SlotResponse{}, time.Time{}, time.Time{}, retryAt
	}
}
