// Package locks decides about workload locks on both sides: whether a cluster or a node may be disrupted (Gate), and the desired state of the locks
// that Drydock manages for an application (Decide). It is pure.
package locks

import (
	"cmp"
	"fmt"
	"slices"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// The kinds of lock.
const (
	ClusterLockKind = "ClusterWorkloadLock"
	NodeLockKind    = "NodeWorkloadLock"
)

// Gate reports whether a cluster or a node may be disrupted, and if not, which locks hold it.
type Gate struct {
	// Open: every lock is inactive. Without locks the gate is open, because a deleted lock is released.
	Open bool `json:"open"`
	// Holders are the locks that are not inactive, by controller and name.
	Holders []Holder `json:"holders"`
}

// Holder is a lock that is held.
type Holder struct {
	// Controller is the application that holds it.
	Controller string `json:"controller"`
	// State as observed; any state but "inactive", or none, holds.
	State lcmv1.LockState `json:"state"`
	// Message is the errorMessage of the lock.
	Message string `json:"message"`
	// Release that the application reports, if another one is requested. Such a lock holds in every state.
	Release string `json:"release,omitempty"`

	kind, name, requested string
}

// ClusterGate evaluates the locks of a cluster, for a maintenance that installs this release; "": none.
func ClusterGate(locks []lcmv1.ClusterWorkloadLock, release string) Gate {
	gate := Gate{Holders: []Holder{}}
	for _, lock := range locks {
		gate.add(ClusterLockKind, lock.Name, lock.Spec.ControllerName, lock.Status, release)
	}
	return gate.evaluated()
}

// NodeGate evaluates all the locks that name the node, for a maintenance that installs this release; "": none.
func NodeGate(locks []lcmv1.NodeWorkloadLock, node, release string) Gate {
	gate := Gate{Holders: []Holder{}}
	for _, lock := range locks {
		if lock.Spec.NodeName == node {
			gate.add(NodeLockKind, lock.Name, lock.Spec.ControllerName, lock.Status, release)
		}
	}
	return gate.evaluated()
}

// add adds the lock to the holders unless it is inactive for this release. An unknown state holds. A lock without a release is released for all.
func (g *Gate) add(kind, name, controller string, status lcmv1.WorkloadLockStatus, release string) {
	holder := Holder{Controller: controller, State: status.State, Message: status.ErrorMessage, kind: kind, name: name}
	if release != "" && status.Release != "" && status.Release != release {
		holder.Release, holder.requested = status.Release, release
	}
	if status.State == lcmv1.LockInactive && holder.Release == "" {
		return
	}
	g.Holders = append(g.Holders, holder)
}

func (g *Gate) evaluated() Gate {
	slices.SortFunc(g.Holders, byController)
	g.Open = len(g.Holders) == 0
	return *g
}

func byController(a, b Holder) int {
	return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.name, b.name))
}

// NotActive returns the locks of a node that are not active. After a maintenance each application must hold its lock again.
func NotActive(locks []lcmv1.NodeWorkloadLock, node string) []Holder {
	var missing []Holder
	for _, lock := range locks {
		if lock.Spec.NodeName == node && lock.Status.State != lcmv1.LockActive {
			missing = append(missing, Holder{
				Controller: lock.Spec.ControllerName, State: lock.Status.State, Message: lock.Status.ErrorMessage, kind: NodeLockKind, name: lock.Name,
			})
		}
	}
	slices.SortFunc(missing, byController)
	return missing
}

// Failed returns the holders in state failed: a person must act.
func (g Gate) Failed() []Holder {
	return slices.DeleteFunc(slices.Clone(g.Holders), func(h Holder) bool { return h.State != lcmv1.LockFailed })
}

// Blockers returns the locks for a status.
func Blockers(holders []Holder) []drydockv1.Blocker {
	var blockers []drydockv1.Blocker
	for _, holder := range holders {
		blockers = append(blockers, holder.Blocker())
	}
	return blockers
}

// Blockers returns the holders for a status.
func (g Gate) Blockers() []drydockv1.Blocker { return Blockers(g.Holders) }

// Reasons of a Blocker that is a lock.
const (
	ReasonLockHeld     = "LockHeld"
	ReasonLockFailed   = "LockFailed"
	ReasonLockUnknown  = "LockStateUnknown"
	ReasonLockInactive = "LockInactive"
	// ReasonLockOfAnotherRelease: the lock is inactive, but not for the requested release.
	ReasonLockOfAnotherRelease = "LockOfAnotherRelease"
)

// Blocker returns the lock with its application and the application's message.
func (h Holder) Blocker() drydockv1.Blocker {
	blocker := drydockv1.Blocker{Kind: h.kind, Name: h.name, Reason: ReasonLockHeld}
	switch h.State {
	case lcmv1.LockActive:
		blocker.Message = fmt.Sprintf("%s holds it", h.Controller)
	case lcmv1.LockInactive:
		blocker.Reason = ReasonLockInactive
		blocker.Message = fmt.Sprintf("%s has released it", h.Controller)
	case lcmv1.LockFailed:
		blocker.Reason = ReasonLockFailed
		blocker.Message = fmt.Sprintf("%s has failed", h.Controller)
	case "":
		blocker.Reason = ReasonLockUnknown
		blocker.Message = fmt.Sprintf("%s has not set a state", h.Controller)
	default:
		blocker.Reason = ReasonLockUnknown
		blocker.Message = fmt.Sprintf("%s set state %q; only \"inactive\" releases the lock", h.Controller, h.State)
	}
	if h.Release != "" {
		blocker.Message += fmt.Sprintf("; its release is %s, and %s is requested", h.Release, h.requested)
		if h.State == lcmv1.LockInactive {
			blocker.Reason = ReasonLockOfAnotherRelease
		}
	}
	if h.Message != "" {
		blocker.Message += ": " + h.Message
	}
	return blocker
}
