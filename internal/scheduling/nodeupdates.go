package scheduling

import (
	"cmp"
	"slices"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// clockTolerance is how far the clocks of Temporal's servers may differ.
const clockTolerance = time.Minute

// Update applies an update of the nodes. It ignores updates of earlier watches, and of a watch that has yet to start: only a stolen worker reports one, and
// the watches of others would never be later.
func (s *SlotState) Update(update NodeUpdate, now time.Time) {
	switch {
	case update.Watch.After(now.Add(clockTolerance)):
		return
	case update.Watch.Before(s.Watch), update.Watch.After(s.Watch) && !update.First:
		return
	case update.First:
		s.Watch, s.AllListed, s.Nodes = update.Watch, false, nil
	}
	s.spent = false
	for _, observed := range update.Nodes {
		if i, known := s.find(observed.Name); known {
			s.Nodes[i] = observed
		} else {
			s.Nodes = slices.Insert(s.Nodes, i, observed)
		}
	}
	for _, name := range update.Gone {
		if i, known := s.find(name); known {
			s.Nodes = slices.Delete(s.Nodes, i, i+1)
		}
	}
	if update.Config != nil || update.ConfigTrouble != "" {
		s.Config, s.ConfigTrouble = *cmp.Or(update.Config, &maintenancev1.MaintenanceOperatorConfigSpec{}), update.ConfigTrouble
	}
	s.AllListed = s.AllListed || update.Last
}

func (s *SlotState) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, name, func(n ObservedNode, name string) int { return cmp.Compare(n.Name, name) })
}

func (s *SlotState) node(name string) *ObservedNode {
	if i, known := s.find(name); known {
		return &s.Nodes[i]
	}
	return nil
}

// ForgetNodes drops the nodes. The next watch lists them again.
func (s *SlotState) ForgetNodes() {
	s.Nodes, s.AllListed, s.Watch, s.spent = nil, false, time.Time{}, false
}
