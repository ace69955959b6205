package nodemaintenance

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/requests"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/sweeper"
)

// prepare accepts the request, and marks the node as planned. In a rollout, the parent has done all this.
func (m *nodeMaintenance) prepare(ctx workflow.Context) error {
	m.enter(ctx, begin)
	if err := m.checkID(ctx); err != nil || m.in.Parent != "" {
		return err
	}
	accepted, err := m.accept(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		m.findMark(ctx)
		return err
	case err != nil:
		m.showRefusal(ctx)
		return err
	}
	m.in.TaskQueue = accepted.TaskQueue
	m.holds.Receive(accepted.Holds)
	if accepted.Unwanted() {
		m.state.Node.Marked = Maybe // an attempt without an answer may have marked it
	}
	if err := m.followSource(ctx, accepted.Request, accepted.Unread); err != nil {
		return err
	}
	if accepted.Planned == nil {
		return m.plan(ctx)
	}
	m.state.Node.Marked = Yes
	m.warn(accepted.Planned.Warning)
	return nil
}

// accept checks the request and finds the workers of its cluster, before the workflow changes anything. Unless windows decide when, the same activity
// requests the slot.
func (m *nodeMaintenance) accept(ctx workflow.Context) (accepted requests.Accepted, err error) {
	in := requests.AcceptMaintenanceInput{
		Written: m.in.Written, Plan: m.planInput(), Subscription: m.holds.Subscription(),
		Wake: sweeper.BeginInput(ctx, m.in.Cluster, "a maintenance of "+m.node.Node+" begins"),
	}
	if !m.in.Unserved || wasReset(ctx) {
		in.Source = m.in.Source
	}
	lends := len(m.spec.MaintenanceWindows) == 0
	if lends {
		m.requestSlot()
		in.Slots = new(m.slots.Lend())
	}
	waits := &drydockv1.Wait{
		Reason: reasonAwaitingAcceptance, Message: "the request is being accepted; many that come at once are accepted one after the other", Since: m.record.now(ctx),
	}
	m.state.Status.Wait = waits
	err = kit.RequestRetrier(m.reportRetry()).Run(ctx, "accept the request for "+m.node.Node, m.requests.AcceptMaintenance, in, &accepted)
	if m.state.Status.Wait == waits {
		m.state.Status.Wait = nil
	}
	if lends {
		m.slots.TakeBack(err != nil || accepted.Planned == nil || accepted.SlotsRequested)
	}
	switch {
	case err != nil && ctx.Err() != nil: // an attempt without an answer may have requested it
		m.slots.Release(m.in.Object.Name, scheduling.Release{})
	case err != nil, accepted.Planned == nil: // no slot before the node is marked; a grant of an earlier attempt is released when it arrives
		m.slots.MarkReturned(m.in.Object.Name)
	}
	return accepted, err
}

// wasReset reports whether a person has reset the workflow: an earlier run may have served the request.
func wasReset(ctx workflow.Context) bool {
	original := workflow.GetInfo(ctx).OriginalRunID
	return original != "" && original != workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// findMark lets the cleanup look at the node: an activity that was cancelled may have marked it, unless no worker serves the cluster.
func (m *nodeMaintenance) findMark(ctx workflow.Context) {
	clean, _ := workflow.NewDisconnectedContext(ctx)
	if kit.Locate(clean, m.hubRetrier().Once(), m.in.Cluster, &m.in.TaskQueue) == nil {
		m.state.Node.Marked = Maybe
	}
}

// showRefusal lets the object show why its request was refused, and go when it is deleted.
func (m *nodeMaintenance) showRefusal(ctx workflow.Context) {
	if m.in.Source != nil && kit.Locate(ctx, m.hubRetrier(), m.in.Cluster, &m.in.TaskQueue) == nil {
		_ = m.followSource(ctx, nil, true) // the refusal is the error of the maintenance
	}
}

// checkID refuses a workflow ID by which the scheduler and the sweeper would not find the maintenance.
func (m *nodeMaintenance) checkID(ctx workflow.Context) error {
	want := temporal.NodeMaintenanceID(m.in.Cluster, m.in.Object.Namespace, m.in.Object.Name)
	if id := workflow.GetInfo(ctx).WorkflowExecution.ID; id != want {
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("the id of the workflow must be %s, not %s: start it under that id", want, id), nil)
	}
	return nil
}

// plan marks the node as one whose maintenance waits for a slot.
func (m *nodeMaintenance) plan(ctx workflow.Context) error {
	m.state.Node.Marked = Maybe
	var result node.PlanMaintenanceResult
	err := m.retrier().Run(ctx, "mark "+m.node.Node+" as planned", m.nodes.PlanMaintenance, m.planInput(), &result)
	m.warn(result.Warning)
	return err
}

func (m *nodeMaintenance) planInput() node.PlanMaintenanceInput {
	return node.PlanMaintenanceInput{NodeRef: m.node, Preflight: m.preflight(), Job: m.job()}
}
