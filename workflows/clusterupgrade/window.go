package clusterupgrade

import (
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// cancelOnOverrun cancels the running nodes if a closed window has onOverrun Cancel, also while the emergency stop holds the cluster.
func (r *nodeRollout) cancelOnOverrun() {
	closed := r.upgrade.holds.State.Closed(r.upgrade.in.Cluster)
	if closed == nil || closed.OnOverrun != drydockv1.OverrunCancel {
		return
	}
	for _, node := range r.running {
		if !r.windowClosed[node] {
			r.windowClosed[node] = true
			r.cancelNode[node]()
		}
	}
}

// requeuedForWindow handles a node that was returned because its window closed: the node is pending until a window opens.
func (r *nodeRollout) requeuedForWindow(node string, status maintenancev1.NodeMaintenanceStatus) bool {
	closed := r.windowClosed[node]
	delete(r.windowClosed, node)
	if !closed || status.State != maintenancev1.NodeCancelled || r.upgrade.cancelled != nil {
		return false
	}
	r.pending = append(r.pending, node)
	r.upgrade.record.nodeWaits(node, status.LockTimeLeft)
	return true
}
