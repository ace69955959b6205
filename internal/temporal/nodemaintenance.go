package temporal

import (
	"fmt"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// NodeMaintenanceOptions are the options of a node maintenance that no rollout starts.
func NodeMaintenanceOptions(cluster, node, requestor string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary: fmt.Sprintf("node %s in %s for %s", node, cluster, requestor),
		StaticDetails: MaintenanceDetails(cluster, node),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			AttributeCluster.ValueSet(cluster), AttributeNode.ValueSet(node), AttributeRequestor.ValueSet(requestor),
			AttributePhase.ValueSet(string(maintenancev1.NodePending)),
		),
	}
}
