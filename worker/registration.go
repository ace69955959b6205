package main

import (
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

// registerWorkflows registers every workflow under its name. In a versioned deployment those that never end move on to the current version;
// the others stay with the version that started them.
func registerWorkflows(w worker.WorkflowRegistry, versioned bool) {
	once, entity := workflow.VersioningBehaviorUnspecified, workflow.VersioningBehaviorUnspecified
	if versioned {
		once, entity = workflow.VersioningBehaviorPinned, workflow.VersioningBehaviorAutoUpgrade
	}
	w.RegisterWorkflowWithOptions(workflows.ClusterGroupUpgrade, workflow.RegisterOptions{Name: temporal.ClusterGroupUpgrade, VersioningBehavior: once})
	w.RegisterWorkflowWithOptions(workflows.ClusterUpgrade, workflow.RegisterOptions{Name: temporal.ClusterUpgrade, VersioningBehavior: once})
	w.RegisterWorkflowWithOptions(workflows.NodeMaintenance, workflow.RegisterOptions{Name: temporal.NodeMaintenance, VersioningBehavior: once})
	w.RegisterWorkflowWithOptions(workflows.WorkloadLockController, workflow.RegisterOptions{Name: temporal.WorkloadLockController, VersioningBehavior: entity})
	w.RegisterWorkflowWithOptions(workflows.Sweeper, workflow.RegisterOptions{Name: temporal.Sweeper, VersioningBehavior: entity})
	w.RegisterWorkflowWithOptions(workflows.EmergencyStop, workflow.RegisterOptions{Name: temporal.EmergencyStop, VersioningBehavior: entity})
}

// registerActivities registers every activity by the name of its method.
func registerActivities(w worker.ActivityRegistry, clusters *kube.Clusters, server client.Client) {
	waits := activities.Waits{Temporal: server}
	w.RegisterActivity(&activities.Rollouts{Clusters: clusters})
	w.RegisterActivity(&activities.Holds{Temporal: server})
	w.RegisterActivity(&activities.Clusters{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Nodes{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Drains{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Jobs{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Health{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Locks{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.WorkloadLocks{Clusters: clusters})
	w.RegisterActivity(&activities.Sweeper{Clusters: clusters, Temporal: server})
}
