package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// SignalStarter sends signals to workflows and starts those that do not run yet, as Temporal's client does.
type SignalStarter interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signal string, payload any,
		options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Holds brings workflows and the emergency stop together.
type Holds struct {
	Temporal SignalStarter
}

// FollowHolds asks the emergency stop to tell a workflow what is held: now, and whenever that changes.
func (h *Holds) FollowHolds(ctx context.Context, subscription emergency.Subscription) error {
	_, err := h.Temporal.SignalWithStartWorkflow(ctx, temporal.EmergencyStopID, temporal.SignalFollowHolds, subscription,
		temporal.EmergencyStopOptions(), temporal.EmergencyStop)
	if err != nil {
		return fmt.Errorf("ask the emergency stop what is held: %w", err)
	}
	return nil
}
