package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// sharedNode is a node at work that another maintenance has. Its slot is waited for all the same.
type sharedNode struct {
	leave workflow.CancelFunc
	// left: the rollout does not wait for it any longer.
	left bool
}

// joinHolders joins the maintenances that have pending nodes: what they do to a node need not be done once more. A Job has a node for itself. Each is
// asked once, and once more when it has the node anew that it had to give back. It returns how many it has joined, no more than most.
func (r *nodeRollout) joinHolders(ctx workflow.Context, most int) int {
	action := r.upgrade.in.Remediation.Action
	if !r.starts(ctx) || action != nil && action.Type == maintenancev1.ActionJob {
		return 0
	}
	joined := 0
	for _, held := range r.slots.held {
		if joined == most {
			break
		}
		if !slices.Contains(r.pending, held.Node) || r.tried[held.Node] == held || len(r.running) >= nodesAtOnce {
			continue
		}
		joining, leave := workflow.WithCancel(ctx)
		r.tried[held.Node], r.shared[held.Node] = held, &sharedNode{leave: leave}
		r.start(joining, held.Node, len(r.running)+1, &held.Holder)
		joined++
	}
	return joined
}

// mustLeave reports whether shared nodes keep the rollout from ending, or from continuing as new: those that have them may need them for long.
func (r *nodeRollout) mustLeave(ctx workflow.Context) bool {
	return (r.failure != nil || r.upgrade.mustContinueAsNew(ctx)) && len(r.waitedFor()) > 0
}

// waitedFor are the shared nodes that were not left, in the order in which they were started.
func (r *nodeRollout) waitedFor() []*sharedNode {
	var nodes []*sharedNode
	for _, node := range r.running {
		if shared := r.shared[node]; shared != nil && !shared.left {
			nodes = append(nodes, shared)
		}
	}
	return nodes
}

func (r *nodeRollout) leaveHolders() {
	for _, shared := range r.waitedFor() {
		shared.left = true
		shared.leave()
	}
}

// endsAlone takes in that a shared node has to wait for a slot of its own, if that is how its maintenance ended.
func (r *nodeRollout) endsAlone(node string, status maintenancev1.NodeMaintenanceStatus) bool {
	shared := r.shared[node]
	delete(r.shared, node)
	if r.upgrade.holds.shut(r.upgrade.in.Cluster) != nil {
		delete(r.tried, node) // whoever has left because the window has closed may join again when it opens
	}
	if shared == nil || status.State != maintenancev1.NodePending && !(shared.left && status.State == maintenancev1.NodeCancelled) {
		return false
	}
	r.pending = append(r.pending, node)
	r.upgrade.record.nodeWaits(node, status.LockTimeLeft)
	return true
}
