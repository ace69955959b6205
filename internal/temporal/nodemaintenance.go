package temporal

import (
	"fmt"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// NodeMaintenanceOptions are the options of a node maintenance that no rollout starts.
func NodeMaintenanceOptions(cluster, node, requestor string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary: fmt.Sprintf("node %s in %s for %s", node, cluster, requestor),
		StaticDetails: fmt.Sprintf("`drydock node status %[1]s --cluster %[2]s --watch` follows this maintenance. When the work on the node is done, "+
			"`drydock node done %[1]s --cluster %[2]s`, or the signal `done`, returns it. "+doNotTerminate, node, cluster),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			AttributeCluster.ValueSet(cluster), AttributeNode.ValueSet(node), AttributeRequestor.ValueSet(requestor),
		),
	}
}
