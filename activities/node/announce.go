package node

import (
	"context"
	"time"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

// AnnounceStateInput names the state that a maintenance has entered.
type AnnounceStateInput struct {
	activitykit.NodeRef
	State maintenancev1.NodeState `json:"state"`
	// Occurrence counts the announcements of a maintenance, from 1.
	Occurrence int32  `json:"occurrence"`
	Message    string `json:"message"`
	// At is when the maintenance entered the state.
	At time.Time `json:"at"`
}

// AnnounceState records an Event on the node for a state that begins without an effect on the node: it is ready for its requestor, the work on it
// failed, or the maintenance ended and could not return it.
func (n *Activities) AnnounceState(ctx context.Context, in AnnounceStateInput) error {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	events.Record(ctx, cluster, in.NodeRef, in.Event())
	return nil
}

// Event is the Event for the state.
func (in AnnounceStateInput) Event() events.Event {
	failed := in.State == maintenancev1.NodeRequestorFailed || in.State == maintenancev1.NodeFailed
	return events.Event{Reason: string(in.State), Occurrence: in.Occurrence, Warning: failed, Message: in.Message, At: in.At}
}

// MaintenanceEnd describes the end of a maintenance.
type MaintenanceEnd struct {
	// State in which it ends: Completed, Failed, Cancelled or NodeGone.
	State maintenancev1.NodeState `json:"state"`
	// Message explains the state to a person.
	Message string `json:"message"`
}

// announceEnd records an Event with the end of the maintenance and the effect on the node.
func announceEnd(ctx context.Context, cluster *kube.Cluster, in ReturnNodeInput, result ReturnNodeResult) (recorded func()) {
	event := events.Event{Reason: events.CleanedUp, Warning: true, Message: "the maintenance had ended, and the node still had its marks"}
	if in.Ended != nil {
		event = events.Event{Reason: string(in.Ended.State), Message: in.Ended.Message}
		event.Warning = in.Ended.State == maintenancev1.NodeFailed || in.Ended.State == maintenancev1.NodeGone
	}
	switch {
	case result.Note != "":
		event.Message += "; " + result.Note
	case result.Uncordoned:
		event.Message += "; the node is uncordoned"
	}
	return events.Announce(ctx, cluster, in.NodeRef, event)
}
