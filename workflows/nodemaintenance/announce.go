package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// announce creates an Event on the node when the maintenance enters a state that has no activity of its own. The work does not wait for it. After one
// round of attempts the future is ready.
func (m *nodeMaintenance) announce(ctx workflow.Context, state maintenancev1.NodeState, message string) workflow.Future {
	retrier, in, what := m.quietRetrier().Once(), m.announcement(ctx, state, message), "announce "+string(state)
	tried, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, what, func(ctx workflow.Context) {
		settle.SetError(retrier.Run(ctx, what+" on "+m.node.Node, m.nodes.AnnounceState, in, nil))
	})
	return tried
}

// announcement returns the input of the activity.
func (m *nodeMaintenance) announcement(ctx workflow.Context, state maintenancev1.NodeState, message string) node.AnnounceStateInput {
	m.state.Announced++
	return node.AnnounceStateInput{NodeRef: m.node, State: state, Occurrence: m.state.Announced, Message: message, At: workflow.Now(ctx)}
}

// announceReady records an Event on the node for its requestors, with the status of the object that requested the maintenance. Without an object it returns
// the Event, for the activity that follows.
func (m *nodeMaintenance) announceReady(ctx workflow.Context) *node.AnnounceStateInput {
	ready := m.announcement(ctx, maintenancev1.NodeReady, "the node is ready for "+names(m.state.requestors(needsNode)))
	if m.in.Source == nil || m.record.publisher.Gone() {
		return &ready
	}
	m.record.publisher.OnNode(events.NodeEvent{NodeRef: ready.NodeRef, Event: ready.Event()})
	return nil
}
