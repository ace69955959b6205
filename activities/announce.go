package activities

import (
	"context"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

// AnnounceStateInput says which state a maintenance has entered.
type AnnounceStateInput struct {
	NodeRef
	State maintenancev1.NodeState `json:"state"`
	// Occurrence counts what is announced of a maintenance, from 1.
	Occurrence int32  `json:"occurrence"`
	Message    string `json:"message"`
}

// AnnounceState records an Event on the node for a state that no effect on the node begins: it is handed over, the work on it has failed, or the
// maintenance has ended and could not return it.
func (n *Nodes) AnnounceState(ctx context.Context, in AnnounceStateInput) error {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	failed := in.State == maintenancev1.NodeRequestorFailed || in.State == maintenancev1.NodeFailed
	record(ctx, cluster, in.NodeRef, nodeEvent{reason: string(in.State), occurrence: in.Occurrence, warning: failed, message: in.Message})
	return nil
}

// MaintenanceEnd is how a maintenance has ended.
type MaintenanceEnd struct {
	// State in which it ends: Completed, Failed, Cancelled or NodeGone.
	State maintenancev1.NodeState `json:"state"`
	// Message says so, and why.
	Message string `json:"message"`
}

// announceEnd announces how a maintenance has ended, and what became of the node.
func announceEnd(ctx context.Context, cluster *kube.Cluster, in ReturnNodeInput, result ReturnNodeResult) (recorded func()) {
	event := nodeEvent{reason: EventTakenBack, warning: true, message: "the maintenance was over and the node still marked for it"}
	if in.Ended != nil {
		event = nodeEvent{reason: string(in.Ended.State), message: in.Ended.Message}
		event.warning = in.Ended.State == maintenancev1.NodeFailed || in.Ended.State == maintenancev1.NodeGone
	}
	switch {
	case result.Note != "":
		event.message += "; " + result.Note
	case result.Uncordoned:
		event.message += "; the node is uncordoned"
	}
	return announce(ctx, cluster, in.NodeRef, event)
}
