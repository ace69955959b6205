// Package requests holds the activity that accepts the request for a maintenance: that of a person or a program, not of a rollout.
package requests

import (
	"context"
	"encoding/json"
	"time"

	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/activities/sweeper"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Activities accepts requests with the activities of others: each costs a maintenance events and time, and together they cost those of one.
type Activities struct {
	Rollouts  *rollouts.Activities
	Objects   *objects.Activities
	Sweeper   *sweeper.Activities
	Holds     *holds.Activities
	Nodes     *node.Activities
	Scheduler *scheduler.Activities
}

// AcceptMaintenanceInput is the request for a maintenance, and its workflow.
type AcceptMaintenanceInput struct {
	// Written is the object as the requestor wrote it.
	Written json.RawMessage `json:"written"`
	// Source is the object in the cluster that requests the maintenance; nil: there is none, or it need not be read.
	Source *temporal.Object `json:"source,omitempty"`
	// Wake, Subscription and Plan are the inputs of the activities that wake the sweeper, subscribe to the emergency stop and mark the node.
	Wake         sweeper.WakeSweeperInput  `json:"wake"`
	Subscription temporal.Subscription     `json:"subscription"`
	Plan         node.PlanMaintenanceInput `json:"plan"`
	// Slots are the slot requests of the workflow; nil: it requests none yet.
	Slots *scheduling.SlotRequests `json:"slots,omitempty"`
}

// Accepted says which steps are done. The workflow repeats the others by themselves, and shows why they fail.
type Accepted struct {
	// TaskQueue of the activities of the cluster.
	TaskQueue string `json:"taskQueue"`
	// Request is the state of the object; nil: it was not read. Unread: it should have been.
	Request *objects.Request `json:"request,omitempty"`
	Unread  bool             `json:"unread,omitempty"`
	// Holds is the state of the emergency stop, as SubscribeToHolds returns it.
	Holds emergency.State `json:"holds,omitzero"`
	// Planned is the result for the node; nil: it is not marked.
	Planned *node.PlanMaintenanceResult `json:"planned,omitempty"`
	// SlotsRequested: the scheduler has the slot requests.
	SlotsRequested bool `json:"slotsRequested,omitempty"`
}

// Unwanted reports whether the object no longer requests the maintenance: it is gone, or its maintenance is over.
func (a Accepted) Unwanted() bool { return a.Request != nil && Unwanted(*a.Request) }

// Unwanted reports whether an object no longer requests its maintenance.
func Unwanted(request objects.Request) bool {
	return request.Gone || maintenancev1.NodeState(request.Reasons[maintenancev1.ConditionReady]).Over()
}

// clusterTimeout limits each step on the cluster: one that hangs must not hold up the requests for others.
const clusterTimeout = 4 * time.Second

// removalTimeout limits the removal of the mark of a refused request.
const removalTimeout = 3 * time.Second

// AcceptMaintenance checks the request, and finds the workers of its cluster. Then it wakes the sweeper, which cleans up if the workflow is terminated,
// subscribes the workflow to the emergency stop, marks the node as planned and requests a slot. For a cluster of other workers it leaves the steps on the
// cluster, and all after them, to the workflow. An attempt that refuses the request removes the mark of an earlier one, whose answer was lost.
// Errors: InvalidSpec of the request; ClusterUnknown, to retry on another worker; NotFound if no worker serves the cluster.
func (a *Activities) AcceptMaintenance(ctx context.Context, in AcceptMaintenanceInput) (Accepted, error) {
	accepted, err := a.accept(ctx, in)
	if temporal.Final(err) {
		removing, cancel := context.WithTimeout(ctx, removalTimeout) // the refusal must not be lost
		defer cancel()
		logLeft(ctx, in, "a mark of an earlier attempt is left to the sweeper", node.RemovePlan(removing, a.Nodes.Clusters, in.Plan.NodeRef))
	}
	return accepted, err
}

func (a *Activities) accept(ctx context.Context, in AcceptMaintenanceInput) (Accepted, error) {
	if err := a.Rollouts.CheckNodeMaintenance(ctx, in.Written); err != nil {
		return Accepted{}, err
	}
	taskQueue, err := a.Rollouts.LocateCluster(ctx, in.Plan.Cluster)
	if err != nil {
		return Accepted{}, err
	}
	accepted := Accepted{TaskQueue: taskQueue, Unread: in.Source != nil}
	reachable := taskQueue == temporal.TaskQueue
	if reachable && in.Source != nil {
		request, err := withinTimeout(ctx, a.Objects.ReadRequest, *in.Source)
		if reachable = err == nil; reachable {
			accepted.Request, accepted.Unread = &request, false
		}
		logLeft(ctx, in, "the object is not read yet", err)
	}
	if accepted.Unwanted() {
		return accepted, nil
	}
	if err := a.Sweeper.WakeSweeper(ctx, in.Wake); err != nil {
		return Accepted{}, err
	}
	if accepted.Holds, err = a.Holds.SubscribeToHolds(ctx, in.Subscription); err != nil {
		return Accepted{}, err
	}
	if !reachable {
		return accepted, nil
	}
	planned, err := withinTimeout(ctx, a.Nodes.PlanMaintenance, in.Plan)
	if err != nil {
		logLeft(ctx, in, "the node is not marked yet", err)
		return accepted, nil
	}
	accepted.Planned = &planned
	if in.Slots != nil {
		err = a.Scheduler.RequestSlots(ctx, scheduler.RequestSlotsInput{Cluster: in.Plan.Cluster, Requests: *in.Slots})
		accepted.SlotsRequested = err == nil
		logLeft(ctx, in, "the slot is not requested yet", err)
	}
	return accepted, nil
}

// withinTimeout runs a step on the cluster.
func withinTimeout[In, Out any](ctx context.Context, step func(context.Context, In) (Out, error), in In) (Out, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return step(ctx, in)
}

// logLeft logs why a step is left to the workflow; nil: it is done.
func logLeft(ctx context.Context, in AcceptMaintenanceInput, what string, err error) {
	if err != nil {
		in.Plan.Logger(ctx).Warn(what, "error", err)
	}
}
