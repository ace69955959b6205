package nodemaintenance

import (
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// finish turns the error of the work into the result of the workflow.
func (m *nodeMaintenance) finish(ctx workflow.Context, err error) (maintenancev1.NodeMaintenanceStatus, error) {
	now := m.record.now(ctx)
	status := &m.state.Status
	status.CompletedAt = &now
	state := m.endState(err)
	if by := m.state.Return.CancelledBy; state == maintenancev1.NodeCancelled && by != nil && kit.ActorSuffix(*by) != "" {
		m.record.note("cancelled" + kit.ActorSuffix(*by))
	}
	if state != maintenancev1.NodePending && state != maintenancev1.NodeCancelled {
		status.LockTimeLeft = nil // no other maintenance continues with it
	}
	m.enter(ctx, ending(state))
	switch state {
	case maintenancev1.NodeCompleted, maintenancev1.NodePending:
		return *status, nil
	case maintenancev1.NodeCancelled:
		return *status, sdktemporal.NewCanceledError(*status)
	}
	return *status, sdktemporal.NewApplicationErrorWithOptions(status.Failure.Message, status.Failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*status}})
}

// endState returns the final state for the error of the work.
func (m *nodeMaintenance) endState(err error) maintenancev1.NodeState { return m.state.endState(err) }

func (s *State) endState(err error) maintenancev1.NodeState {
	failed := s.Status.Failure != nil
	switch {
	case err == nil && s.Return.ParentSlot == SlotRequeued:
		return maintenancev1.NodePending
	case err == nil && !failed && (s.Return.CancelledBy == nil || s.first().State == maintenancev1.RequestorDone):
		return maintenancev1.NodeCompleted // a requestor that was done before the cancel has nothing to undo
	case !failed:
		return maintenancev1.NodeCancelled
	case temporal.ErrorType(err) == temporal.ErrNodeGone:
		return maintenancev1.NodeGone
	}
	return maintenancev1.NodeFailed
}

// end returns the end of the maintenance for the Event on the node.
func (m *nodeMaintenance) end(err error) *node.MaintenanceEnd {
	failure, by := m.state.Status.Failure, m.state.Return.CancelledBy
	end := &node.MaintenanceEnd{State: m.endState(err), Message: "the maintenance is completed"}
	switch {
	case end.State == maintenancev1.NodePending:
		end.Message = "the maintenance waits for a slot again"
	case end.State == maintenancev1.NodeCancelled:
		end.Message = "the maintenance was cancelled"
		if by != nil {
			end.Message += kit.ActorSuffix(*by)
		}
	case failure != nil:
		end.Message = "the maintenance has failed: " + failure.Reason + ": " + failure.Message
		if m.state.Status.NotReturned && failure.Reason != temporal.ErrNodeNotReturned {
			end.Message += "; the node could not be returned"
		}
	}
	return end
}
