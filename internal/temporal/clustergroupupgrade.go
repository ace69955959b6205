package temporal

import (
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// ClusterGroupUpgradeOptions are the options of a rollout: how the Web UI shows it, and by what it is found.
func ClusterGroupUpgradeOptions(namespace, name, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary: summary,
		StaticDetails: RolloutDetails(namespace + "/" + name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			AttributeGroup.ValueSet(namespace+"/"+name), AttributePaused.ValueSet(false),
		),
	}
}
