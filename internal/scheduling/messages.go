package scheduling

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// SlotOwner is a workflow that requests and holds slots. FirstRunID distinguishes it from an earlier workflow with the same id.
type SlotOwner struct {
	WorkflowID string `json:"workflowId"`
	FirstRunID string `json:"firstRunId"`
}

// SlotRequests is the whole set of an owner's requests and slots, never a change. The set with the highest version counts, so a message may arrive twice,
// late, or never.
type SlotRequests struct {
	Owner   SlotOwner `json:"owner"`
	Version int64     `json:"version"`
	// Namespace and Requestor apply to all requests of the set. Maintenances is the prefix of the workflow ids of the maintenances; the name of the
	// request follows. The set has them once, because a set of 300 nodes must stay small.
	Namespace    string `json:"namespace,omitempty"`
	Requestor    string `json:"requestor,omitempty"`
	Maintenances string `json:"maintenances,omitempty"`
	// Slots are the waiting requests and the granted slots. A slot that is missing here is released.
	Slots []Slot `json:"slots,omitempty"`
	// Releases have details of released slots. Without one, the node had returned to service.
	Releases []Release `json:"releases,omitempty"`
}

// Slot is a request for a slot, or the slot once the request is granted.
type Slot struct {
	// Number identifies the request. An owner never uses a number twice.
	Number int64  `json:"number"`
	Name   string `json:"name"`
	Node   string `json:"node"`
	// Since is when the owner first requested it. Older requests go first.
	Since time.Time `json:"since"`
	// Granted: the owner knows of the grant.
	Granted bool `json:"granted,omitempty"`
}

// Release describes the node of a released slot.
type Release struct {
	Number int64 `json:"number"`
	// Unclean: the node was not returned, or its state is unknown. The scheduler keeps the slot until it has the marks on the node. Then the marks
	// count.
	Unclean bool `json:"unclean,omitempty"`
	// LeftOut: the node was left out of service.
	LeftOut bool `json:"leftOut,omitempty"`
}

// HeldSlot identifies the slot of an owner for the maintenance that uses it.
type HeldSlot struct {
	Owner  SlotOwner `json:"owner"`
	Number int64     `json:"number"`
}

// Return returns the message that returns the slot. leftOut: the node was left out of service.
func (s HeldSlot) Return(leftOut bool) SlotReturn { return SlotReturn{HeldSlot: s, LeftOut: leftOut} }

// SlotReturn returns a slot that the maintenance of a node no longer needs. The owner learns that later, so its sets may still list the slot for a
// while.
type SlotReturn struct {
	HeldSlot
	LeftOut bool `json:"leftOut,omitempty"`
}

// Resync is sent by a scheduler that starts without state. Every owner answers with its SlotRequests.
type Resync struct {
	// Scheduler is the start time of the scheduler.
	Scheduler time.Time `json:"scheduler"`
}

// SlotResponse is the answer of the scheduler to an owner: all grants, never a change.
type SlotResponse struct {
	Owner SlotOwner `json:"owner"`
	// Scheduler is the start time of the scheduler. Owners ignore responses of earlier schedulers.
	Scheduler time.Time `json:"scheduler"`
	// Number is the sequence number of the response. The highest counts.
	Number int64 `json:"number"`
	// Version of the SlotRequests that this answers.
	Version int64 `json:"version"`
	// Granted are the numbers of the granted requests.
	Granted []int64 `json:"granted,omitempty"`
	// NodesGone are the numbers of requests for nodes that do not exist.
	NodesGone []int64 `json:"nodesGone,omitempty"`
	// Wait is why the first waiting request waits; nil: none waits.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
}

// NodeUpdate is a part of the list of a cluster's nodes, or their changes since the previous update.
type NodeUpdate struct {
	// Watch is the start time of the watch. A later watch starts with a list of all nodes and replaces the earlier one.
	Watch time.Time `json:"watch"`
	// First and Last mark the first and the last part of a list. Nothing is granted before the last part.
	First bool `json:"first,omitempty"`
	Last  bool `json:"last,omitempty"`
	// Nodes are new or changed nodes. Gone are deleted ones.
	Nodes []ObservedNode `json:"nodes,omitempty"`
	Gone  []string       `json:"gone,omitempty"`
	// Config is set after a change. ConfigTrouble is the error of an invalid configuration, with which nothing is granted.
	Config        *maintenancev1.MaintenanceOperatorConfigSpec `json:"config,omitempty"`
	ConfigTrouble string                                       `json:"configTrouble,omitempty"`
}

// ObservedNode is a node with the maintenance whose ownership mark it carries.
type ObservedNode struct {
	Node
	// Maintenance is the workflow id in the mark; empty without a mark. A cordon of that maintenance does not count as an outage, because the
	// maintenance itself counts.
	Maintenance string `json:"maintenance,omitempty"`
}
