package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// checkHealth waits until the node, its DaemonSet pods and the declared checks are healthy.
func (m *nodeMaintenance) checkHealth(ctx workflow.Context) error {
	m.state.Return.Begun = Yes
	m.enter(ctx, checkNode)
	in := health.AwaitNodeHealthyInput{NodeRef: m.node, Since: workflow.Now(ctx), Checks: m.spec.HealthChecks, NoWork: m.in.DoneWhenReady && !m.byJob()}
	in.Deadline = kit.DeadlineIn(ctx, kit.HealthTimeout(m.spec.HealthTimeoutSeconds))
	return m.await(ctx, "AwaitNodeHealthy", "check the health of "+m.node.Node, kit.LastDeadline(ctx, in.Deadline, in.Checks), temporal.ErrHealthGateFailed,
		m.health.AwaitNodeHealthy, in, nil)
}
