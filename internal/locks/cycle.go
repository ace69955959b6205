package locks

import (
	"slices"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Cycle returns the requests of the deadlock that a node is in, the oldest first; none when it is in none.
//
// Applications that let go of few nodes at a time may have let go of different ones: then the request for one node has the lock of the first and
// waits for the second, and the request for another node has that and waits for the first. How many nodes an application lets go of its locks
// do not say. So one that holds a node, and has let go only of nodes that cannot be maintained either, is taken to wait for one of those; one that
// is about to let go of another looks the same for a moment.
func Cycle(node string, locks []lcmv1.NodeWorkloadLock, requests []lcmv1.NodeMaintenanceRequest) []lcmv1.NodeMaintenanceRequest {
	if !hasLetGo(node, locks) {
		return nil // nobody waits for it
	}
	waits := deadlocked(waitsOf(locks, requests))
	reached := waits.from(node)
	var cycle []lcmv1.NodeMaintenanceRequest
	for i := range requests {
		if n := requests[i].Spec.NodeName; reached[n] && waits.from(n)[node] {
			cycle = append(cycle, requests[i])
		}
	}
	slices.SortFunc(cycle, func(a, b lcmv1.NodeMaintenanceRequest) int {
		return byAge(requestOf(a.ObjectMeta), requestOf(b.ObjectMeta))
	})
	return cycle
}

// GivesWay returns the request that has to be withdrawn for a cycle to end, of those that may be: the youngest. A node that others want, too, is not let
// go of by that. nil: there is none.
func GivesWay(cycle []lcmv1.NodeMaintenanceRequest, mayBeWithdrawn func(*lcmv1.NodeMaintenanceRequest) bool) *lcmv1.NodeMaintenanceRequest {
	wanted := map[string]int{}
	for i := range cycle {
		wanted[cycle[i].Spec.NodeName]++
	}
	for i := len(cycle) - 1; i >= 0; i-- {
		if wanted[cycle[i].Spec.NodeName] == 1 && mayBeWithdrawn(&cycle[i]) {
			return &cycle[i]
		}
	}
	return nil
}

// hasLetGo reports whether a lock of the node is inactive.
func hasLetGo(node string, locks []lcmv1.NodeWorkloadLock) bool {
	return slices.ContainsFunc(locks, func(l lcmv1.NodeWorkloadLock) bool {
		return l.Spec.NodeName == node && l.Status.State == lcmv1.LockInactive
	})
}

// waits are nodes that are asked for and held, and for each lock that holds one the other nodes that its application has let go of.
type waits map[string][][]string

func waitsOf(locks []lcmv1.NodeWorkloadLock, requests []lcmv1.NodeMaintenanceRequest) waits {
	letGo := map[string][]string{}
	for _, lock := range locks {
		if lock.Status.State == lcmv1.LockInactive {
			letGo[lock.Spec.ControllerName] = append(letGo[lock.Spec.ControllerName], lock.Spec.NodeName)
		}
	}
	asked := map[string]bool{}
	for i := range requests {
		asked[requests[i].Spec.NodeName] = true
	}
	w := waits{}
	for _, lock := range locks {
		node := lock.Spec.NodeName
		if lock.Status.State == lcmv1.LockInactive || !asked[node] {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(letGo[lock.Spec.ControllerName]), func(other string) bool { return other == node })
		w[node] = append(w[node], others)
	}
	return w
}

// deadlocked leaves the nodes that no application will let go of unless a request is withdrawn.
func deadlocked(w waits) waits {
	for again := true; again; {
		again = false
		for node, locks := range w {
			if !slices.ContainsFunc(locks, w.blocks) {
				delete(w, node)
				again = true
			}
		}
	}
	return w
}

// blocks reports whether a lock is held for as long as the nodes wait for which its application has let go. One that has let go of none holds for
// reasons of its own, and one of a node that is maintained, or comes back from that, will have it again.
func (w waits) blocks(others []string) bool {
	return len(others) > 0 && !slices.ContainsFunc(others, func(other string) bool { return w[other] == nil })
}

// from returns the nodes that a node waits for, and those that they wait for, and so on.
func (w waits) from(node string) map[string]bool {
	reached := map[string]bool{}
	var follow func(string)
	follow = func(node string) {
		for _, others := range w[node] {
			if !w.blocks(others) {
				continue
			}
			for _, other := range others {
				if !reached[other] {
					reached[other] = true
					follow(other)
				}
			}
		}
	}
	follow(node)
	return reached
}
