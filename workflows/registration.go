package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// Registry takes workflows: a worker, or a replayer of histories.
type Registry interface {
	RegisterWorkflowWithOptions(workflow any, options workflow.RegisterOptions)
}

// Register registers every workflow under its name. In a versioned deployment those that never end move on to the current version; the others
// stay with the version that started them.
func Register(registry Registry, versioned bool) {
	once, entity := workflow.VersioningBehaviorUnspecified, workflow.VersioningBehaviorUnspecified
	if versioned {
		once, entity = workflow.VersioningBehaviorPinned, workflow.VersioningBehaviorAutoUpgrade
	}
	registry.RegisterWorkflowWithOptions(ClusterGroupUpgrade, workflow.RegisterOptions{Name: temporal.ClusterGroupUpgrade, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(ClusterUpgrade, workflow.RegisterOptions{Name: temporal.ClusterUpgrade, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(ClusterPreparation, workflow.RegisterOptions{Name: temporal.ClusterPreparation, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(NodeMaintenance, workflow.RegisterOptions{Name: temporal.NodeMaintenance, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(WorkloadLockController, workflow.RegisterOptions{Name: temporal.WorkloadLockController, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(Sweeper, workflow.RegisterOptions{Name: temporal.Sweeper, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(MaintenanceScheduler, workflow.RegisterOptions{Name: temporal.MaintenanceScheduler, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(HarborCluster, workflow.RegisterOptions{Name: temporal.HarborCluster, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(Onboarding, workflow.RegisterOptions{Name: temporal.Onboarding, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(MaintenanceWindow, workflow.RegisterOptions{Name: temporal.MaintenanceWindow, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(WindowNotification, workflow.RegisterOptions{Name: temporal.WindowNotification, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(StatusPortal, workflow.RegisterOptions{Name: temporal.StatusPortal, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(EmergencyStop, workflow.RegisterOptions{Name: temporal.EmergencyStop, VersioningBehavior: entity})
}
