package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// InspectClusterInput says which nodes of which cluster are wanted.
type InspectClusterInput struct {
	Cluster     string                           `json:"cluster"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation"`
}

// InspectCluster returns the nodes to maintain, in order. Errors: InvalidSpec.
func (c *Activities) InspectCluster(ctx context.Context, in InspectClusterInput) (rollout.NodePlan, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return rollout.NodePlan{}, err
	}
	var nodes corev1.NodeList
	if err := cluster.Cache.List(ctx, &nodes); err != nil {
		return rollout.NodePlan{}, activitykit.Explain(cluster, "list nodes", err)
	}
	plan, err := rollout.PlanNodes(nodes.Items, in.Remediation)
	if err != nil {
		return rollout.NodePlan{}, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	return plan, nil
}
