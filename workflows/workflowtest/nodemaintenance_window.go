package workflowtest

import (
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// MaintenanceInWindow is one that nobody's rollout has, and may begin while the window is open.
func MaintenanceInWindow() nodemaintenance.Input {
	in := WholeMaintenance()
	in.Object.Namespace = "ops"
	in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return in
}
