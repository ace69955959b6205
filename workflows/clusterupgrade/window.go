package clusterupgrade

import (
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// takeBackHeld returns the running nodes when a window has closed that wants that, also while the emergency stop holds the cluster.
func (r *nodeRollout) takeBackHeld() {
	closed := r.upgrade.holds.State.Closed(r.upgrade.in.Cluster)
	if closed == nil || closed.OnOverrun != drydockv1.OverrunCancel {
		return
	}
	for _, node := range r.running {
		if !r.takenBack[node] {
			r.takenBack[node] = true
			r.takeBack[node]()
		}
	}
}

// waitsForWindow takes in that a node was returned because its window has closed: it is requested again when one opens.
func (r *nodeRollout) waitsForWindow(node string, status maintenancev1.NodeMaintenanceStatus) bool {
	taken := r.takenBack[node]
	delete(r.takenBack, node)
	if !taken || status.State != maintenancev1.NodeCancelled || r.upgrade.withdrawn != nil {
		return false
	}
	r.pending = append(r.pending, node)
	r.upgrade.record.nodeWaits(node, status.LockTimeLeft)
	return true
}
