package activities

import (
	"context"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Health looks whether nodes and clusters are well.
type Health struct{}

// AwaitNodeHealthyInput says what must hold on a node.
type AwaitNodeHealthyInput struct {
	NodeRef
	// Since is when the step that is judged began; older evidence does not count.
	Since time.Time `json:"since"`
	// Deadline for the node being Ready and its DaemonSet pods ready; each of Checks has its own limit.
	Deadline *time.Time              `json:"deadline,omitempty"`
	Checks   []drydockv1.HealthCheck `json:"checks,omitempty"`
}

// AwaitNodeHealthy waits until the node is Ready, its DaemonSet pods are ready and every check holds.
// Errors: HealthGateFailed (with blockers), NodeGone.
func (h *Health) AwaitNodeHealthy(ctx context.Context, in AwaitNodeHealthyInput) error {
	return errNotBuilt
}

// AwaitClusterHealthyInput says what must hold in a cluster after its nodes were maintained.
type AwaitClusterHealthyInput struct {
	Cluster string `json:"cluster"`
	// Nodes that were maintained and must be Ready and free of marks.
	Nodes    []string                `json:"nodes"`
	Since    time.Time               `json:"since"`
	Deadline *time.Time              `json:"deadline,omitempty"`
	Checks   []drydockv1.HealthCheck `json:"checks,omitempty"`
}

// AwaitClusterHealthy waits until every maintained node that still exists is Ready and every check holds.
// Errors: HealthGateFailed (with blockers).
func (h *Health) AwaitClusterHealthy(ctx context.Context, in AwaitClusterHealthyInput) error {
	return errNotBuilt
}
