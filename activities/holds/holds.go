// Package holds holds the activities of the emergency stop: they save what is held and subscribe workflows to it.
package holds

import (
	"context"
	"fmt"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Client is what the emergency stop needs of Temporal, as Temporal's client has it.
type Client interface {
	activitykit.Starter
	activitykit.Lister
}

// Hub is the way to the hub, as kube.Clusters has it.
type Hub interface {
	Hub(ctx context.Context) (*kube.Cluster, error)
}

// Activities brings workflows and the emergency stop together.
type Activities struct {
	Temporal Client
	Hub      Hub
}

// FollowHolds asks the emergency stop to tell a workflow what is held: now, and whenever that changes.
func (h *Activities) FollowHolds(ctx context.Context, subscription temporal.Subscription) error {
	_, err := h.Temporal.SignalWithStartWorkflow(ctx, temporal.EmergencyStopID, temporal.SignalFollowHolds, subscription,
		temporal.EmergencyStopOptions(), temporal.EmergencyStop)
	if err != nil {
		return fmt.Errorf("ask the emergency stop what is held: %w", err)
	}
	return nil
}

// followerTypes are the workflows that ask what is held, unless a parent tells them.
func followerTypes() []string {
	return []string{temporal.ClusterGroupUpgrade, temporal.NodeMaintenance, temporal.MaintenanceScheduler, temporal.HarborCluster}
}

// FindFollowers returns the workflows that subscribe to the emergency stop, so that a new run finds them after a termination: rollouts,
// maintenances without a rollout, schedulers, and Harbor clusters. Workflows that have just started may be missing.
func (h *Activities) FindFollowers(ctx context.Context, _ struct{}) ([]temporal.Subscription, error) {
	query := fmt.Sprintf("WorkflowType IN ('%s') AND ExecutionStatus = 'Running'", strings.Join(followerTypes(), "', '"))
	var found []temporal.Subscription
	err := activitykit.EachWorkflow(ctx, h.Temporal, query, func(execution *workflowpb.WorkflowExecutionInfo) {
		// The others are told by their parents; onboarding only starts its rollouts.
		if execution.ParentExecution == nil || execution.Type.Name == temporal.ClusterGroupUpgrade {
			found = append(found, subscriptionOf(execution))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find those that follow the emergency stop: %w", err)
	}
	return found, nil
}

// subscriptionOf is what a workflow asks for when it begins. Its first run is not known here.
func subscriptionOf(execution *workflowpb.WorkflowExecutionInfo) temporal.Subscription {
	s := temporal.Subscription{WorkflowID: execution.Execution.WorkflowId}
	if parts := strings.Split(s.WorkflowID, "/"); execution.Type.Name != temporal.ClusterGroupUpgrade && len(parts) > 1 {
		s.Cluster = parts[1] // as NodeMaintenanceID, MaintenanceSchedulerID and HarborClusterID have it
	}
	return s
}
