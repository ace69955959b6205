package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// announce shows on the node itself that the maintenance entered a state, and why, where no activity does so that starts with it. Nothing depends on it, and
// the work does not wait for it: it is tried for one round, and then the future is ready.
func (m *nodeMaintenance) announce(ctx workflow.Context, state maintenancev1.NodeState, message string) workflow.Future {
	m.state.Announced++
	retrier := m.quietRetrier().Once()
	in := node.AnnounceStateInput{NodeRef: m.node, State: state, Occurrence: m.state.Announced, Message: message}
	tried, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "announce "+string(state), func(ctx workflow.Context) {
		settle.SetError(retrier.Run(ctx, "announce "+string(state)+" on "+m.node.Node, m.nodes.AnnounceState, in, nil))
	})
	return tried
}
