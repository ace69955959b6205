package scheduling

import (
	"slices"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

const (
	// UncleanPause is how long a slot is kept after its maintenance ended without returning the node. By then the last write of the maintenance has
	// reached the watch, and the marks on the node count.
	UncleanPause = 15 * time.Second
	// markIgnoredFor is how long the mark of a maintenance that has returned its node does not count: the watch may lag behind.
	markIgnoredFor = 30 * time.Second
)

// SlotState is the state of a scheduler: the owners with their requests and slots, and the nodes of the cluster.
type SlotState struct {
	// Requesters in the order of their first request.
	Requesters []Requester `json:"requesters,omitempty"`
	// Nodes by name.
	Nodes         []ObservedNode                              `json:"nodes,omitempty"`
	Config        maintenancev1.MaintenanceOperatorConfigSpec `json:"config"`
	ConfigTrouble string                                      `json:"configTrouble,omitempty"`
	// Watch is the start time of the current watch. AllListed: it has listed all nodes.
	Watch     time.Time `json:"watch"`
	AllListed bool      `json:"allListed,omitempty"`
	// Responses counts the responses.
	Responses int64 `json:"responses,omitempty"`
}

// Requester is an owner with its requests and slots.
type Requester struct {
	Owner SlotOwner `json:"owner"`
	// Version is that of the last SlotRequests.
	Version int64       `json:"version"`
	Slots   []SlotEntry `json:"slots"`
	// Closed: the workflow of the owner is closed and gets no response.
	Closed bool `json:"closed,omitempty"`
	// Sent is the last response, for the comparison with later ones, and SentAt its time. ChangedAt is when the reason to wait changed. RetryAt is the
	// earliest time of the next response if the last one was lost.
	Sent      SlotResponse `json:"sent"`
	SentAt    time.Time    `json:"sentAt,omitzero"`
	ChangedAt time.Time    `json:"changedAt,omitzero"`
	RetryAt   time.Time    `json:"retryAt,omitzero"`
}

// SlotEntry is a requested or granted slot of a Requester.
type SlotEntry struct {
	Request
	Number int64 `json:"number"`
	// Maintenance is the workflow id of the node's maintenance, which may outlive the owner.
	Maintenance string     `json:"maintenance,omitempty"`
	Since       time.Time  `json:"since,omitzero"`
	Status      SlotStatus `json:"status"`
	// Until is when an Ending or Returned slot becomes Over.
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
	// SlotNodeGone: the node of the request does not exist.
	SlotNodeGone SlotStatus = "NodeGone"
	// SlotEnding: the maintenance ended without returning the node. The slot still counts.
	SlotEnding SlotStatus = "Ending"
	// SlotReturned: the slot is free. The mark of its maintenance is ignored for a while.
	SlotReturned SlotStatus = "Returned"
	// SlotOver: the slot has ended. The number is kept until the owner stops listing it. Otherwise a set that the owner sent before it knew of the
	// return would restore the slot.
	SlotOver SlotStatus = "Over"
)

// active reports whether the entry waits, has a slot, or has an end that its owner must still learn.
func (e *SlotEntry) active() bool { return e.Status != SlotReturned && e.Status != SlotOver }

// counts reports whether the entry occupies a slot.
func (e *SlotEntry) counts() bool { return e.Status == SlotGranted || e.Status == SlotEnding }

// Empty reports whether no owner requests a slot or has one.
func (s *SlotState) Empty() bool {
	return !slices.ContainsFunc(s.Requesters, func(r Requester) bool { return r.active() })
}

// Receive applies the latest set of an owner.
func (s *SlotState) Receive(set SlotRequests, now time.Time) {
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
		r.addListed(set, slot)
	}
	s.prune()
}

// releaseOf returns the details of a released slot.
func (set SlotRequests) releaseOf(number int64) Release {
	for _, release := range set.Releases {
		if release.Number == number {
			return release
		}
	}
	return Release{}
}

// addListed adds or updates a slot that the owner lists. It records grants that the owner knows as sent.
func (r *Requester) addListed(set SlotRequests, slot Slot) {
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
	case e.Status != SlotGranted: // released before
	case release.Unclean:
		e.Status, e.Until = SlotEnding, now.Add(UncleanPause)
	default:
		e.Status, e.Until = SlotReturned, now.Add(markIgnoredFor)
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

// known returns the requester of an owner; nil: the owner has no entries.
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

// Holder is an owner with the maintenances that use its slots.
type Holder struct {
	SlotOwner
	Maintenances []string `json:"maintenances,omitempty"`
}

// Holders returns all owners that request or have slots.
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

// OwnerClosed withdraws the requests of an owner whose workflow is closed. Running maintenances, in closed.Maintenances, keep their slots. OwnerClosed
// returns the nodes of the others, which ended without returning their nodes.
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
	s.prune()
	return nodes
}

// prune removes ended entries, and owners that have only ended ones.
func (s *SlotState) prune() {
	for i := range s.Requesters {
		r := &s.Requesters[i]
		r.Slots = slices.DeleteFunc(r.Slots, func(e SlotEntry) bool { return e.Status == SlotOver && e.Unlisted })
	}
	s.Requesters = slices.DeleteFunc(s.Requesters, func(r Requester) bool {
		return !slices.ContainsFunc(r.Slots, func(e SlotEntry) bool { return e.Status != SlotOver })
	})
}

// NodesGone ends the requests for nodes that do not exist, unless the watch has listed the node since.
func (s *SlotState) NodesGone(nodes []string) {
	for i := range s.Requesters {
		for j := range s.Requesters[i].Slots {
			if e := &s.Requesters[i].Slots[j]; e.Status == SlotWaiting && s.node(e.Node) == nil && slices.Contains(nodes, e.Node) {
				e.Status = SlotNodeGone
			}
		}
	}
}

// Undelivered records that a response did not reach its owner, which gets it again, but not before retryAt.
func (s *SlotState) Undelivered(response SlotResponse, retryAt time.Time) {
	if r := s.known(response.Owner); r != nil && r.Sent.Number <= response.Number {
		r.Sent, r.SentAt, r.ChangedAt, r.RetryAt = SlotResponse{}, time.Time{}, time.Time{}, retryAt
	}
}
