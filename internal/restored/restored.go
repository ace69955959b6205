// Package restored holds all work of a Temporal whose database was restored from a backup, before workers start. What happened after the backup is not in
// the restored workflows: without a hold they would repeat it.
package restored

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// holdable are the workflow types that handle temporal.SignalHeld.
func holdable() []string {
	return []string{
		temporal.ClusterGroupUpgrade, temporal.ClusterPreparation, temporal.ClusterUpgrade,
		temporal.HarborCluster, temporal.MaintenanceScheduler, temporal.NodeMaintenance,
	}
}

// Hold holds every cluster, and returns how many running workflows know it before they continue. The restored emergency stop is replaced: the new one also has
// the holds that the hub has, which may be later than the backup. Repeated, it holds again.
func Hold(ctx context.Context, server client.Client, request emergency.Request) (notified int, err error) {
	request.All, request.Clusters = true, nil
	if err := request.Check(); err != nil {
		return 0, err
	}
	err = server.TerminateWorkflow(ctx, temporal.EmergencyStopID, "", request.Reason)
	if _, none := errors.AsType[*serviceerror.NotFound](err); err != nil && !none {
		return 0, fmt.Errorf("end the restored emergency stop: %w", err)
	}
	stop, err := server.SignalWithStartWorkflow(ctx, temporal.EmergencyStopID, temporal.SignalHold, request, temporal.EmergencyStopOptions(), temporal.EmergencyStop)
	if err != nil {
		return 0, fmt.Errorf("start the emergency stop: %w", err)
	}
	started, err := server.DescribeWorkflowExecution(ctx, stop.GetID(), stop.GetRunID())
	if err != nil {
		return 0, fmt.Errorf("read when the emergency stop was started: %w", err)
	}
	// Its first state has a later number than this one, because that is the time when it runs.
	since := started.GetWorkflowExecutionInfo().GetStartTime().AsTime()
	held, _ := emergency.Initial(since).Hold(request, since)
	// Also those that have ended: the database of visibility may have been saved later, and have seen the end of what runs again.
	query := fmt.Sprintf("WorkflowType IN ('%s')", strings.Join(holdable(), "', '"))
	workflows, err := observe.Executions(ctx, server, query, 0)
	if err != nil {
		return 0, fmt.Errorf("find the workflows: %w", err)
	}
	signalled := map[string]bool{}
	for _, execution := range workflows {
		id := execution.GetExecution().GetWorkflowId()
		if signalled[id] {
			continue
		}
		signalled[id] = true
		err := server.SignalWorkflow(ctx, id, "", temporal.SignalHeld, held)
		if _, closed := errors.AsType[*serviceerror.NotFound](err); closed {
			continue
		}
		if err != nil {
			return notified, fmt.Errorf("hold workflow %s: %w", id, err)
		}
		notified++
	}
	return notified, nil
}
