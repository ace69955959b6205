package locks

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Snapshot has the objects that decide the locks of one application. Objects of other applications are ignored.
type Snapshot struct {
	Nodes           []corev1.Node
	Pods            []corev1.Pod
	ClusterRequests []lcmv1.ClusterMaintenanceRequest
	NodeRequests    []lcmv1.NodeMaintenanceRequest
	// DeletionRequests announce that nodes will be deleted.
	DeletionRequests []lcmv1.NodeDeletionRequest
	// Disabled name nodes that are out of the cluster for a while: their locks stay.
	Disabled     []lcmv1.NodeDisableNotification
	ClusterLocks []lcmv1.ClusterWorkloadLock
	NodeLocks    []lcmv1.NodeWorkloadLock
	// Health has a result for each check of the policy's clusterHealth. A check without a result counts as not healthy.
	Health []CheckResult
}

// Decision is the desired state of the locks of one application.
type Decision struct {
	// Locks are all locks, changed or not: the cluster's first, then those of nodes, sorted by node.
	Locks []LockDecision `json:"locks"`
	// Progress after the decision is applied.
	Progress Progress `json:"progress"`
	// Permits are the nodes that may be inactive after the decision is applied. They are recorded before any lock becomes inactive.
	Permits Permits `json:"-"`
	// RecordPermits: the permits differ from those recorded on the cluster's lock.
	RecordPermits bool `json:"-"`
	// Waiting are the nodes that wait for others, in the order in which their locks are released.
	Waiting []string `json:"-"`
	// RecheckAt is when the decision changes without an event; nil: never.
	RecheckAt *time.Time `json:"-"`
}

// LockDecision is the desired state of one lock, and why.
type LockDecision struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Node is empty for the cluster's lock.
	Node   string `json:"node,omitempty"`
	Action Action `json:"action"`
	// From is the observed state, empty if there is no lock or it has no state; To is the desired state, empty if the lock is to be removed.
	From   lcmv1.LockState `json:"from"`
	To     lcmv1.LockState `json:"to"`
	Reason Reason          `json:"reason"`
	// Message is the lock's desired errorMessage.
	Message string `json:"message,omitempty"`
	// UpdatedFor is the desired annotation drydock.dev/updated-for; empty: unchanged.
	UpdatedFor string `json:"updatedFor,omitempty"`
	// Release is the lock's desired release; empty: none.
	Release string `json:"release,omitempty"`

	// Progress is the lock's desired inactivationProgress.
	Progress lcmv1.InactivationProgress `json:"-"`
	// Gain is by how many percent the reported progress of the cluster's lock increases; negative: it decreases.
	Gain int32 `json:"-"`
	// Forgets: the record of the lock has a request for the cluster that no longer exists. It is replaced: the annotation by UpdatedFor, or the permits.
	Forgets bool `json:"-"`
	// EndsPermit: the node loses its permit, or has it for other requests from now on. Its lock must be written before that is recorded. Then a writer
	// with the old record and the old lock can neither release the node nor withdraw the release from those requests.
	EndsPermit bool `json:"-"`
}

// Action is the write that a lock needs.
type Action string

// The actions.
const (
	Keep   Action = "keep"
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Reason is why a lock has its desired state.
type Reason string

// Reasons of the cluster's lock and of node locks.
const (
	// NoRequest: no maintenance is requested.
	NoRequest Reason = "NoRequest"
	// RequestStands: the lock is released until the request is deleted.
	RequestStands Reason = "RequestStands"
	// RequestGone: the maintenance is over, and the lock is held again.
	RequestGone Reason = "RequestGone"
	// MarkedFailed: a person marked the lock failed, and the condition to leave that state is not met.
	MarkedFailed Reason = "MarkedFailed"
	// OtherRelease: all requests are for another release than that of the application.
	OtherRelease Reason = "OtherRelease"
	// Duplicate: the application has another lock for the same object.
	Duplicate Reason = "Duplicate"
)

// Reasons of the cluster's lock.
const (
	// ClusterHealthy: every check passes, so the lock is released.
	ClusterHealthy Reason = "ClusterHealthy"
	// ClusterNotHealthy: the lock is held until every check passes.
	ClusterNotHealthy Reason = "ClusterNotHealthy"
)

// Reasons of a node's lock.
const (
	// PodReady: the pod is ready, so the lock is released.
	PodReady Reason = "PodReady"
	// DeletionRequested: the node will be deleted, so the lock is released.
	DeletionRequested Reason = "DeletionRequested"
	// NodeDisabled: a NodeDisableNotification keeps the lock of a node that is gone or no longer enabled.
	NodeDisabled Reason = "NodeDisabled"
	// PodNotReady: the lock is held until the application's pod on the node is ready.
	PodNotReady Reason = "PodNotReady"
	// MaxInactiveNodes: the lock is held while the maximum number of other nodes is inactive.
	MaxInactiveNodes Reason = "MaxInactiveNodes"
	// PodNotBack: the maintenance is over, but the application's pod is not ready yet.
	PodNotBack Reason = "PodNotBack"
	// PodDeadlinePassed: the application's pod did not become ready within the deadline, after the maintenance or while the lock was requested.
	PodDeadlinePassed Reason = "PodDeadlinePassed"
	// NodeNotEnabled: the node does not have the role; NodeGone: the node was deleted.
	NodeNotEnabled Reason = "NodeNotEnabled"
	NodeGone       Reason = "NodeGone"
)

// LosesProgress reports whether less progress of a maintenance is known after the change.
func (d LockDecision) LosesProgress() bool { return d.Gain < 0 || d.Forgets }

// Changes are the decisions that need a write, in order.
func (d Decision) Changes() []LockDecision {
	var changes []LockDecision
	for _, lock := range d.Locks {
		if lock.Action != Keep {
			changes = append(changes, lock)
		}
	}
	return changes
}

// Settled reports whether no write is needed.
func (d Decision) Settled() bool { return len(d.Changes()) == 0 && !d.RecordPermits }

// Matches reports whether a lock's status has the desired state, message and progress.
func (d LockDecision) Matches(status lcmv1.WorkloadLockStatus) bool {
	progress := status.InactivationProgress
	return status.State == d.To && status.ErrorMessage == d.Message && status.Release == d.Release && progress != nil && *progress == d.Progress
}

// Releases reports whether a held lock becomes inactive.
func (d LockDecision) Releases() bool {
	return d.To == lcmv1.LockInactive && d.From != lcmv1.LockInactive
}

// HoldsFirst returns the state that a new lock must have before its release, and whether it needs one: it has no state yet, and its node no permit.
// The lock holds the node before the permit is recorded, because a lock without a state whose node has a permit means that a released lock was
// deleted.
func (d LockDecision) HoldsFirst() (LockDecision, bool) {
	if d.From != "" || d.Reason != PodReady && d.Reason != DeletionRequested {
		return d, false
	}
	d.To, d.UpdatedFor, d.Progress = lcmv1.LockActive, "", nodeProgress(lcmv1.LockActive)
	return d, true
}

// Grave reports whether the change is unsafe on stale information: a lock is released or held again, fails, is removed, or loses its permit, or the
// progress of a maintenance is reported or forgotten. Any other change can be corrected later.
func (d LockDecision) Grave() bool {
	flips := func(state lcmv1.LockState) bool { return d.Action == Update && (d.From == state) != (d.To == state) }
	return d.Action == Delete || d.EndsPermit || d.Gain != 0 || d.Forgets || flips(lcmv1.LockInactive) || flips(lcmv1.LockFailed)
}
