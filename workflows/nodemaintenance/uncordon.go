package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// returnNode returns the node to service, unless the activity that found it healthy has done that. One activity uncordons it, removes Drydock's marks and
// withdraws the lock requests.
func (m *nodeMaintenance) returnNode(ctx workflow.Context, retrier kit.Retrier, err error, mayHaveReleased bool) locks.NodeLocks {
	m.beginReturnStages(ctx)
	var result node.ReturnNodeResult
	var undone error
	if m.returned == nil {
		undone = m.undo(ctx, retrier, "return "+m.node.Node, m.nodes.ReturnNode, m.returnInput(err, mayHaveReleased), &result)
	} else {
		result = *m.returned
	}
	m.recordSignals(result)
	m.record.note(result.Note)
	m.record.lockProgress(result.LockProgress)
	if m.state.Node.UID != "" {
		m.recordHeldAgain(result.LocksHeld)
	}
	m.record.stages.End(ctx, maintenancev1.StageKubernetesUncordoned, undone, result.Note)
	// If this maintenance did not cordon the node, the node is out of service for another reason.
	if m.state.Node.Cordoned.Possible() {
		m.recordReturn(result, undone)
	}
	m.recordWithdrawals(ctx, result, undone)
	return result.Locks
}

// returnInput returns the input for the activity.
func (m *nodeMaintenance) returnInput(err error, mayHaveReleased bool) node.ReturnNodeInput {
	locks := m.state.Locks
	in := node.ReturnNodeInput{
		NodeRef: m.node, KeepCordoned: m.state.Status.Failure != nil && m.keepsOnFailure(), Ended: m.end(err), AwaitLocks: mayHaveReleased,
		Withdraw: locks.Request.Possible(), RequestUID: locks.RequestUID,
		WithdrawCluster: locks.Cluster.Request.Possible(), ClusterRequestUID: locks.Cluster.RequestUID,
	}
	switch {
	case m.returnsParentSlot(err):
		in.Slot = m.in.Slot
	case m.in.Slot == nil && m.slots.Granted(m.in.Object.Name):
		in.Slot = m.slots.Held(m.in.Object.Name)
	}
	if m.in.Parent == "" {
		in.Unsubscribe = new(m.holds.Subscription())
	}
	if m.state.Object.Deleted && m.state.Locks.Present == No {
		in.Release = m.in.Source
	}
	if m.state.Job == JobFinished {
		in.FinishedJob = new(m.jobInput())
	}
	return in
}

// recordSignals records what the activity has sent to other workflows, and whether the object is gone.
func (m *nodeMaintenance) recordSignals(result node.ReturnNodeResult) {
	switch {
	case !result.SlotReturned:
	case m.in.Slot == nil:
		m.logSlotRelease()
		m.slots.MarkReturned(m.in.Object.Name)
	default:
		m.state.Return.ParentSlot = SlotReturned
		m.record.log.Info("Slot of the rollout returned")
	}
	if result.Unsubscribed {
		m.holds.Unsubscribed()
	}
	if result.Released {
		m.record.publisher.Close()
	}
}

func (m *nodeMaintenance) beginReturnStages(ctx workflow.Context) {
	if m.state.Node.Cordoned.Possible() {
		m.record.stages.Begin(ctx, maintenancev1.StageKubernetesUncordoned)
	}
	if m.state.Locks.Request.Possible() {
		m.record.stages.Begin(ctx, maintenancev1.StageNodeMaintenanceRemoved)
	}
}

// recordReturn records the result for a node that this maintenance may have cordoned.
func (m *nodeMaintenance) recordReturn(result node.ReturnNodeResult, undone error) {
	if undone != nil {
		m.state.Status.LeftCordoned = m.cordons()
		message := "the node could not be returned: " + temporal.ErrorMessage(undone) + "; workflow " + temporal.SweeperID(m.in.Cluster) + " keeps trying"
		if m.keepsOnFailure() {
			message += " to remove its marks, and leaves it cordoned, as onFailure requires"
		}
		m.leaveToSweeper(&maintenancev1.Failure{Reason: temporal.ErrNodeNotReturned, Message: message})
		return
	}
	m.record.log.Info("Node returned to service", "leftCordoned", result.LeftCordoned)
	if m.state.Status.LeftCordoned = result.LeftCordoned; result.LeftCordoned && result.Note == "" {
		m.record.note("left cordoned: Drydock's marks were already removed, by an attempt whose reply was lost or manually")
	}
}

// recordWithdrawals records the lock requests that were withdrawn together with the return of the node.
func (m *nodeMaintenance) recordWithdrawals(ctx workflow.Context, result node.ReturnNodeResult, undone error) {
	if undone == nil && !result.NotWithdrawn {
		m.record.stages.End(ctx, maintenancev1.StageNodeMaintenanceRemoved, nil, m.lockNote())
		m.state.Locks.Request = No
	}
	if result.ClusterWithdrawn {
		m.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
		m.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, nil, "")
		m.state.Locks.Cluster.Request = No
	}
}
