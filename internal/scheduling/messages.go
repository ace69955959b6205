package scheduling

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// SlotOwner is the workflow that requests slots and holds them. FirstRunID tells it from an earlier workflow with the same id.
type SlotOwner struct {
	WorkflowID string `json:"workflowId"`
	FirstRunID string `json:"firstRunId"`
}

// SlotRequests is everything that an owner wants from the scheduler of a cluster. It is always the whole set, never a change. The set with the
// highest version counts, so a set may arrive twice, late, or never.
type SlotRequests struct {
	Owner   SlotOwner `json:"owner"`
	Version int64     `json:"version"`
	// Namespace and Requestor are the same for all requests of an owner. Maintenances is the workflow id of a node's maintenance without the name
	// of its request. They appear once: a set of 300 nodes has to stay small.
	Namespace    string `json:"namespace,omitempty"`
	Requestor    string `json:"requestor,omitempty"`
	Maintenances string `json:"maintenances,omitempty"`
	// Slots are the requests that wait and the slots that the owner has. A slot that is not listed is released.
	Slots []Slot `json:"slots,omitempty"`
	// Releases say more about released slots. A slot without one was released after its node had returned to service.
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
	// Granted: the owner knows that it has the slot.
	Granted bool `json:"granted,omitempty"`
}

// Release says how the node of a released slot was left.
type Release struct {
	Number int64 `json:"number"`
	// Unclean: the node was not returned, or its state is unknown. The slot is kept until the scheduler has seen the marks on the node. From then on
	// the marks count.
	Unclean bool `json:"unclean,omitempty"`
	// LeftOut: the node was left out of service.
	LeftOut bool `json:"leftOut,omitempty"`
}

// HeldSlot names a slot to the maintenance that works on its node on behalf of the owner.
type HeldSlot struct {
	Owner  SlotOwner `json:"owner"`
	Number int64     `json:"number"`
}

// Return is the message that returns the slot. leftOut: the node was left out of service.
func (s HeldSlot) Return(leftOut bool) SlotReturn { return SlotReturn{HeldSlot: s, LeftOut: leftOut} }

// SlotReturn tells the scheduler that the maintenance of a node no longer needs the slot. The owner learns that later, so its sets may still list
// the slot for a while.
type SlotReturn struct {
	HeldSlot
	LeftOut bool `json:"leftOut,omitempty"`
}

// Resync is sent by a scheduler that starts without state. Every owner answers with its SlotRequests.
type Resync struct {
	// Scheduler is when the scheduler started.
	Scheduler time.Time `json:"scheduler"`
}

// SlotResponse is the answer of the scheduler to an owner: all grants, never a change.
type SlotResponse struct {
	Owner SlotOwner `json:"owner"`
	// Scheduler is when the scheduler started. Responses of a scheduler that was terminated since do not count.
	Scheduler time.Time `json:"scheduler"`
	// Number counts the responses of a scheduler. The highest counts.
	Number int64 `json:"number"`
	// Version of the SlotRequests that this answers.
	Version int64 `json:"version"`
	// Granted are the numbers of the owner's requests that have a slot.
	Granted []int64 `json:"granted,omitempty"`
	// NodesGone are the numbers of requests for nodes that the cluster does not have.
	NodesGone []int64 `json:"nodesGone,omitempty"`
	// Wait is why the first of the other requests waits; nil when none does.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
}

// NodeUpdate tells the scheduler about the nodes of its cluster: all of them, or those that have changed since the update before.
type NodeUpdate struct {
	// Watch is when the watch began that saw this. A later watch begins with all nodes and replaces the earlier one.
	Watch time.Time `json:"watch"`
	// First and Last part of an update of all nodes; a change is neither. Nothing is granted before the last part.
	First bool `json:"first,omitempty"`
	Last  bool `json:"last,omitempty"`
	// Nodes that are new or have changed; Gone are those that were deleted.
	Nodes []SeenNode `json:"nodes,omitempty"`
	Gone  []string   `json:"gone,omitempty"`
	// Config, when it has changed. ConfigTrouble is why it cannot be read: nothing is granted then.
	Config        *maintenancev1.MaintenanceOperatorConfigSpec `json:"config,omitempty"`
	ConfigTrouble string                                       `json:"configTrouble,omitempty"`
}

// SeenNode is a node with the maintenance whose ownership mark it carries.
type SeenNode struct {
	Node
	// Maintenance is the workflow id in the mark; empty without a mark. A cordon of that maintenance does not make the node unavailable: the
	// maintenance itself counts.
	Maintenance string `json:"maintenance,omitempty"`
}
