package locks

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Snapshot is what a decision about the locks of one application looks at. What belongs to other applications may be among it and is
// passed over.
type Snapshot struct {
	Nodes           []corev1.Node
	Pods            []corev1.Pod
	ClusterRequests []lcmv1.ClusterMaintenanceRequest
	NodeRequests    []lcmv1.NodeMaintenanceRequest
	ClusterLocks    []lcmv1.ClusterWorkloadLock
	NodeLocks       []lcmv1.NodeWorkloadLock
	// Health has a result for each check of the policy's clusterHealth. A check without one counts as not healthy.
	Health []CheckResult
}

// Decision is what the locks of one application should be.
type Decision struct {
	// Locks are all of them, also those that stay as they are: the cluster's first, then the nodes' by node.
	Locks []LockDecision `json:"locks"`
	// Progress once the decision is carried out.
	Progress Progress `json:"progress"`
	// Turns are the nodes that may be inactive once the decision is carried out. They are recorded before any lock goes inactive.
	Turns Turns `json:"-"`
	// RecordTurns: the turns are not those that are on the cluster's lock.
	RecordTurns bool `json:"-"`
	// NextLook is when time alone will change the decision; nil when only an event can.
	NextLook *time.Time `json:"-"`
}

// LockDecision is what one lock should be, and why.
type LockDecision struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Node is empty for the cluster's lock.
	Node   string `json:"node,omitempty"`
	Action Action `json:"action"`
	// From is the state that was found, empty when there is no lock or it has none; To is the one it should have, empty when the lock
	// is removed.
	From   lcmv1.LockState `json:"from"`
	To     lcmv1.LockState `json:"to"`
	Reason Reason          `json:"reason"`
	// Message is what the lock's errorMessage should be.
	Message string `json:"message,omitempty"`
	// UpdatedFor is what the annotation drydock.dev/updated-for should be; empty: as it is.
	UpdatedFor string `json:"updatedFor,omitempty"`

	// Progress is what the lock's inactivationProgress should be.
	Progress lcmv1.InactivationProgress `json:"-"`
	// ReportsLess: the progress of the cluster's lock goes down.
	ReportsLess bool `json:"-"`
	// EndsTurn: the node loses its turn, or has it for others from now on. Its lock must be written before that is recorded, so that a writer who
	// still believes in the turn as it was and has read the lock before cannot let go of the node any more, or take it from those others.
	EndsTurn bool `json:"-"`
}

// Action is what has to be done with a lock.
type Action string

// The actions.
const (
	Keep   Action = "keep"
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Reason is why a lock is what it should be.
type Reason string

// Reasons of the cluster's lock and of node locks.
const (
	// NoRequest: nobody asks to maintain it.
	NoRequest Reason = "NoRequest"
	// RequestStands: it has let go, and does so until the request is gone.
	RequestStands Reason = "RequestStands"
	// RequestGone: the maintenance is over and it holds again.
	RequestGone Reason = "RequestGone"
	// MarkedFailed: it was marked failed, and what would have to hold to leave that state does not.
	MarkedFailed Reason = "MarkedFailed"
	// Duplicate: the application has another lock for the same.
	Duplicate Reason = "Duplicate"
)

// Reasons of the cluster's lock.
const (
	// ClusterHealthy: it lets go, since every check holds.
	ClusterHealthy Reason = "ClusterHealthy"
	// ClusterNotHealthy: it holds until every check does.
	ClusterNotHealthy Reason = "ClusterNotHealthy"
)

// Reasons of a node's lock.
const (
	// PodReady: it lets go.
	PodReady Reason = "PodReady"
	// PodNotReady: it holds until the application's pod on the node is ready.
	PodNotReady Reason = "PodNotReady"
	// MaxInactiveNodes: it holds while as many others as may be have let go.
	MaxInactiveNodes Reason = "MaxInactiveNodes"
	// PodNotBack: the maintenance is over, but the pod is not ready yet.
	PodNotBack Reason = "PodNotBack"
	// PodDeadlinePassed: the pod has not come back in time, or has not become ready in time while the lock was asked for.
	PodDeadlinePassed Reason = "PodDeadlinePassed"
	// NodeNotEnabled: the node has lost the role; NodeGone: it does not exist.
	NodeNotEnabled Reason = "NodeNotEnabled"
	NodeGone       Reason = "NodeGone"
)

// Changes are the decisions that something has to be done for, in their order.
func (d Decision) Changes() []LockDecision {
	var changes []LockDecision
	for _, lock := range d.Locks {
		if lock.Action != Keep {
			changes = append(changes, lock)
		}
	}
	return changes
}

// Settled reports whether nothing has to be done.
func (d Decision) Settled() bool { return len(d.Changes()) == 0 && !d.RecordTurns }

// Matches reports whether a lock with that status says all that it should.
func (d LockDecision) Matches(status lcmv1.WorkloadLockStatus) bool {
	progress := status.InactivationProgress
	return status.State == d.To && status.ErrorMessage == d.Message && progress != nil && *progress == d.Progress
}

// LetsGo reports whether a lock that is held goes inactive.
func (d LockDecision) LetsGo() bool {
	return d.To == lcmv1.LockInactive && d.From != lcmv1.LockInactive
}

// HoldsFirst returns what a new lock must be before it lets go, and whether it is one: it has no state yet, and its node no turn. It holds the node before the
// turn is recorded: a lock without a state whose node has a turn is one that was deleted when it had let go.
func (d LockDecision) HoldsFirst() (LockDecision, bool) {
	if d.From != "" || d.Reason != PodReady {
		return d, false
	}
	d.To, d.UpdatedFor, d.Progress = lcmv1.LockActive, "", nodeProgress(lcmv1.LockActive)
	return d, true
}

// Grave reports whether the change must not be made on old information: a lock lets go or holds again, fails, is removed, or loses its turn, or what
// was reached is taken back. All others can be put right afterwards without anybody having noticed.
func (d LockDecision) Grave() bool {
	flips := func(state lcmv1.LockState) bool { return d.Action == Update && (d.From == state) != (d.To == state) }
	return d.Action == Delete || d.EndsTurn || d.ReportsLess || flips(lcmv1.LockInactive) || flips(lcmv1.LockFailed)
}
