package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// announce says on the node itself that the maintenance has entered a state, and why, where no activity does so that begins it. Nothing depends
// on it, and the work does not wait for it: it is tried for one round, and then the future is ready.
func (m *nodeMaintenance) announce(ctx workflow.Context, state maintenancev1.NodeState, message string) workflow.Future {
	m.announced++
	retrier := kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, nil).Once()
	in := node.AnnounceStateInput{NodeRef: m.node, State: state, Occurrence: m.announced, Message: message}
	tried, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "announce "+string(state), func(ctx workflow.Context) {
		settle.SetError(retrier.Run(ctx, "announce "+string(state)+" on "+m.node.Node, m.nodes.AnnounceState, in, nil))
	})
	return tried
}

// endState is the state in which a maintenance ends whose work has ended so.
func (m *nodeMaintenance) endState(err error) maintenancev1.NodeState {
	switch {
	case err == nil && m.gaveWay:
		return maintenancev1.NodePending
	case err == nil && m.status.Failure == nil && (m.withdrawn == nil || m.requestors.own().State == maintenancev1.RequestorDone):
		return maintenancev1.NodeCompleted // whoever was done when cancel was said has nothing to take back
	case m.status.Failure == nil:
		return maintenancev1.NodeCancelled
	case temporal.ErrorType(err) == temporal.ErrNodeGone:
		return maintenancev1.NodeGone
	}
	return maintenancev1.NodeFailed
}

// end is how the maintenance ends, as it is announced on the node.
func (m *nodeMaintenance) end(err error) *node.MaintenanceEnd {
	end := &node.MaintenanceEnd{State: m.endState(err), Message: "the maintenance is completed"}
	switch {
	case end.State == maintenancev1.NodePending:
		end.Message = "the maintenance waits for its turn once more"
	case end.State == maintenancev1.NodeCancelled:
		end.Message = "the maintenance was cancelled"
		if m.withdrawn != nil {
			end.Message += kit.ActorSuffix(*m.withdrawn)
		}
	case m.status.Failure != nil:
		end.Message = "the maintenance has failed: " + m.status.Failure.Reason + ": " + m.status.Failure.Message
		if m.status.NotReturned && m.status.Failure.Reason != temporal.ErrNodeNotReturned {
			end.Message += "; the node could not be returned"
		}
	}
	return end
}
