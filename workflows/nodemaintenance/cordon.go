package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// requestNode requests the workload locks of the node. If none is active, the same activity cordons the node.
func (m *nodeMaintenance) requestNode(ctx workflow.Context) (outcome, error) {
	m.enter(ctx, grant)
	in := node.AcquireNodeInput{
		NodeRef: m.node, Cordon: m.cordons(), KeepOnFailure: m.keepsOnFailure(), Scope: scheduling.LockScope(m.spec.Action), Preflight: m.preflight(),
		Closes: m.holds.Closes(m.in.Cluster), WithCluster: m.requestsCluster(), TakeOver: m.takesOver(), Release: m.spec.LockRelease,
		Job: m.job(),
	}
	m.recordRequest(ctx, in.WithCluster)
	var found node.AcquireNodeResult
	err := m.retrierUntilHeld().Run(ctx, "acquire "+m.node.Node, m.nodes.AcquireNode, in, &found)
	if err == nil {
		m.warn(found.Warning)
	}
	m.record.lockProgress(found.LockProgress)
	m.recordLocks(ctx, in.WithCluster, found.Locks, err)
	switch {
	case err != nil:
		m.recordUncordoned(err)
		return m.state.outcomeOf(err), err
	case found.Cordon == nil:
		m.state.Node.Cordoned = No
		if m.state.Locks.Cluster.Holding == Yes {
			return outcomeClusterLocked, nil
		}
		return outcomeNext, nil
	}
	if m.state.Locks.Answer == LocksRequested {
		m.record.stages.Begin(ctx, maintenancev1.StageNodeWorkloadLocksInactive)
		m.record.stages.End(ctx, maintenancev1.StageNodeWorkloadLocksInactive, nil, "")
	}
	m.enter(ctx, cordonNode)
	m.recordCordon(*found.Cordon)
	return outcomeAcquired, nil
}

// requestsCluster reports whether the locks of the cluster are requested together with those of the node. In a rollout, the rollout has requested them. If
// one is still active, that request may have been deleted.
func (m *nodeMaintenance) requestsCluster() bool {
	cluster := m.state.Locks.Cluster
	return m.in.Parent == "" || cluster.Holding == Yes || cluster.Request.Possible()
}

// recordRequest records, before the request, the effects that it may have.
func (m *nodeMaintenance) recordRequest(ctx workflow.Context, withCluster bool) {
	m.state.Node.Marked, m.state.Node.Cordoned, m.state.Locks.Request = Maybe, Maybe, Maybe
	m.state.Locks.Cluster.Request = No
	if withCluster {
		m.state.Locks.Cluster.Request = Maybe
		m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRequested)
	}
	m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRequested)
}

// cordon cordons the node once its locks are inactive.
func (m *nodeMaintenance) cordon(ctx workflow.Context) (outcome, error) {
	m.enter(ctx, cordonNode)
	m.state.Node.Cordoned = Maybe
	in := node.CordonInput{
		NodeRef: m.node, Cordon: m.cordons(), KeepOnFailure: m.keepsOnFailure(), Locked: m.state.Locks.Answer == LocksRequested, Preflight: m.preflight(),
		Closes: m.holds.Closes(m.in.Cluster), TakeOver: m.takesOver(), Release: m.spec.LockRelease,
	}
	var result node.CordonResult
	err := m.retrierUntilHeld().Run(ctx, "cordon "+m.node.Node, m.nodes.Cordon, in, &result)
	if err == nil {
		m.recordCordon(result)
		return outcomeNext, nil
	}
	m.recordUncordoned(err)
	if temporal.ErrorType(err) == temporal.ErrNodeBusy {
		m.resetLockClocks()
	}
	return m.state.outcomeOf(err), err
}

// recordCordon records the cordon of the node.
func (m *nodeMaintenance) recordCordon(result node.CordonResult) {
	m.resetLockClocks()
	m.state.Node.Marked, m.state.Node.Cordoned, m.state.Node.UID = Yes, Yes, result.NodeUID
	m.state.Locks.Present, m.state.Status.CordonedByUs = factOf(result.HasLocks), result.CordonedByUs
	m.record.log.Info("Node cordoned", "cordonedByUs", result.CordonedByUs, "locks", result.HasLocks)
	m.record.note(result.Note)
	if result.Warning != "" {
		m.warn(result.Warning)
	}
	m.record.lockProgress(result.LockProgress)
	m.cordonedUnderWindow()
}

// recordUncordoned records a failed attempt. After a final error the node is not cordoned. After another error it may be: the reply may have been lost.
func (m *nodeMaintenance) recordUncordoned(err error) {
	m.state.Node.Cordoned = No
	if !temporal.Final(err) || temporal.ErrorType(err) == temporal.ErrHeld {
		m.state.Node.Cordoned = Maybe
		return
	}
	if states := m.state.Status.States; m.state.outcomeOf(err) == outcomeFailed && len(states) > 0 && states[len(states)-1].State == maintenancev1.NodeCordon {
		m.state.Status.States = states[:len(states)-1] // it was never cordoned
	}
}

// takesOver reports whether the original operator had begun this maintenance, and found the node schedulable.
func (m *nodeMaintenance) takesOver() bool {
	return m.in.Source != nil && m.in.Object.Annotations[maintenancev1.AnnotationFormerlyUnschedulable] == "false"
}

// cordons reports whether the maintenance cordons the node, which is the default.
func (m *nodeMaintenance) cordons() bool { return m.spec.Cordon == nil || *m.spec.Cordon }

// keepsOnFailure reports whether the node stays cordoned if the maintenance fails.
func (m *nodeMaintenance) keepsOnFailure() bool {
	return m.spec.OnFailure == maintenancev1.FailureKeepCordoned
}

// preflight returns the settings of the drain and of the wait for pods.
func (m *nodeMaintenance) preflight() drain.Preflight {
	return drain.Preflight{Drain: m.spec.DrainSpec, Completion: m.spec.WaitForPodCompletion}
}
