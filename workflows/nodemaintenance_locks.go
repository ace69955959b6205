package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// followLocks records workload locks that hold the node again while it is out of service, until ctx is cancelled. It stops nothing: the application has
// lost the node by then.
func (m *nodeMaintenance) followLocks(ctx workflow.Context) {
	if !m.mayBeHeldAgain {
		return
	}
	// What cannot be seen is not what the maintenance waits for.
	insist := onCluster(m.in.Cluster, &m.in.TaskQueue, func(workflow.Context, string, string) {})
	for {
		in := activities.AwaitHeldAgainInput{NodeRef: m.node, Known: m.heldAgain}
		var locks []drydockv1.Blocker
		if insist.wait(ctx, "follow the workload locks of "+m.node.Node, nil, "", m.locks.AwaitHeldAgain, in, &locks) != nil || ctx.Err() != nil {
			return
		}
		m.recordHeldAgain(locks)
	}
}

// recordHeldAgain notes each lock once, however often it is taken.
func (m *nodeMaintenance) recordHeldAgain(locks []drydockv1.Blocker) {
	for _, lock := range locks {
		if slices.Contains(m.heldAgain, lock.Name) {
			continue
		}
		m.heldAgain = append(m.heldAgain, lock.Name)
		m.record.note(fmt.Sprintf("%s held the node again before it was returned: %s", lock, lock.Message))
	}
}
