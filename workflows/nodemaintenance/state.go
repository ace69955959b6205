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
	"drydock.dev/drydock/workflows/slots"
)

// State is what a run knows of its maintenance. A run that continues as new passes it on whole. The named state of the maintenance is Status.State; it
// changes by the transitions in transitions.go only.
type State struct {
	// Status is what queries, objects and the Web UI show.
	Status maintenancev1.NodeMaintenanceStatus `json:"status"`
	Locks  Locks                               `json:"locks,omitzero"`
	Node   Node                                `json:"node,omitzero"`
	// Drain is the input of the drain; nil: it has not started. Every attempt continues from what was observed of those before.
	Drain *drain.Input `json:"drain,omitempty"`
	Job   JobState     `json:"job,omitempty"`
	// Requestors need the node. The first is the one that requested the maintenance.
	Requestors []*Requestor `json:"requestors"`
	// Readiness is what is observed while the node is ready: Ready for too long, or uncordoned.
	Readiness node.Readiness `json:"readiness,omitzero"`
	Return    Return         `json:"return,omitzero"`
	// Announced counts the states that were announced on the node.
	Announced int32 `json:"announced,omitempty"`

	// Held, Windows and Slots are what the parts of the workflow know that subscribe to the emergency stop and to windows, and that request slots.
	Held    emergency.State      `json:"held,omitzero"`
	Windows gates.CarriedWindows `json:"windows,omitzero"`
	Slots   slots.ClientState    `json:"slots,omitzero"`
}

// Fact is what the workflow knows of an effect in the cluster. An effect whose answer was lost may exist, and is undone like one that does.
type Fact string

// The values of a Fact.
const (
	No    Fact = ""
	Maybe Fact = "Maybe"
	Yes   Fact = "Yes"
)

// Possible reports whether the effect exists, or may exist.
func (f Fact) Possible() bool { return f != No }

// factOf is the fact after an answer.
func factOf(exists bool) Fact {
	if exists {
		return Yes
	}
	return No
}

// Locks is what a maintenance knows of the workload locks that it requests to release the node.
type Locks struct {
	// Request: our NodeMaintenanceRequest exists. RequestUID is its UID, if known.
	Request    Fact      `json:"request,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// Answer is the answer of the cluster to the last request.
	Answer LockAnswer `json:"answer,omitempty"`
	// Clock measures how long the locks of the node have been requested to release it.
	Clock   lockClock    `json:"clock,omitzero"`
	Cluster ClusterLocks `json:"cluster,omitzero"`
	// Present: the cordoned node has locks, which have released it. HeldAgain are those that hold it again since.
	Present   Fact     `json:"present,omitempty"`
	HeldAgain []string `json:"heldAgain,omitempty"`
}

// ClusterLocks is what a maintenance knows of the locks that hold the whole cluster. A rollout requests their release itself, and that of a node only when
// a lock still holds the cluster.
type ClusterLocks struct {
	// Request: our ClusterMaintenanceRequest exists. RequestUID is its UID, if known.
	Request    Fact      `json:"request,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// Holding: a lock held the cluster when its release was requested last.
	Holding Fact      `json:"holding,omitempty"`
	Clock   lockClock `json:"clock,omitzero"`
}

// LockAnswer is the answer of a cluster to a request to its workload locks.
type LockAnswer string

// The answers of a cluster.
const (
	// LocksUnknown: no answer came.
	LocksUnknown LockAnswer = ""
	// LocksNone: the cluster has no workload locks.
	LocksNone LockAnswer = "None"
	// LocksRequested: the locks of the node are requested to release it.
	LocksRequested LockAnswer = "Requested"
	// LocksSkipped: no lock holds the node, and an annotation forbids the request.
	LocksSkipped LockAnswer = "Skipped"
)

// lockAnswerOf is the answer that an activity brought.
func lockAnswerOf(found locks.NodeLocks) LockAnswer {
	switch {
	case found.Skipped:
		return LocksSkipped
	case found.Asked:
		return LocksRequested
	}
	return LocksNone
}

// mayHaveReleased reports whether locks may have released the node: it has some, or a request may exist whose answer was lost.
func (l Locks) mayHaveReleased() bool {
	return l.Answer == LocksRequested || l.Request.Possible() && l.Answer == LocksUnknown
}

// Node is what a maintenance knows of the marks and the cordon on its node.
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
	// JobNone: no Job is on the node, or the one that was has been removed.
	JobNone JobState = ""
	// JobStarted: a Job may exist on the node.
	JobStarted JobState = "Started"
	// JobFinished: the Job has done its work.
	JobFinished JobState = "Finished"
)

// Return is what a maintenance knows of the way back of its node.
type Return struct {
	// Begun: the node is on its way back, even if requestors still need it.
	Begun Fact `json:"begun,omitempty"`
	// CancelledBy is the request of the first requestor that ended the maintenance early; nil: none did.
	CancelledBy *temporal.SignalRequest `json:"cancelledBy,omitempty"`
	// ParentSlot is the status of the slot of the parent.
	ParentSlot ParentSlot `json:"parentSlot,omitempty"`
}

// ParentSlot is the status of the slot that a rollout gave its maintenance.
type ParentSlot string

// The values of a ParentSlot.
const (
	SlotHeld     ParentSlot = ""
	SlotReturned ParentSlot = "Returned"
	// SlotRequeued: others go first, or the window closed, and the parent requests another slot.
	SlotRequeued ParentSlot = "Requeued"
)

// newState is the state before the first run of a maintenance.
func newState(in Input) *State {
	s := &State{Held: in.Held}
	if left := in.LockTimeLeft; left != nil {
		s.Locks.Clock, s.Locks.Cluster.Clock, s.Status.LockTimeLeft = lockClockOf(left.NodeSeconds), lockClockOf(left.ClusterSeconds), left
	}
	spec := in.Object.Spec
	for _, id := range append([]string{spec.RequestorID}, spec.AdditionalRequestors...) {
		s.Requestors = append(s.Requestors, &Requestor{RequestorStatus: maintenancev1.RequestorStatus{RequestorID: id, State: maintenancev1.RequestorAtWork}})
	}
	return s
}
