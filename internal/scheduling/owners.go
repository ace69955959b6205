package scheduling

import (
	"slices"
	"time"
)

// Holder is an owner with the maintenances that use its slots.
type Holder struct {
	SlotOwner
	Maintenances []string `json:"maintenances,omitempty"`
}

// Holders returns all owners that request or have slots.
func (s *SlotState) Holders() (holders []Holder) {
	for _, r := range s.Requesters {
		if r.active() {
			holders = append(holders, r.holder())
		}
	}
	return holders
}

func (r *Requester) holder() Holder {
	holder := Holder{SlotOwner: r.Owner}
	for i := range r.Slots {
		if e := &r.Slots[i]; e.Status == SlotGranted {
			holder.Maintenances = append(holder.Maintenances, e.Maintenance)
		}
	}
	return holder
}

// HoldersToCheck returns the owners whose workflows may be closed without a release: those that a response did not reach, those with slots, and up to limit
// of the others. Each of the others is due once in a round: the request of a closed one does not disrupt the cluster.
func (s *SlotState) HoldersToCheck(limit int) (holders []Holder) {
	others, left := 0, false
	for _, r := range s.Requesters {
		holder := r.holder()
		switch {
		case !r.active() || r.Closed && len(holder.Maintenances) == 0:
			continue
		case r.unreached || len(holder.Maintenances) > 0:
		case r.Checked:
			continue
		case others == limit:
			left = true
			continue
		default:
			others++
		}
		r.Checked, r.unreached = true, false
		holders = append(holders, holder)
	}
	if !left {
		for _, r := range s.Requesters {
			r.Checked = false
		}
	}
	return holders
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
			s.release(r, e, Release{}, now)
		case !slices.Contains(closed.Maintenances, e.Maintenance):
			s.release(r, e, Release{Unclean: true}, now)
			nodes = append(nodes, e.Node)
		}
		e.Unlisted = true
	}
	if r.prune() {
		s.drop(r)
	}
	return nodes
}
