package nodemaintenance

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// lockState is what a maintenance knows of the workload locks that it asks to let go. It is carried to the next run whole.
type lockState struct {
	// Requested: our NodeMaintenanceRequest may exist. RequestUID is its UID, if known.
	Requested  bool      `json:"requested,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// Answered: the cluster has said whether it serves workload locks. Asked: those of the node were asked to let go. Skipped: the node must not be
	// requested.
	Answered bool `json:"answered,omitempty"`
	Asked    bool `json:"asked,omitempty"`
	Skipped  bool `json:"skipped,omitempty"`
	// ClusterRequested: our ClusterMaintenanceRequest may exist. ClusterRequestUID is its UID, if known. A rollout makes its own, and that of a node
	// only when a lock holds the cluster all the same.
	ClusterRequested  bool      `json:"clusterRequested,omitempty"`
	ClusterRequestUID types.UID `json:"clusterRequestUID,omitempty"`
	// ClusterHeld: a lock of the cluster had not let go when it was asked.
	ClusterHeld bool `json:"clusterHeld,omitempty"`
	// NodeClock and ClusterClock measure how long the locks of the node and those of the cluster have been asked to let go.
	NodeClock    lockClock `json:"nodeClock,omitzero"`
	ClusterClock lockClock `json:"clusterClock,omitzero"`
}

// followLocks records workload locks that hold the node again while it is out of service, until ctx is cancelled. It stops nothing: the application has
// lost the node by then.
func (m *nodeMaintenance) followLocks(ctx workflow.Context) {
	if !m.mayBeHeldAgain {
		return
	}
	// What cannot be seen is not what the maintenance waits for.
	retrier := kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, nil)
	for {
		in := locks.AwaitHeldAgainInput{NodeRef: m.node, Known: m.heldAgain}
		var locks []drydockv1.Blocker
		if retrier.Wait(ctx, "follow the workload locks of "+m.node.Node, nil, "", m.locks.AwaitHeldAgain, in, &locks) != nil || ctx.Err() != nil {
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
