package activities

import (
	"context"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// Clusters decides about the nodes of a cluster next to its objects.
type Clusters struct{}

// InspectClusterInput says which nodes of which cluster are wanted.
type InspectClusterInput struct {
	Cluster     string                           `json:"cluster"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation"`
}

// InspectCluster returns the nodes to maintain, in order (rollout.NodePlan).
func (c *Clusters) InspectCluster(ctx context.Context, in InspectClusterInput) (rollout.NodePlan, error) {
	return rollout.NodePlan{}, errNotBuilt
}

// AwaitGrantsInput says which nodes wait for a slot and which have one.
type AwaitGrantsInput struct {
	Cluster string `json:"cluster"`
	// Pending nodes in order of their turn.
	Pending []string `json:"pending"`
	// Running nodes hold a slot.
	Running []string `json:"running,omitempty"`
}

// AwaitGrants waits until the cluster's budgets (MaintenanceOperatorConfig) let at least one pending node go, and returns those that may.
func (c *Clusters) AwaitGrants(ctx context.Context, in AwaitGrantsInput) ([]string, error) {
	return nil, errNotBuilt
}
