package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// NodeState is where the maintenance of a node stands.
type NodeState string

// The states of a node maintenance, in the order they happen.
const (
	NodePending              NodeState = "Pending"
	NodeScheduled            NodeState = "Scheduled"
	NodeCordon               NodeState = "Cordon"
	NodeWaitForPodCompletion NodeState = "WaitForPodCompletion"
	NodeDraining             NodeState = "Draining"
	NodeReady                NodeState = "Ready"
	NodeRequestorFailed      NodeState = "RequestorFailed"
	NodeHealthChecks         NodeState = "HealthChecks"
	NodeCleaningUp           NodeState = "CleaningUp"
	NodeCompleted            NodeState = "Completed"
	NodeFailed               NodeState = "Failed"
	NodeCancelled            NodeState = "Cancelled"
	NodeGone                 NodeState = "NodeGone"
)

// NodeStates are all states, in the order they happen.
func NodeStates() []NodeState {
	return []NodeState{
		NodePending, NodeScheduled, NodeCordon, NodeWaitForPodCompletion, NodeDraining, NodeReady, NodeRequestorFailed, NodeHealthChecks, NodeCleaningUp,
		NodeCompleted, NodeFailed, NodeCancelled, NodeGone,
	}
}

// Over reports whether the maintenance has ended.
func (s NodeState) Over() bool {
	switch s {
	case NodeCompleted, NodeFailed, NodeCancelled, NodeGone:
		return true
	}
	return false
}

// Condition types of a NodeMaintenance. The reason of Ready is the state while it is not True.
const (
	ConditionReady           = "Ready"
	ConditionRequestorFailed = "RequestorFailed"
)

// The published annotations and Events of a NodeMaintenance.
const (
	// AnnotationReadyTime is when the node became ready for the requestors, in RFC 3339.
	AnnotationReadyTime = "maintenance.nvidia.com/ready-time"
	// AnnotationKeepStale: the value "true" keeps a request that has been ready for longer than maxNodeMaintenanceTimeSeconds.
	AnnotationKeepStale = "maintenance.nvidia.com/garbage-collector.ignore"
	// AnnotationFormerlyUnschedulable: before the original operator cordoned the node, it was "true": unschedulable, or "false": schedulable.
	AnnotationFormerlyUnschedulable = "maintenance.nvidia.com/node-initial-state.unschedulable"
	// EventConditionChanged is the reason of the Events on a NodeMaintenance. Their message is the new state.
	EventConditionChanged = "ConditionChanged"
)

// The stages of a node maintenance, in the order they happen.
const (
	StageNodeMaintenanceRequested  drydockv1.Stage = "NodeMaintenanceRequested"
	StageNodeWorkloadLocksInactive drydockv1.Stage = "NodeWorkloadLocksInactive"
	StageKubernetesDrained         drydockv1.Stage = "KubernetesDrained"
	StageWorkDone                  drydockv1.Stage = "WorkDone"
	StageKubernetesUncordoned      drydockv1.Stage = "KubernetesUncordoned"
	StageNodeMaintenanceRemoved    drydockv1.Stage = "NodeMaintenanceRemoved"
)

// StateTime is when a state was entered.
type StateTime struct {
	State NodeState   `json:"state"`
	At    metav1.Time `json:"at"`
}

// NodeMaintenanceStatus is what is known of a maintenance.
type NodeMaintenanceStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// WaitForCompletion names the pods that are waited for, as namespace/name.
	// +optional
	WaitForCompletion []string `json:"waitForCompletion,omitempty"`
	// Drain is its progress.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`

	// State is where the maintenance stands (addition).
	// +optional
	State NodeState `json:"state,omitempty"`
	// Wait is the one reason why it waits (addition).
	// +optional
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Held is the emergency stop that holds the node's cluster: running steps finish, no further disruptive step starts (addition).
	// +optional
	Held *drydockv1.Hold `json:"held,omitempty"`
	// States with the time each was entered (addition).
	// +optional
	States []StateTime `json:"states,omitempty"`
	// Stages with their times (addition).
	// +optional
	Stages []drydockv1.StageRecord `json:"stages,omitempty"`
	// CordonedByUs: the node was schedulable before, and is made so again afterwards (addition).
	// +optional
	CordonedByUs bool `json:"cordonedByUs,omitempty"`
	// ReadyForRequestors means that the node is ready for its requestors, which may send done, fail and recover. It is false while a Job runs there, although the state is Ready
	// (addition).
	// +optional
	ReadyForRequestors bool `json:"readyForRequestors,omitempty"`
	// Requestors of the node where there are several: the one that asked, then the additional ones (addition).
	// +optional
	Requestors []RequestorStatus `json:"requestors,omitempty"`
	// LeftCordoned means that the maintenance has ended and the node is still cordoned; the notes say why (addition).
	// +optional
	LeftCordoned bool `json:"leftCordoned,omitempty"`
	// NotReturned means that the maintenance has ended and could not return the node: its marks may stay until the sweeper removes them; the notes say why
	// (addition).
	// +optional
	NotReturned bool `json:"notReturned,omitempty"`
	// LockProgress is how far the maintenance of the cluster had come with the nodes of each application that holds locks there, when this node was asked for,
	// taken out of service or returned (addition).
	// +optional
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
	// LockTimeLeft is the remainder of lockTimeoutSeconds for the requested workload locks, while the maintenance waits for a slot again
	// (addition).
	// +optional
	LockTimeLeft *LockTimeLeft `json:"lockTimeLeft,omitempty"`
	// Notes are things a person should know, in the order they happened, e.g. a lock that turned active during the drain (addition).
	// +optional
	Notes []string `json:"notes,omitempty"`
	// Failure says why it failed (addition).
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// LockTimeLeft is how long workload locks may still hold when they are requested again. They are not requested while the node waits for a slot.
type LockTimeLeft struct {
	// NodeSeconds are those of the node's locks; absent: all.
	// +optional
	NodeSeconds *int32 `json:"nodeSeconds,omitempty"`
	// ClusterSeconds are those of the cluster's locks; absent: all.
	// +optional
	ClusterSeconds *int32 `json:"clusterSeconds,omitempty"`
}

// RequestorState is where one requestor of a node stands.
type RequestorState string

// The states of a requestor.
const (
	// RequestorActive: it needs the node, or waits until that is ready.
	RequestorActive RequestorState = "Active"
	// RequestorFailed: its work has failed, and the node is held for it.
	RequestorFailed RequestorState = "Failed"
	RequestorDone   RequestorState = "Done"
	// RequestorLeft: it needs the node no longer, and is not done: it was cancelled, say.
	RequestorLeft RequestorState = "Left"
)

// NeedsNode reports whether the node must not be returned yet.
func (s RequestorState) NeedsNode() bool { return s == RequestorActive || s == RequestorFailed }

// RequestorStatus is one of several requestors of a node.
type RequestorStatus struct {
	RequestorID string         `json:"requestorID"`
	State       RequestorState `json:"state"`
	// Message is the actor and the reason.
	// +optional
	Message string `json:"message,omitempty"`
}

// Failure is a typed error that ended a maintenance.
type Failure struct {
	// Reason is the error's type, e.g. DrainTimedOut.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// +optional
	Blockers []drydockv1.Blocker `json:"blockers,omitempty"`
}

// DrainStatus is the progress of a drain.
type DrainStatus struct {
	// TotalPods on the node when the drain began.
	TotalPods int64 `json:"totalPods"`
	// CurrentPods on the node now.
	CurrentPods int64 `json:"currentPods"`
	// DrainProgress in percent of the pods to evict.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	DrainProgress int32 `json:"drainProgress"`
	// WaitForEviction names the pods that have not left, as namespace/name (the first 20).
	// +optional
	WaitForEviction []string `json:"waitForEviction,omitempty"`

	// EvictionPods is the number of pods to evict when the drain began.
	// +kubebuilder:validation:Minimum=0
	EvictionPods int32 `json:"evictionPods"`
	// Evicted pods: those that have left (addition).
	// +optional
	Evicted int32 `json:"evicted,omitempty"`
	// Blocked pods, each with what blocks it (addition; the first 20).
	// +optional
	Blocked []drydockv1.Blocker `json:"blocked,omitempty"`
	// Attempt counts from 1; another follows a timeout with onDrainTimeout Retry (addition).
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
}
