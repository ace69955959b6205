package nodemaintenance

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/sweeper"
)

// prepare checks the request and finds the workers of its cluster, before the workflow changes anything. It wakes the sweeper, which cleans up if this
// workflow is terminated. In a rollout, the parent has done all this.
func (m *nodeMaintenance) prepare(ctx workflow.Context) error {
	m.enter(ctx, begin)
	if err := m.checkID(ctx); err != nil || m.in.Parent != "" {
		return err
	}
	if err := m.hubRetrier().Run(ctx, "check the request", m.hub.CheckNodeMaintenance, m.in.Written, nil); err != nil {
		m.showRefusal(ctx)
		return err
	}
	awake := sweeper.Wake(ctx, m.reportRetry(), m.in.Cluster, "a maintenance of "+m.node.Node+" begins")
	if err := kit.Locate(ctx, m.hubRetrier(), m.in.Cluster, &m.in.TaskQueue); err != nil {
		return err
	}
	if err := m.followSource(ctx); err != nil {
		return err
	}
	if err := awake.Get(ctx, nil); err != nil {
		return err
	}
	return m.plan(ctx)
}

// showRefusal lets the object show why its request was refused, and go when it is deleted.
func (m *nodeMaintenance) showRefusal(ctx workflow.Context) {
	if m.in.Source != nil && kit.Locate(ctx, m.hubRetrier(), m.in.Cluster, &m.in.TaskQueue) == nil {
		_ = m.followSource(ctx) // the refusal is the error of the maintenance
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
	in := node.PlanMaintenanceInput{NodeRef: m.node, Preflight: m.preflight(), Job: m.job()}
	var result node.PlanMaintenanceResult
	err := m.retrier().Run(ctx, "mark "+m.node.Node+" as planned", m.nodes.PlanMaintenance, in, &result)
	m.warn(result.Warning)
	return err
}
