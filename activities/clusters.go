package activities

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// Clusters decides about the nodes of a cluster next to its objects.
type Clusters struct {
	Clusters *kube.Clusters
	Waits    Waits
}

// InspectClusterInput says which nodes of which cluster are wanted.
type InspectClusterInput struct {
	Cluster     string                           `json:"cluster"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation"`
}

// InspectCluster returns the nodes to maintain, in order. Errors: InvalidSpec.
func (c *Clusters) InspectCluster(ctx context.Context, in InspectClusterInput) (rollout.NodePlan, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return rollout.NodePlan{}, err
	}
	var nodes corev1.NodeList
	if err := cluster.Cache.List(ctx, &nodes); err != nil {
		return rollout.NodePlan{}, explain(cluster, "list nodes", err)
	}
	plan, err := rollout.PlanNodes(nodes.Items, in.Remediation)
	if err != nil {
		return rollout.NodePlan{}, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	return plan, nil
}

// maintenanceConfig reads the budgets of a cluster.
func maintenanceConfig(ctx context.Context, cluster *kube.Cluster) (maintenancev1.MaintenanceOperatorConfigSpec, error) {
	config, err := snapshot.MaintenanceConfig(ctx, cluster.Cache)
	if several, ok := errors.AsType[snapshot.SeveralConfigs](err); ok {
		err = temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v", cluster.Name, several), several)
	}
	return config, explain(cluster, "read the budgets", err)
}
