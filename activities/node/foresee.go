package node

import (
	"context"
	"slices"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// ForeseeDrainsInput says which drains of which cluster are previewed.
type ForeseeDrainsInput struct {
	Cluster string `json:"cluster"`
	// Node to drain; empty: the nodes that Remediation maintains.
	Node        string                           `json:"node,omitempty"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation,omitzero"`
	Preflight   drain.Preflight                  `json:"preflight"`
}

// ForeseeDrains returns what the drains of nodes would do now, in the order of the maintenances. It changes nothing. Errors: NodeGone, InvalidSpec.
func (n *Activities) ForeseeDrains(ctx context.Context, in ForeseeDrainsInput) ([]drain.Forecast, error) {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	nodes := []string{in.Node}
	if in.Node == "" {
		plan, err := n.InspectCluster(ctx, InspectClusterInput{Cluster: in.Cluster, Remediation: in.Remediation})
		if err != nil {
			return nil, err
		}
		nodes = slices.Concat(plan.ControlPlane, plan.Workers)
	} else if _, err := cluster.Node(ctx, in.Node); err != nil {
		return nil, activitykit.ExplainNode(cluster, in.Node, "read", err)
	}
	forecasts := []drain.Forecast{}
	if in.Preflight.Drain == nil {
		return forecasts, nil
	}
	for _, node := range nodes {
		forecast, err := drain.Foresee(ctx, cluster, node, in.Preflight)
		if err != nil {
			return nil, err
		}
		forecasts = append(forecasts, forecast)
	}
	return forecasts, nil
}
