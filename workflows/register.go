// Package workflows registers Drydock's durable workflows, which are in one package each. Every workflow reads like the runbook of what it
// does: time and order are here, decisions in the pure packages, effects in the activities.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/notification"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/preflight"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/window"
)

// Registry is a worker, or a replayer of histories.
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
	registry.RegisterWorkflowWithOptions(rollout.ClusterGroupUpgrade, workflow.RegisterOptions{Name: temporal.ClusterGroupUpgrade, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(clusterupgrade.ClusterUpgrade, workflow.RegisterOptions{Name: temporal.ClusterUpgrade, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(rollout.ClusterPreparation, workflow.RegisterOptions{Name: temporal.ClusterPreparation, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(nodemaintenance.NodeMaintenance, workflow.RegisterOptions{Name: temporal.NodeMaintenance, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(preflight.Preflight, workflow.RegisterOptions{Name: temporal.Preflight, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(locks.WorkloadLockController, workflow.RegisterOptions{Name: temporal.WorkloadLockController, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(sweeper.Sweeper, workflow.RegisterOptions{Name: temporal.Sweeper, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(slots.MaintenanceScheduler, workflow.RegisterOptions{Name: temporal.MaintenanceScheduler, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(harbor.HarborCluster, workflow.RegisterOptions{Name: temporal.HarborCluster, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(onboarding.Onboarding, workflow.RegisterOptions{Name: temporal.Onboarding, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(window.MaintenanceWindow, workflow.RegisterOptions{Name: temporal.MaintenanceWindow, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(window.WindowNotification, workflow.RegisterOptions{Name: temporal.WindowNotification, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(notification.Notification, workflow.RegisterOptions{Name: temporal.Notification, VersioningBehavior: once})
	registry.RegisterWorkflowWithOptions(portal.StatusPortal, workflow.RegisterOptions{Name: temporal.StatusPortal, VersioningBehavior: entity})
	registry.RegisterWorkflowWithOptions(emergencystop.EmergencyStop, workflow.RegisterOptions{Name: temporal.EmergencyStop, VersioningBehavior: entity})
}
