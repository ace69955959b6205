package activities

import (
	"context"
)

// Nodes takes nodes out of service and returns them.
type Nodes struct{}

// AwaitNodeFree waits until the node exists and is under nobody else's maintenance. It marks the node MaintenancePlanned.
// Errors: NodeGone.
func (n *Nodes) AwaitNodeFree(ctx context.Context, node NodeRef) error { return errNotBuilt }

// CordonInput says which node to cordon.
type CordonInput struct {
	NodeRef
	// Cordon: false only marks the node as ours.
	Cordon bool `json:"cordon"`
	// Locked: the node's workload locks are looked at once more, right before.
	Locked bool `json:"locked,omitempty"`
}

// CordonResult says what was found and done.
type CordonResult struct {
	CordonedByUs bool `json:"cordonedByUs"`
	// Note is set when there is something a person should know, e.g. that someone else had cordoned the node before.
	Note string `json:"note,omitempty"`
}

// Cordon marks the node as ours, remembers its former state and cordons it, in one patch; then it sets MaintenanceInProgress.
// Errors: NodeGone, NodeBusy, LockRefused.
func (n *Nodes) Cordon(ctx context.Context, in CordonInput) (CordonResult, error) {
	return CordonResult{}, errNotBuilt
}

// ReturnNodeInput says which node to return.
type ReturnNodeInput struct {
	NodeRef
	// KeepCordoned leaves the node out of service for a person to look at.
	KeepCordoned bool `json:"keepCordoned,omitempty"`
}

// ReturnNodeResult says what was done.
type ReturnNodeResult struct {
	Uncordoned bool   `json:"uncordoned"`
	Note       string `json:"note,omitempty"`
}

// ReturnNode uncordons the node if we cordoned it and nobody wants it kept so, and removes our marks and conditions. A node that
// is gone, or not ours, is left as it is.
func (n *Nodes) ReturnNode(ctx context.Context, in ReturnNodeInput) (ReturnNodeResult, error) {
	return ReturnNodeResult{}, errNotBuilt
}
