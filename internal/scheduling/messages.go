package scheduling

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Asker is the workflow that asks for slots and is told of grants: a workflow from its first run on, so that one that is started anew
// under the same id is another.
type Asker struct {
	WorkflowID string `json:"workflowId"`
	FirstRunID string `json:"firstRunId"`
}

// Slot is a request as its asker knows it.
type Slot struct {
	Request
	// Maintenance is the id of the workflow that works on the node; it may run on when the asker is over.
	Maintenance string `json:"maintenance"`
	// Number counts the requests of an asker. A node that is asked for again has a higher one, by which an earlier grant is told from a later.
	Number int64 `json:"number"`
	// Since is when it was asked for first: the older goes first.
	Since time.Time `json:"since"`
	// Granted: it has the slot.
	Granted bool `json:"granted,omitempty"`
}

// Release gives a slot back, or takes a request back that waits for one.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Number of the request; earlier ones are released with it.
	Number int64 `json:"number"`
	// Unclean: the maintenance could not return the node, or nobody knows how it left it. The slot is kept until the node's marks have had the time to
	// be seen; from then on these hold the node.
	Unclean bool `json:"unclean,omitempty"`
	// LeftOut: the node was left out of service. It says nothing where the slot was waited for: the node is that of whoever has it.
	LeftOut bool `json:"leftOut,omitempty"`
	// Unheard: whoever works on the node says so, and the asker hears of it later.
	Unheard bool `json:"unheard,omitempty"`
}

// HeldSlot names a slot that an asker has, to the one who works on its node and gives it back.
type HeldSlot struct {
	Asker     Asker  `json:"asker"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Number    int64  `json:"number"`
}

// Return is what the scheduler is told when the slot is given back. LeftOut: the node was left out of service.
func (s HeldSlot) Return(leftOut bool) Call {
	return Call{Asker: s.Asker, Released: []Release{{Namespace: s.Namespace, Name: s.Name, Number: s.Number, LeftOut: leftOut, Unheard: true}}}
}

// Call is what an asker tells the scheduler. To be told twice changes nothing.
type Call struct {
	Asker    Asker     `json:"asker"`
	Slots    []Slot    `json:"slots,omitempty"`
	Released []Release `json:"released,omitempty"`
	// All: it has no other slots, and asks for no others.
	All bool `json:"all,omitempty"`
}

// RollCall is what a scheduler that remembers nothing wants of everybody who may have a slot: a Call with all of them.
type RollCall struct {
	// Scheduler is when it began.
	Scheduler time.Time `json:"scheduler"`
}

// Turn is what the scheduler tells an asker.
type Turn struct {
	Asker Asker `json:"asker"`
	// Scheduler is when the scheduler that says so began. What one has said that was terminated since counts no more.
	Scheduler time.Time `json:"scheduler"`
	// Number counts what a scheduler has said.
	Number  int64   `json:"number"`
	Granted []Grant `json:"granted,omitempty"`
	// Gone are requests for nodes that the cluster does not have: they are over.
	Gone []Grant `json:"gone,omitempty"`
	// Wait is why the first of the asker's other requests waits; nil when none does.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Holder asked for the node of that request before, and has it; nil: that is not what it waits for, or whoever has the node has no slot.
	Holder *Asker `json:"holder,omitempty"`
	// Held are nodes that the asker waits for on behalf of others, and the maintenances that have them: those could be joined.
	Held []HeldNode `json:"held,omitempty"`
}

// HeldNode is a node and the maintenance that has it. Number is that of its slot: one that gave the node back and has it anew has another.
type HeldNode struct {
	Node   string `json:"node"`
	Holder Asker  `json:"holder"`
	Number int64  `json:"number,omitempty"`
}

// Grant names a request to its asker: one that has a slot now, unless it is said otherwise.
type Grant struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Number    int64  `json:"number"`
}

// Sight is what is seen of a cluster: all of it, or what has changed since the sight before.
type Sight struct {
	// From is when whoever sees it began to watch. A later watch begins with a whole sight and replaces the earlier.
	From time.Time `json:"from"`
	// First and Last part of a whole sight; a change has neither. Until the last part nothing is decided.
	First bool `json:"first,omitempty"`
	Last  bool `json:"last,omitempty"`
	// Nodes that are new or have changed, and those that are gone.
	Nodes []SeenNode `json:"nodes,omitempty"`
	Gone  []string   `json:"gone,omitempty"`
	// Config, when it has changed. ConfigTrouble is why it cannot be read: nothing is granted then.
	Config        *maintenancev1.MaintenanceOperatorConfigSpec `json:"config,omitempty"`
	ConfigTrouble string                                       `json:"configTrouble,omitempty"`
}

// SeenNode is a node and the maintenance whose mark it bears.
type SeenNode struct {
	Node
	// Maintenance is the workflow id in the node's ownership mark; empty without one. A cordon that is its own does not count as the node's being
	// unavailable: the maintenance does.
	Maintenance string `json:"maintenance,omitempty"`
}
