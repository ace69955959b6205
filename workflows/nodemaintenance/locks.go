package nodemaintenance

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// locksActiveLimit limits the wait for the workload locks of the node to be active again.
const locksActiveLimit = 10 * time.Minute

// recordLocks records the answer to a lock request.
func (m *nodeMaintenance) recordLocks(ctx workflow.Context, withCluster bool, found locks.NodeLocks, err error) {
	locks := &m.state.Locks
	locks.Answer, locks.RequestUID = LocksUnknown, found.RequestUID
	if err == nil {
		locks.Answer = lockAnswerOf(found)
	}
	if found.RequestUID != "" {
		locks.Request = Yes
	}
	locks.Cluster.Holding, locks.Cluster.RequestUID = factOf(found.ClusterHeld), found.ClusterRequestUID
	switch {
	case found.ClusterRequestUID != "" && withCluster:
		locks.Cluster.Request = Yes
	case err == nil && locks.Answer != LocksRequested:
		locks.Cluster.Request = No
	}
	m.record.log.Info("Workload locks requested", "answer", string(locks.Answer), "clusterHeld", found.ClusterHeld, "error", err)
	if withCluster {
		m.recordClusterLocks(ctx, err)
	}
	if locks.Cluster.Holding == No {
		m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRequested, err, m.lockNote())
	}
}

// recordClusterLocks records the request for the locks of the cluster, and that they are inactive if none holds the cluster.
func (m *nodeMaintenance) recordClusterLocks(ctx workflow.Context, err error) {
	if err == nil && m.state.Locks.Cluster.RequestUID == "" {
		m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRequested, nil, m.lockNote())
		return
	}
	m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRequested, err, "")
	if err == nil && m.state.Locks.Cluster.Holding == No {
		m.record.stages.Begin(ctx, ranv1.StageClusterWorkloadLocksInactive)
		m.record.stages.End(ctx, ranv1.StageClusterWorkloadLocksInactive, nil, "")
	}
}

// lockNote returns the reason why no lock of the node was requested.
func (m *nodeMaintenance) lockNote() string {
	switch m.state.Locks.Answer {
	case LocksSkipped:
		return "no lock holds the node, and annotation " + lcmv1.AnnotationSkipMaintenance + " forbids a request"
	case LocksNone:
		return "the cluster has no workload locks"
	}
	return ""
}

// awaitLocks waits until the workload locks of the node are inactive.
func (m *nodeMaintenance) awaitLocks(ctx workflow.Context) (outcome, error) {
	in := locks.NodeLockInput{NodeRef: m.node, Release: m.spec.LockRelease, Deadline: m.runLockClock(ctx, &m.state.Locks.Clock), Requested: true}
	return m.awaitLockRelease(ctx, maintenancev1.StageNodeWorkloadLocksInactive, "AwaitNodeLocks", m.node.Node, in.Deadline, m.locks.AwaitNodeLocks, in)
}

// awaitClusterLocks waits until the workload locks of the cluster are inactive.
func (m *nodeMaintenance) awaitClusterLocks(ctx workflow.Context) (outcome, error) {
	in := locks.ClusterLockInput{
		Cluster: m.in.Cluster, Owner: m.node.Owner, Release: m.spec.LockRelease, Deadline: m.runLockClock(ctx, &m.state.Locks.Cluster.Clock), Requested: true,
	}
	return m.awaitLockRelease(ctx, ranv1.StageClusterWorkloadLocksInactive, "AwaitClusterLocks", m.in.Cluster, in.Deadline, m.locks.AwaitClusterLocks, in)
}

// awaitLockRelease waits for the workload locks of the node or of the cluster, as a stage of the maintenance.
func (m *nodeMaintenance) awaitLockRelease(
	ctx workflow.Context, stage drydockv1.Stage, name, of string, deadline *time.Time, activity, in any,
) (outcome, error) {
	m.record.stages.Begin(ctx, stage)
	ended, err := whileShort(ctx, func(ctx workflow.Context) (outcome, error) {
		err := m.await(ctx, name, "wait for the workload locks of "+of, deadline, temporal.ErrLockTimedOut, activity, in, nil)
		return m.state.outcomeOf(err), err
	})
	if ended == outcomeHistoryLong { // the next run continues the stage
		return ended, nil
	}
	m.record.stages.End(ctx, stage, err, "")
	if err == nil {
		m.record.log.Info("Workload locks released", "stage", string(stage))
	} else {
		m.record.log.Info("Wait for workload locks ended without a release", "stage", string(stage), "reason", kit.ReasonOf(err), "error", err)
	}
	return ended, err
}

// withdrawLockRequests withdraws the lock requests for the node and then for the cluster. In between, it waits for locks that may have been inactive. The
// stages of the locks start over.
func (m *nodeMaintenance) withdrawLockRequests(ctx workflow.Context, mayHaveReleased bool) {
	clean, _ := workflow.NewDisconnectedContext(ctx)
	retrier := m.cleanUpRetrier(clean)
	m.withdrawNodeRequest(clean, retrier)
	if mayHaveReleased {
		if m.awaitLocksActive(ctx); ctx.Err() != nil {
			m.state.Locks.Answer = LocksRequested // cleanup waits for the locks
			return
		}
	}
	m.withdrawClusterRequest(clean, retrier)
	m.record.stages.Drop(maintenancev1.StageNodeMaintenanceRequested, maintenancev1.StageNodeWorkloadLocksInactive, maintenancev1.StageNodeMaintenanceRemoved,
		ranv1.StageClusterMaintenanceRequested, ranv1.StageClusterWorkloadLocksInactive, ranv1.StageClusterMaintenanceRemoved)
}

// followLocks records workload locks that become active again while the node is out of service, until ctx is cancelled. The maintenance continues, because
// the application is already disrupted.
func (m *nodeMaintenance) followLocks(ctx workflow.Context) {
	if m.state.Locks.Present == No {
		return
	}
	for {
		in := locks.AwaitHeldAgainInput{NodeRef: m.node, Known: m.state.Locks.HeldAgain}
		var locks []drydockv1.Blocker
		err := m.quietRetrier().Wait(ctx, "follow the workload locks of "+m.node.Node, nil, "", m.locks.AwaitHeldAgain, in, &locks)
		if err != nil || ctx.Err() != nil {
			return
		}
		m.recordHeldAgain(locks)
	}
}

// recordHeldAgain notes each lock the first time that it holds the node again.
func (m *nodeMaintenance) recordHeldAgain(locks []drydockv1.Blocker) {
	for _, lock := range locks {
		if slices.Contains(m.state.Locks.HeldAgain, lock.Name) {
			continue
		}
		m.state.Locks.HeldAgain = append(m.state.Locks.HeldAgain, lock.Name)
		m.record.note(fmt.Sprintf("%s held the node again before it was returned: %s", lock, lock.Message))
	}
}
