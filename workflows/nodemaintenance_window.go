package workflows

import (
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// showHold shows what keeps the maintenance from disrupting anything more.
func (m *nodeMaintenance) showHold() {
	m.status.Held = m.holds.of(m.in.Cluster)
	m.record.show()
}

// closed is the maintenance window that keeps the maintenance from beginning; nil: none does.
func (m *nodeMaintenance) closed() *drydockv1.Hold { return m.holds.windows.hold(m.in.Cluster, 0) }

// awaitOpening waits until a maintenance window of the maintenance is open. Until then it asks for no slot, which others can use.
func (m *nodeMaintenance) awaitOpening(ctx workflow.Context) error {
	windows := &m.holds.windows
	for hold := m.closed(); hold != nil; hold = m.closed() {
		m.record.reason.hold(ctx, *hold)
		version := windows.version
		if err := workflow.Await(ctx, func() bool { return windows.version != version }); err != nil {
			return err
		}
	}
	if len(windows.names) > 0 {
		m.record.reason.set(ctx, "", "")
	}
	return nil
}

// giveUpSlot gives back a slot that was granted when the window had closed again.
func (m *nodeMaintenance) giveUpSlot() bool {
	if m.sharing.joined || m.closed() == nil {
		return false
	}
	m.slots.release(scheduling.Release{Namespace: m.in.Object.Namespace, Name: m.in.Object.Name})
	return true
}

// takeBackClosed ends a maintenance at work whose window has closed, and wants that.
func (m *nodeMaintenance) takeBackClosed() {
	hold := m.closed()
	if hold != nil && m.holds.begun && !m.returning && hold.OnOverrun == drydockv1.OverrunCancel {
		m.takeBack(temporal.SignalRequest{Actor: "window " + hold.Window, Reason: hold.Reason})
	}
}
