package nodemaintenance

import (
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/slots"
)

// State is the state of a run, which passes it to the next one. The named state of the maintenance is Status.State, which changes only by the transitions in
// transitions.go.
type State struct {
	// Status is the status for queries, objects and the Web UI.
	Status maintenancev1.NodeMaintenanceStatus `json:"status"`
	Locks  Locks                               `json:"locks,omitzero"`
	Node   Node                                `json:"node,omitzero"`
	// Drain is the input of the drain; nil: it has not started. Every attempt continues with the progress of the earlier ones.
	Drain *drain.Input `json:"drain,omitempty"`
	Job   JobState     `json:"job,omitempty"`
	// Warning is the note about what would block the drain; empty: none.
	Warning string `json:"warning,omitempty"`
	// Requestors of the node. The first one requested the maintenance.
	Requestors []*Requestor `json:"requestors"`
	// Readiness is the observation of the ready node: ready for too long, or uncordoned.
	Readiness node.Readiness `json:"readiness,omitzero"`
	Return    Return         `json:"return,omitzero"`
	// Object is the last request of the NodeMaintenance in the cluster, if it started the maintenance.
	Object ObjectRequest `json:"object,omitzero"`
	// Announced counts the states that were announced as Events on the node.
	Announced int32 `json:"announced,omitempty"`

	// Held, Windows and Slots are the states of the subscriptions to the emergency stop and to windows, and of the slot requests.
	Held    emergency.State      `json:"held,omitzero"`
	Windows gates.CarriedWindows `json:"windows,omitzero"`
	Slots   slots.ClientState    `json:"slots,omitzero"`
	// Publisher is what remains to be written to the object.
	Publisher kit.PublisherState `json:"publisher,omitzero"`
	// Notifier is what the receivers were notified of.
	Notifier kit.NotifierState `json:"notifier,omitzero"`
}

// Fact says whether an effect exists in the cluster. After a lost reply it may exist, and cleanup treats it like one that exists.
type Fact string

// The values of a Fact.
const (
	No    Fact = ""
	Maybe Fact = "Maybe"
	Yes   Fact = "Yes"
)

// Possible reports whether the effect exists, or may exist.
func (f Fact) Possible() bool { return f != No }

// factOf returns the fact after a reply.
func factOf(exists bool) Fact {
	if exists {
		return Yes
	}
	return No
}

// Locks is the known state of the workload locks of the node.
type Locks struct {
	// Request: our NodeMaintenanceRequest exists. RequestUID is its UID, if known.
	Request    Fact      `json:"request,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// Answer is the answer to the last request.
	Answer LockAnswer `json:"answer,omitempty"`
	// Clock measures the time of the requests.
	Clock   lockClock    `json:"clock,omitzero"`
	Cluster ClusterLocks `json:"cluster,omitzero"`
	// Present: the cordoned node has inactive locks. HeldAgain are those that have become active again.
	Present   Fact     `json:"present,omitempty"`
	HeldAgain []string `json:"heldAgain,omitempty"`
}

// ClusterLocks is the known state of the workload locks of the cluster. In a rollout, the parent requests them, and a maintenance does so only if one is
// still active.
type ClusterLocks struct {
	// Request: our ClusterMaintenanceRequest exists. RequestUID is its UID, if known.
	Request    Fact      `json:"request,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// Holding: a lock held the cluster at the last request.
	Holding Fact      `json:"holding,omitempty"`
	Clock   lockClock `json:"clock,omitzero"`
}

// LockAnswer is the answer of a cluster to a lock request.
type LockAnswer string

// The answers of a cluster.
const (
	// LocksUnknown: the request was not answered.
	LocksUnknown LockAnswer = ""
	// LocksNone: the cluster has no workload locks.
	LocksNone LockAnswer = "None"
	// LocksRequested: the locks of the node are requested.
	LocksRequested LockAnswer = "Requested"
	// LocksSkipped: no lock holds the node, and an annotation forbids the request.
	LocksSkipped LockAnswer = "Skipped"
)

// lockAnswerOf returns the answer in the result of an activity.
func lockAnswerOf(found locks.NodeLocks) LockAnswer {
	switch {
	case found.Skipped:
		return LocksSkipped
	case found.Asked:
		return LocksRequested
	}
	return LocksNone
}

// mayHaveReleased reports whether locks of the node may be inactive because of a request, which may exist after a lost reply.
func (l Locks) mayHaveReleased() bool {
	return l.Answer == LocksRequested || l.Request.Possible() && l.Answer == LocksUnknown
}

// Node is the known state of the marks and the cordon of the node.
type Node struct {
	// Marked: the node carries our marks. Cordoned: the node is out of service for this maintenance.
	Marked   Fact `json:"marked,omitempty"`
	Cordoned Fact `json:"cordoned,omitempty"`
	// UID of the cordoned node; empty: it was never cordoned.
	UID types.UID `json:"uid,omitempty"`
}

// JobState is the state of the Job that does the work on the node.
type JobState string

// The states of a Job.
const (
	// JobNone: the node has no Job, or no longer has one.
	JobNone JobState = ""
	// JobStarted: a Job may exist on the node.
	JobStarted JobState = "Started"
	// JobFinished: the Job has succeeded.
	JobFinished JobState = "Finished"
)

// Return is the state of the return of the node to service.
type Return struct {
	// Begun: the return has started, even if requestors still need the node.
	Begun Fact `json:"begun,omitempty"`
	// CancelledBy is the first cancel request that ended the maintenance; nil: none.
	CancelledBy *temporal.SignalRequest `json:"cancelledBy,omitempty"`
	// ParentSlot is the status of the slot of the parent.
	ParentSlot ParentSlot `json:"parentSlot,omitempty"`
}

// ParentSlot is the status of the slot that the maintenance has from its rollout.
type ParentSlot string

// The values of a ParentSlot.
const (
	SlotHeld     ParentSlot = ""
	SlotReturned ParentSlot = "Returned"
	// SlotRequeued: others go first, or the window closed, and the parent requests another slot.
	SlotRequeued ParentSlot = "Requeued"
)

// newState returns the state before the first run of a maintenance.
func newState(in Input) *State {
	s := &State{Held: in.Held}
	if left := in.LockTimeLeft; left != nil {
		s.Locks.Clock, s.Locks.Cluster.Clock, s.Status.LockTimeLeft = lockClockOf(left.NodeSeconds), lockClockOf(left.ClusterSeconds), left
	}
	spec := in.Object.Spec
	if in.Source != nil {
		s.Object = ObjectRequestOf(&in.Object)
		s.Object.UID = in.Source.UID
	}
	for _, id := range append([]string{spec.RequestorID}, spec.AdditionalRequestors...) {
		s.Requestors = append(s.Requestors, &Requestor{RequestorStatus: maintenancev1.RequestorStatus{RequestorID: id, State: maintenancev1.RequestorActive}})
	}
	return s
}
