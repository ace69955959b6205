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
	Requesters []*Requester `json:"requesters,omitempty"`
	// Nodes by name.
	Nodes         []ObservedNode                              `json:"nodes,omitempty"`
	Config        maintenancev1.MaintenanceOperatorConfigSpec `json:"config"`
	ConfigTrouble string                                      `json:"configTrouble,omitempty"`
	// Watch is the start time of the current watch. AllListed: it has listed all nodes.
	Watch     time.Time `json:"watch"`
	AllListed bool      `json:"allListed,omitempty"`
	// Responses counts the responses.
	Responses int64 `json:"responses,omitempty"`

	// byOwner has the requesters; nil: not yet.
	byOwner map[SlotOwner]*Requester
	// changes since the last call of TakeChanges.
	changes []SlotChange
	// decided is the last decision, and waiting the number of owners with requests that it lets wait. spent: it left no free slot, and none can have become
	// free since.
	decided Decision
	waiting int
	spent   bool
}

// Requester is an owner with its requests and slots.
type Requester struct {
	Owner SlotOwner `json:"owner"`
	// Version is that of the last SlotRequests.
	Version int64       `json:"version"`
	Slots   []SlotEntry `json:"slots"`
	// Closed: the workflow of the owner is closed and gets no response.
	Closed bool `json:"closed,omitempty"`
	// Checked: its workflow was checked in the current round, which has every owner once.
	Checked bool `json:"checked,omitempty"`
	// Sent is the last response, and SentAt its time. ChangedAt is when the reason to wait changed. RetryAt is the earliest time of the next response if
	// the last one was lost.
	Sent      SentResponse `json:"sent,omitzero"`
	SentAt    time.Time    `json:"sentAt,omitzero"`
	ChangedAt time.Time    `json:"changedAt,omitzero"`
	RetryAt   time.Time    `json:"retryAt,omitzero"`

	// unreached: the last response did not arrive, so its workflow may be closed.
	unreached bool
	// wait has the waiting requests.
	wait ownerWait
}

// SentResponse is what remains of a response for the comparison with later ones. A scheduler has one for each of thousands of owners.
type SentResponse struct {
	Number    int64   `json:"number,omitempty"`
	Granted   []int64 `json:"granted,omitempty"`
	NodesGone []int64 `json:"nodesGone,omitempty"`
	// Reason and Message are those of the wait.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
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
	// slotNew: the entry is being added.
	slotNew SlotStatus = ""
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
	return !slices.ContainsFunc(s.Requesters, func(r *Requester) bool { return r.active() })
}

// SlotChange is a change of the status of a request or slot.
type SlotChange struct {
	Owner           SlotOwner
	Node, Requestor string
	// From is empty for a new entry.
	From, To SlotStatus
}

// TakeChanges returns the changes since the last call, in order.
func (s *SlotState) TakeChanges() []SlotChange {
	changes := s.changes
	s.changes = nil
	return changes
}

// change changes the status of an entry.
func (s *SlotState) change(r *Requester, e *SlotEntry, to SlotStatus) {
	if e.Status != to {
		s.spent = s.spent && !e.counts()
		s.changes = append(s.changes, SlotChange{Owner: r.Owner, Node: e.Node, Requestor: e.Requestor, From: e.Status, To: to})
		e.Status = to
	}
}

// Urgency is how soon a decision is due after a message.
type Urgency int

const (
	// NotDue: the message repeats an earlier one.
	NotDue Urgency = iota
	// DueLater: the next decision has the same grants, but more requests wait.
	DueLater
	// DueNow: the next decision may have other grants, or owners to answer.
	DueNow
)

// Receive applies the latest set of an owner.
func (s *SlotState) Receive(set SlotRequests, now time.Time) Urgency {
	r, before := s.requester(set.Owner), len(s.changes)
	if set.Version < r.Version || r.Closed {
		return NotDue
	}
	r.Version = set.Version
	r.Sent.Granted, r.Sent.NodesGone = nil, nil
	for i := range r.Slots {
		if e := &r.Slots[i]; !slices.ContainsFunc(set.Slots, func(slot Slot) bool { return slot.Number == e.Number }) {
			s.release(r, e, set.releaseOf(e.Number), now)
		}
	}
	for _, slot := range set.Slots {
		s.addListed(r, set, slot)
	}
	if r.prune() {
		s.drop(r)
	}
	return s.urgency(r, s.changes[before:])
}

// urgency returns how soon a decision is due after changes of a requester. As long as no slot is free, further requests get none.
func (s *SlotState) urgency(r *Requester, changes []SlotChange) Urgency {
	switch {
	case r.hasNews():
	case len(changes) == 0:
		return NotDue
	case s.spent && !slices.ContainsFunc(changes, func(c SlotChange) bool { return c.To != SlotWaiting }):
		return DueLater
	}
	return DueNow
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
func (s *SlotState) addListed(r *Requester, set SlotRequests, slot Slot) {
	e := r.entry(slot.Number)
	if e == nil {
		r.Slots = append(r.Slots, SlotEntry{
			Request: Request{Namespace: set.Namespace, Name: slot.Name, Node: slot.Node, Requestor: set.Requestor},
			Number:  slot.Number, Maintenance: set.Maintenances + slot.Name, Since: slot.Since,
		})
		e = &r.Slots[len(r.Slots)-1]
	}
	if slot.Granted {
		r.Sent.Granted = append(r.Sent.Granted, slot.Number)
	}
	switch {
	case slot.Granted && (e.Status == slotNew || e.Status == SlotWaiting || e.Status == SlotNodeGone):
		s.change(r, e, SlotGranted)
	case e.Status == slotNew:
		s.change(r, e, SlotWaiting)
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
		s.release(r, e, Release{LeftOut: returned.LeftOut}, now)
		e.Unlisted = unlisted
	}
}

// release frees the slot of an entry, or withdraws its request.
func (s *SlotState) release(r *Requester, e *SlotEntry, release Release, now time.Time) {
	e.Unlisted = true
	switch {
	case !e.counts() && e.Status != SlotReturned:
		s.change(r, e, SlotOver)
	case e.Status != SlotGranted: // released before
	case release.Unclean:
		s.change(r, e, SlotEnding)
		e.Until = now.Add(UncleanPause)
	default:
		s.change(r, e, SlotReturned)
		e.Until = now.Add(markIgnoredFor)
		if node := s.node(e.Node); node != nil && release.LeftOut {
			node.Unavailable = true
		}
	}
}

func (s *SlotState) requester(owner SlotOwner) *Requester {
	known := s.known(owner)
	if known == nil {
		known = &Requester{Owner: owner}
		s.byOwner[owner] = known
		s.Requesters = append(s.Requesters, known)
	}
	return known
}

// known returns the requester of an owner; nil: the owner has no entries.
func (s *SlotState) known(owner SlotOwner) *Requester {
	if s.byOwner == nil {
		s.byOwner = make(map[SlotOwner]*Requester, len(s.Requesters))
		for _, r := range s.Requesters {
			s.byOwner[r.Owner] = r
		}
	}
	return s.byOwner[owner]
}

func (r *Requester) entry(number int64) *SlotEntry {
	if i := slices.IndexFunc(r.Slots, func(e SlotEntry) bool { return e.Number == number }); i >= 0 {
		return &r.Slots[i]
	}
	return nil
}

func (r *Requester) active() bool {
	return slices.ContainsFunc(r.Slots, func(e SlotEntry) bool { return e.active() })
}

// prune removes ended entries, and owners that have only ended ones.
func (s *SlotState) prune() {
	s.Requesters = slices.DeleteFunc(s.Requesters, func(r *Requester) bool {
		over := r.prune()
		if over {
			delete(s.byOwner, r.Owner)
		}
		return over
	})
}

// prune removes ended entries, and reports whether the owner has only ended ones.
func (r *Requester) prune() (over bool) {
	r.Slots = slices.DeleteFunc(r.Slots, func(e SlotEntry) bool { return e.Status == SlotOver && e.Unlisted })
	return !slices.ContainsFunc(r.Slots, func(e SlotEntry) bool { return e.Status != SlotOver })
}

// drop removes a requester.
func (s *SlotState) drop(r *Requester) {
	delete(s.byOwner, r.Owner)
	s.Requesters = slices.DeleteFunc(s.Requesters, func(known *Requester) bool { return known == r })
}

// NodesGone ends the requests for nodes that do not exist, unless the watch has listed the node since.
func (s *SlotState) NodesGone(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	gone := map[string]bool{}
	for _, node := range nodes {
		gone[node] = s.node(node) == nil
	}
	for _, r := range s.Requesters {
		for i := range r.Slots {
			if e := &r.Slots[i]; e.Status == SlotWaiting && gone[e.Node] {
				s.change(r, e, SlotNodeGone)
			}
		}
	}
}
