package temporal

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// StatusPortalOptions start the workflow of a portal where it does not run yet: a portal starts with its first object.
func StatusPortalOptions(name string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       StatusPortalID(name),
		TaskQueue:                TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            Cut("status portal "+name, 200),
		StaticDetails:            portalDetails(name),
	}
}
