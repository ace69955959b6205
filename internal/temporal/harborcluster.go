package temporal

import (
	"fmt"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// summaryLimit is the maximum length of a summary in bytes: names may be longer.
const summaryLimit = 200

// HarborClusterOptions are the options of the workflow of a HarborCluster.
func HarborClusterOptions(cluster, namespace, name string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary:         Cut(fmt.Sprintf("Harbor %s/%s in %s", namespace, name, cluster), summaryLimit),
		StaticDetails:         harborDetails(cluster, namespace+"/"+name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(AttributeCluster.ValueSet(cluster)),
	}
}
