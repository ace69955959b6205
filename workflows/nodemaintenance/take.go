package nodemaintenance

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// take asks the locks of the node to let go. When none holds it, the node is cordoned at once: then it returns true.
func (m *nodeMaintenance) take(ctx workflow.Context) (taken bool, err error) {
	m.record.enter(ctx, maintenancev1.NodeScheduled)
	m.marked, m.lockState.Requested, m.cordoned = true, true, true
	in := node.TakeNodeInput{
		NodeRef: m.node, Cordon: m.cordons(), KeepOnFailure: m.keepsOnFailure(), Scope: scheduling.LockScope(m.spec.Action), Departure: m.departure(),
		Closes: m.holds.Closes(m.in.Cluster),
	}
	// A rollout has asked the locks of the cluster. When one holds all the same, that request may be gone.
	in.WithCluster = m.in.Parent == "" || m.lockState.ClusterHeld || m.lockState.ClusterRequested
	m.lockState.ClusterRequested = in.WithCluster
	if in.WithCluster {
		m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRequested)
	}
	m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRequested)
	var found node.TakeNodeResult
	err = m.retrierUntilHeld().Run(ctx, "take "+m.node.Node, m.nodes.TakeNode, in, &found)
	m.lockState.Answered, m.lockState.Asked, m.lockState.Skipped, m.lockState.RequestUID = err == nil, found.Locks.Asked, found.Locks.Skipped, found.Locks.RequestUID
	m.lockState.ClusterHeld, m.lockState.ClusterRequestUID = found.Locks.ClusterHeld, found.Locks.ClusterRequestUID
	m.lockState.ClusterRequested = m.lockState.ClusterRequested && (err != nil || m.lockState.Asked || m.lockState.ClusterRequestUID != "")
	m.record.note(found.Warning)
	m.record.lockProgress(found.LockProgress)
	if in.WithCluster {
		m.recordClusterAsked(ctx, err)
	}
	if !m.lockState.ClusterHeld {
		m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRequested, err, m.lockNote())
	}
	if err != nil || found.Cordon == nil {
		m.cordoned = err != nil && mayHaveTaken(err)
		return false, err
	}
	if m.lockState.Asked {
		m.record.stages.Begin(ctx, maintenancev1.StageNodeWorkloadLocksInactive)
		m.record.stages.End(ctx, maintenancev1.StageNodeWorkloadLocksInactive, nil, "")
	}
	m.record.enter(ctx, maintenancev1.NodeCordon)
	m.takenOut(*found.Cordon)
	return true, nil
}

// mayHaveTaken reports whether an attempt at taking the node may have cordoned it whose answer nobody heard.
func mayHaveTaken(err error) bool {
	return !temporal.Final(err) || temporal.ErrorType(err) == temporal.ErrHeld
}

// cordons reports whether the node is cordoned, as it is unless the request says otherwise.
func (m *nodeMaintenance) cordons() bool { return m.spec.Cordon == nil || *m.spec.Cordon }

// keepsOnFailure reports whether the node stays out of service when the maintenance has failed.
func (m *nodeMaintenance) keepsOnFailure() bool {
	return m.spec.OnFailure == maintenancev1.FailureKeepCordoned
}

func (m *nodeMaintenance) takenOut(result node.CordonResult) {
	m.locksLetGo()
	m.status.CordonedByUs, m.nodeUID, m.mayBeHeldAgain = result.CordonedByUs, result.NodeUID, result.HasLocks
	m.record.note(result.Note)
	m.record.note(result.Warning)
	m.record.lockProgress(result.LockProgress)
	m.setBegun(true)
}

// awaitNodeFree waits for a maintenance that the scheduler does not know: one that has ended and left its mark, say.
func (m *nodeMaintenance) awaitNodeFree(ctx workflow.Context) error {
	m.record.enter(ctx, maintenancev1.NodePending)
	in := node.AwaitNodeFreeInput{NodeRef: m.node}
	return m.await(ctx, "AwaitNodeFree", "wait until "+m.node.Node+" is free", nil, "", m.nodes.AwaitNodeFree, in, nil)
}

// queueAgain lets the locks go back to work while the node is somebody else's: those of the node first, which are waited for if they may have let go, and
// then the cluster's. The stages of the locks begin anew.
func (m *nodeMaintenance) queueAgain(ctx workflow.Context, mayHaveLetGo bool) {
	clean, _ := workflow.NewDisconnectedContext(ctx)
	retrier := m.cleanUpRetrier(clean)
	m.withdrawRequest(clean, retrier)
	if mayHaveLetGo {
		if m.awaitLocksActive(ctx); ctx.Err() != nil {
			m.lockState.Asked = true // the clean-up waits for them, and goes on from there
			return
		}
	}
	m.withdrawCluster(clean, retrier)
	m.record.stages.Drop(maintenancev1.StageNodeMaintenanceRequested, maintenancev1.StageNodeWorkloadLocksInactive, maintenancev1.StageNodeMaintenanceRemoved,
		ranv1.StageClusterMaintenanceRequested, ranv1.StageClusterWorkloadLocksInactive, ranv1.StageClusterMaintenanceRemoved)
}

// giveWay ends a cycle of locks: the node's locks hold it again, its slot is free for others, and it does not queue anew before those have been served
// that go first; else it would only make the same cycle again.
func (m *nodeMaintenance) giveWay(ctx workflow.Context, cycle error) error {
	m.record.note("queued again: " + temporal.ErrorMessage(cycle))
	if err := m.requeue(ctx); err != nil {
		return err
	}
	in := locks.RequestsServedInput{Cluster: m.in.Cluster, Deadline: m.lockState.NodeClock.RunsOut}
	for _, first := range temporal.Blockers(cycle) {
		in.Requests = append(in.Requests, first.Name)
	}
	err := m.await(ctx, "AwaitRequestsServed", "wait for those that go first", in.Deadline, temporal.ErrLockTimedOut, m.locks.AwaitRequestsServed, in, nil)
	m.stopLockClocks(ctx)
	return err
}

// requeue lets the node's locks hold it again, and gives its slot back.
func (m *nodeMaintenance) requeue(ctx workflow.Context) error {
	switch mayHaveLetGo := m.mayHaveLetGo(); {
	case m.lockState.Requested:
		m.queueAgain(ctx, mayHaveLetGo)
	case mayHaveLetGo:
		m.awaitLocksActive(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.record.enter(ctx, maintenancev1.NodePending)
	if m.gaveWay = m.in.Slot != nil; m.gaveWay {
		m.returnParentsSlot(ctx)
	} else {
		m.giveSlotBack()
	}
	return ctx.Err()
}

// mayHaveLetGo reports whether locks may have let go of the node: there are some, or nobody knows, for a request may have been made whose answer was not
// waited for.
func (m *nodeMaintenance) mayHaveLetGo() bool {
	return m.lockState.Asked || m.lockState.Requested && !m.lockState.Answered
}

func (m *nodeMaintenance) awaitLocks(ctx workflow.Context) error {
	in := locks.NodeLockInput{NodeRef: m.node, Deadline: m.runLockClock(ctx, &m.lockState.NodeClock), Requested: true}
	return m.awaitLetGo(ctx, maintenancev1.StageNodeWorkloadLocksInactive, "AwaitNodeLocks", m.node.Node, in.Deadline, m.locks.AwaitNodeLocks, in)
}

// awaitLetGo waits for the workload locks of the node, or for those of the cluster, which is a stage of the maintenance.
func (m *nodeMaintenance) awaitLetGo(ctx workflow.Context, stage drydockv1.Stage, name, of string, deadline *time.Time, activity, in any) error {
	m.record.stages.Begin(ctx, stage)
	err := m.whileShort(ctx, func(ctx workflow.Context) error {
		return m.await(ctx, name, "wait for the workload locks of "+of, deadline, temporal.ErrLockTimedOut, activity, in, nil)
	})
	if !errors.Is(err, kit.ErrHistoryLong) { // the next run goes on with it
		m.record.stages.End(ctx, stage, err, "")
	}
	return err
}

func (m *nodeMaintenance) lockNote() string {
	switch {
	case m.lockState.Skipped:
		return "no lock holds the node, and annotation " + lcmv1.AnnotationSkipMaintenance + " forbids to ask for it"
	case m.lockState.Answered && !m.lockState.Asked:
		return "the cluster has no workload locks"
	}
	return ""
}

func (m *nodeMaintenance) cordon(ctx workflow.Context) error {
	m.record.enter(ctx, maintenancev1.NodeCordon)
	m.cordoned = true
	in := node.CordonInput{
		NodeRef: m.node, Cordon: m.cordons(), KeepOnFailure: m.keepsOnFailure(), Locked: m.lockState.Asked, Departure: m.departure(), Closes: m.holds.Closes(m.in.Cluster),
	}
	var result node.CordonResult
	err := m.retrierUntilHeld().Run(ctx, "cordon "+m.node.Node, m.nodes.Cordon, in, &result)
	m.cordoned = err == nil || mayHaveTaken(err)
	switch {
	case err == nil:
		m.takenOut(result)
	case temporal.ErrorType(err) == temporal.ErrNodeBusy:
		m.locksLetGo()
	}
	return err
}

// departure is how the pods are to leave the node.
func (m *nodeMaintenance) departure() drain.Preflight {
	return drain.Preflight{Drain: m.spec.DrainSpec, Completion: m.spec.WaitForPodCompletion}
}
