// Package holds holds the activities of the emergency stop: they save what is held and subscribe workflows to it.
package holds

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Client is the part of Temporal's client that the emergency stop needs.
type Client interface {
	activitykit.Starter
	activitykit.Lister
	QueryWorkflowWithOptions(ctx context.Context, request *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error)
	DescribeTaskQueue(ctx context.Context, taskQueue string, taskQueueType enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

// Hub returns the hub, like kube.Clusters.
type Hub interface {
	Hub(ctx context.Context) (*kube.Cluster, error)
}

// Activities connects workflows and the emergency stop.
type Activities struct {
	Temporal Client
	Hub      Hub

	// queries of many requests at once are joined, and their subscriptions are sent in rounds.
	queries       activitykit.Joined[struct{}, emergency.State]
	subscriptions activitykit.Rounds
}

// SubscribeToHolds subscribes a workflow to the emergency stop, which sends it the holds after every change, and returns those of now. If the emergency
// stop does not answer at once, it sends them later, and the state has no number.
func (h *Activities) SubscribeToHolds(ctx context.Context, subscription temporal.Subscription) (emergency.State, error) {
	state, _ := h.queries.Do(ctx, struct{}{}, func(ctx context.Context) (emergency.State, error) { return h.current(ctx), nil })
	subscription.Known = state.Number
	err := h.subscriptions.Do(ctx, temporal.EmergencyStopID, func(ctx context.Context) error {
		_, err := h.Temporal.SignalWithStartWorkflow(ctx, temporal.EmergencyStopID, temporal.SignalSubscribeHolds, subscription,
			temporal.EmergencyStopOptions(), temporal.EmergencyStop)
		return err
	})
	if err != nil {
		return emergency.State{}, fmt.Errorf("subscribe to the emergency stop: %w", err)
	}
	return state.ForCluster(subscription.Cluster), nil
}

// answerTimeout limits the wait for the state of the emergency stop: without an answer, a notification has it.
const answerTimeout = 2 * time.Second

// current returns the state of the running emergency stop; the zero state if it is not known.
func (h *Activities) current(ctx context.Context) (state emergency.State) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := h.Temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: temporal.EmergencyStopID, QueryType: temporal.QueryStatus, QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	if err != nil || answer.QueryResult == nil || answer.QueryResult.Get(&state) != nil {
		return emergency.State{}
	}
	return state
}

// subscriberTypes are the workflow types that subscribe to holds, unless a parent passes them on.
func subscriberTypes() []string {
	return []string{temporal.ClusterGroupUpgrade, temporal.NodeMaintenance, temporal.MaintenanceScheduler, temporal.HarborCluster}
}

// FindSubscribers returns the workflows that subscribe to the emergency stop, so that a new run finds them after a termination: rollouts,
// maintenances without a rollout, schedulers, and Harbor clusters. Workflows that have just started may be missing.
func (h *Activities) FindSubscribers(ctx context.Context, _ struct{}) ([]temporal.Subscription, error) {
	query := fmt.Sprintf("WorkflowType IN ('%s') AND ExecutionStatus = 'Running'", strings.Join(subscriberTypes(), "', '"))
	var found []temporal.Subscription
	err := activitykit.EachWorkflow(ctx, h.Temporal, query, func(execution *workflowpb.WorkflowExecutionInfo) {
		// Parents pass holds on to the others. A rollout subscribes itself even if onboarding has started it.
		if execution.ParentExecution == nil || execution.Type.Name == temporal.ClusterGroupUpgrade {
			found = append(found, subscriptionOf(execution))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find the subscribers of the emergency stop: %w", err)
	}
	return found, nil
}

// subscriptionOf returns the subscription of a running workflow, without its first run, which the list does not have.
func subscriptionOf(execution *workflowpb.WorkflowExecutionInfo) temporal.Subscription {
	s := temporal.Subscription{WorkflowID: execution.Execution.WorkflowId}
	if parts := strings.Split(s.WorkflowID, "/"); execution.Type.Name != temporal.ClusterGroupUpgrade && len(parts) > 1 {
		s.Cluster = parts[1] // as NodeMaintenanceID, MaintenanceSchedulerID and HarborClusterID have it
	}
	return s
}
