package workflowtest

import (
	"context"

	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/requests"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/internal/temporal"
)

// acceptMaintenance simulates AcceptMaintenance with the simulated activities of its steps, which record their calls and fail as the test says.
func (w *World) acceptMaintenance(ctx context.Context, in requests.AcceptMaintenanceInput) (any, error) {
	if _, err := w.call("CheckNodeMaintenance", in.Written); err != nil {
		return nil, err
	}
	taskQueue, err := w.locateCluster(ctx, in.Plan.Cluster)
	if err != nil {
		return nil, err
	}
	accepted := requests.Accepted{TaskQueue: taskQueue, Unread: in.Source != nil}
	reachable := taskQueue == temporal.TaskQueue
	if reachable && in.Source != nil {
		request, err := w.call("ReadRequest", *in.Source)
		if reachable = err == nil; reachable {
			accepted.Request, accepted.Unread = new(request.(objects.Request)), false
		}
	}
	if accepted.Unwanted() {
		return accepted, nil
	}
	if _, err := w.call("WakeSweeper", in.Wake); err != nil {
		return nil, err
	}
	if !w.HoldsUnknown {
		accepted.Holds = w.Holds.ForCluster(in.Subscription.Cluster)
	}
	if !reachable {
		return accepted, nil
	}
	planned, err := w.call("PlanMaintenance", in.Plan)
	switch {
	case err == activity.ErrResultPending:
		return nil, err
	case err != nil:
		return accepted, nil
	}
	accepted.Planned = new(planned.(node.PlanMaintenanceResult))
	if in.Slots != nil {
		_, err := w.call("RequestSlots", scheduler.RequestSlotsInput{Cluster: in.Plan.Cluster, Requests: *in.Slots})
		accepted.SlotsRequested = err == nil
	}
	return accepted, nil
}

// locateCluster finds the cluster as the test says, or by the simulated activity.
func (w *World) locateCluster(ctx context.Context, cluster string) (string, error) {
	if w.locate != nil {
		return w.locate(ctx)
	}
	found, err := w.call("LocateCluster", cluster)
	if err != nil {
		return "", err
	}
	return found.(string), nil
}

// call calls a simulated activity.
func (w *World) call(name string, in any) (any, error) {
	w.Mu.Lock()
	answer := w.simulated[name]
	w.Mu.Unlock()
	return answer(in)
}
