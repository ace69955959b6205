package temporal

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// EmergencyStopOptions start the emergency stop where it does not run yet.
func EmergencyStopOptions() client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       EmergencyStopID,
		TaskQueue:                TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "emergency stop: holds",
		StaticDetails:            "`drydock hold --all`, or the signal `hold`, starts no new disruption anywhere. `drydock release --all` continues.",
	}
}
