package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/health"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// checkHealth waits until the node, its DaemonSet pods and the declared checks are healthy.
func (m *nodeMaintenance) checkHealth(ctx workflow.Context) error {
	m.state.Return.Begun = Yes
	m.enter(ctx, checkNode)
	in := health.AwaitNodeHealthyInput{NodeRef: m.node, Since: workflow.Now(ctx), Checks: m.spec.HealthChecks}
	if m.in.DoneWhenReady && !m.byJob() {
		in.Ready = new(m.announcement(ctx, maintenancev1.NodeReady, "the node is ready, and has no work to wait for"))
	}
	in.Deadline = kit.DeadlineIn(ctx, kit.HealthTimeout(m.spec.HealthTimeoutSeconds))
	if m.returnsWhenHealthy() {
		in.Return = new(m.returnInput(nil, m.state.Locks.mayHaveReleased()))
	}
	var result health.AwaitNodeHealthyResult
	err := m.await(ctx, "AwaitNodeHealthy", "check the health of "+m.node.Node, kit.LastDeadline(ctx, in.Deadline, in.Checks), temporal.ErrHealthGateFailed,
		m.health.AwaitNodeHealthy, in, &result)
	m.returned = result.Returned
	return err
}

// returnsWhenHealthy reports whether the activity that finds the node healthy also returns it: the node has neither a Job to remove nor workload locks to
// follow.
func (m *nodeMaintenance) returnsWhenHealthy() bool { return !m.byJob() && m.state.Locks.Present == No }
