package temporal

import (
	"fmt"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// WorkloadLockControllerOptions are the options of a lock controller.
func WorkloadLockControllerOptions(cluster, controllerName string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary:         fmt.Sprintf("workload locks of %s in %s", controllerName, cluster),
		StaticDetails:         lockControllerDetails(cluster, controllerName),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(AttributeCluster.ValueSet(cluster)),
	}
}
