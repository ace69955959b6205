package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// announce creates an Event on the node when the maintenance enters a state that has no activity of its own. The work does not wait for it. After one
// round of attempts the future is ready.
func (m *nodeMaintenance) announce(ctx workflow.Context, state maintenancev1.NodeState, message string) workflow.Future {
	return m.startAnnouncement(ctx, m.announcement(ctx, state, message))
}

func (m *nodeMaintenance) startAnnouncement(ctx workflow.Context, in node.AnnounceStateInput) workflow.Future {
	retrier, what := m.quietRetrier().Once(), "announce "+string(in.State)
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

// setReadyEvent notes the Event that says that the node is ready. An activity that comes soon also records it.
func (m *nodeMaintenance) setReadyEvent(ctx workflow.Context, message string) {
	m.state.ReadyEvent = new(m.announcement(ctx, maintenancev1.NodeReady, message))
}

// takeReadyEvent returns the Event for the activity that records it; nil: it is recorded.
func (m *nodeMaintenance) takeReadyEvent() *node.AnnounceStateInput {
	taken := m.state.ReadyEvent
	m.state.ReadyEvent = nil
	return taken
}

// announceReady records the Event by an activity of its own: nothing else does.
func (m *nodeMaintenance) announceReady(ctx workflow.Context) {
	if ready := m.takeReadyEvent(); ready != nil {
		m.startAnnouncement(ctx, *ready)
	}
}
