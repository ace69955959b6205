package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// announce creates an Event on the node when the maintenance enters a state that has no activity of its own. The work does not wait for it. After one
// round of attempts the future is ready.
func (m *nodeMaintenance) announce(ctx workflow.Context, state maintenancev1.NodeState, message string) workflow.Future {
	retrier, in := m.quietRetrier().Once(), m.announcement(state, message)
	tried, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "announce "+string(state), func(ctx workflow.Context) {
		settle.SetError(retrier.Run(ctx, "announce "+string(state)+" on "+m.node.Node, m.nodes.AnnounceState, in, nil))
	})
	return tried
}

// announcement returns the input of the activity.
func (m *nodeMaintenance) announcement(state maintenancev1.NodeState, message string) node.AnnounceStateInput {
	m.state.Announced++
	return node.AnnounceStateInput{NodeRef: m.node, State: state, Occurrence: m.state.Announced, Message: message}
}
