package locks

import (
	"slices"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Cycle returns the requests of the deadlock that a node is part of, oldest first; empty: none.
//
// Applications that release few nodes at a time may have released different ones. Then the request for one node has the lock of the first application
// and waits for the second, and the request for another node has the second and waits for the first. Locks do not say how many nodes their
// application may release. So an application that holds a node, and has released only nodes that cannot be maintained either, is taken to wait for
// one of those; an application that is about to release another node looks the same for a moment.
func Cycle(node string, locks []lcmv1.NodeWorkloadLock, requests []lcmv1.NodeMaintenanceRequest) []lcmv1.NodeMaintenanceRequest {
	if !anyReleased(node, locks) {
		return nil // no request waits for it
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

// Victim returns the request to withdraw to end a cycle: the youngest that may be withdrawn. It skips a node with another request, because
// withdrawing one of the two does not release it. nil: there is none.
func Victim(cycle []lcmv1.NodeMaintenanceRequest, mayBeWithdrawn func(*lcmv1.NodeMaintenanceRequest) bool) *lcmv1.NodeMaintenanceRequest {
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

// anyReleased reports whether a lock of the node is inactive.
func anyReleased(node string, locks []lcmv1.NodeWorkloadLock) bool {
	return slices.ContainsFunc(locks, func(l lcmv1.NodeWorkloadLock) bool {
		return l.Spec.NodeName == node && l.Status.State == lcmv1.LockInactive
	})
}

// waits has the nodes that are requested and held, and for each lock that holds one the other nodes that its application has released.
type waits map[string][][]string

func waitsOf(locks []lcmv1.NodeWorkloadLock, requests []lcmv1.NodeMaintenanceRequest) waits {
	released := map[string][]string{}
	for _, lock := range locks {
		if lock.Status.State == lcmv1.LockInactive {
			released[lock.Spec.ControllerName] = append(released[lock.Spec.ControllerName], lock.Spec.NodeName)
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
		others := slices.DeleteFunc(slices.Clone(released[lock.Spec.ControllerName]), func(other string) bool { return other == node })
		w[node] = append(w[node], others)
	}
	return w
}

// deadlocked keeps the nodes that no application will release unless a request is withdrawn.
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

// blocks reports whether a lock is held until nodes return that its application has released. An application that has released none has other reasons
// to hold. A lock of a node that is maintained, or is returning, will be held again.
func (w waits) blocks(others []string) bool {
	return len(others) > 0 && !slices.ContainsFunc(others, func(other string) bool { return w[other] == nil })
}

// from returns the nodes that a node waits for, directly or through others.
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
