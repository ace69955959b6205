package nodemaintenance

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// awaitNode waits until a maintenance window is open and the maintenance has a slot.
func (m *nodeMaintenance) awaitNode(ctx workflow.Context) error {
	for {
		if err := m.awaitOpening(ctx); err != nil {
			return err
		}
		if err := m.awaitSlot(ctx); err != nil {
			return err
		}
		if m.closedWindow() == nil {
			return nil
		}
		m.cancelSlotRequest()
	}
}

// awaitSlot waits until the scheduler of the cluster grants a slot. The maintenance of a rollout has one already.
func (m *nodeMaintenance) awaitSlot(ctx workflow.Context) error {
	if m.in.Slot != nil {
		return nil
	}
	m.requestSlot()
	if err := m.awaitGate(ctx, gateSlot, func() bool { return !m.slots.AnyWaiting() || m.mayRest(ctx) }); err != nil {
		return err
	}
	if len(m.slots.PopNodesGone()) > 0 {
		return activitykit.NodeGone(m.in.Cluster, m.node.Node)
	}
	if !m.slots.AnyWaiting() {
		m.record.log.Info("Slot granted")
	}
	return nil
}

// requestSlot requests a slot for the node, unless it is requested or granted already.
func (m *nodeMaintenance) requestSlot() {
	if m.slots.Held(m.in.Object.Name) == nil {
		m.record.log.Info("Slot requested")
	}
	m.slots.Request(m.in.Object.Name, m.node.Node, m.state.Status.StartedAt.Time)
}

// slotTrouble returns why the scheduler has granted no slot yet.
func (m *nodeMaintenance) slotTrouble() *drydockv1.Wait { return cmp.Or(m.slots.Trouble, m.slots.Wait) }

// leaveQueue cancels a slot request that was not granted: cleanup may take long, and other requests wait behind it.
func (m *nodeMaintenance) leaveQueue() {
	if m.slots.AnyWaiting() {
		m.cancelSlotRequest()
	}
}

// cancelSlotRequest releases the slot, or cancels the slot request, of a node that was not cordoned.
func (m *nodeMaintenance) cancelSlotRequest() {
	m.logSlotRelease()
	m.slots.Release(m.in.Object.Name, scheduling.Release{})
}

// logSlotRelease logs what a release ends: the slot or its request. Without either, nothing changes.
func (m *nodeMaintenance) logSlotRelease() {
	switch {
	case m.slots.Granted(m.in.Object.Name):
		m.record.log.Info("Slot released")
	case m.slots.AnyWaiting():
		m.record.log.Info("Slot request cancelled")
	}
}

// releaseSlot releases the slot, or cancels the slot request, at the end of a maintenance. A node that could not be returned still counts as under
// maintenance.
func (m *nodeMaintenance) releaseSlot(ctx workflow.Context, err error) {
	switch {
	case m.state.Return.ParentSlot == SlotReturned:
	case m.in.Slot == nil:
		m.logSlotRelease()
		m.slots.Release(m.in.Object.Name, scheduling.Release{Unclean: m.state.Status.NotReturned, LeftOut: m.state.Status.LeftCordoned})
		_ = m.slots.Settle(ctx)
	case m.returnsParentSlot(err):
		m.returnParentSlot(ctx)
	}
}

// returnsParentSlot reports whether the maintenance has completed and so returns the slot of its parent. Otherwise the parent must learn of the end before
// the slot is free, because it may have to stop.
func (m *nodeMaintenance) returnsParentSlot(err error) bool {
	return m.in.Slot != nil && m.endState(err) == maintenancev1.NodeCompleted
}

// returnParentSlot returns the slot of the parent to the scheduler. If the scheduler is not running, this starts it, and it asks the parent for its slots.
func (m *nodeMaintenance) returnParentSlot(ctx workflow.Context) {
	in := scheduler.ReturnSlotInput{Cluster: m.in.Cluster, Return: m.in.Slot.Return(m.state.Status.LeftCordoned)}
	err := m.hubRetrier().Run(ctx, "return the slot of "+m.node.Node, m.scheduler.ReturnSlot, in, nil)
	if err == nil && m.state.Return.ParentSlot == SlotHeld {
		m.state.Return.ParentSlot = SlotReturned
	}
	m.record.log.Info("Slot of the rollout returned", "error", err)
}
