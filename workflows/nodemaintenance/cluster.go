package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// recordClusterAsked records that the workloads of the cluster were asked to let go together with those of the node, and had if none holds it.
func (m *nodeMaintenance) recordClusterAsked(ctx workflow.Context, err error) {
	if err == nil && m.lockState.ClusterRequestUID == "" {
		m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRequested, nil, m.lockNote())
		return
	}
	m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRequested, err, "")
	if err == nil && !m.lockState.ClusterHeld {
		m.record.stages.Begin(ctx, ranv1.StageClusterWorkloadLocksInactive)
		m.record.stages.End(ctx, ranv1.StageClusterWorkloadLocksInactive, nil, "")
	}
}

func (m *nodeMaintenance) awaitClusterLocks(ctx workflow.Context) error {
	in := locks.ClusterLockInput{Cluster: m.in.Cluster, Owner: m.node.Owner, Deadline: m.runLockClock(ctx, &m.lockState.ClusterClock), Requested: true}
	return m.awaitLetGo(ctx, ranv1.StageClusterWorkloadLocksInactive, "AwaitClusterLocks", m.in.Cluster, in.Deadline, m.locks.AwaitClusterLocks, in)
}

// withdrawCluster lets the workloads of the cluster go back to work, once those of the node were asked to. While that could not be done, the request is
// left to the sweeper, which keeps to the order.
func (m *nodeMaintenance) withdrawCluster(ctx workflow.Context, retrier kit.Retrier) {
	if !m.lockState.ClusterRequested || m.lockState.Requested {
		return
	}
	in := locks.ClusterLockInput{Cluster: m.in.Cluster, Owner: m.node.Owner}
	m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
	err := m.undo(ctx, retrier, "withdraw the request for "+m.in.Cluster, m.locks.WithdrawClusterMaintenance, in, nil)
	m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, err, "")
	m.lockState.ClusterRequested = err != nil
}
