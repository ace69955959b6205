package temporal

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// MaintenanceWindowOptions start the workflow of a window, namespace/name, where it does not run yet: its subscribers learn when a person defines it.
func MaintenanceWindowOptions(window string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       MaintenanceWindowPrefix + window,
		TaskQueue:                TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            Cut("maintenance window "+window, 200),
		StaticDetails:            windowDetails(window),
	}
}
