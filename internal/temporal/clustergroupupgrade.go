package temporal

import (
	"fmt"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// ClusterGroupUpgradeOptions are the options of a rollout: how the Web UI shows it, and by what it is found.
func ClusterGroupUpgradeOptions(namespace, name, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		StaticSummary: summary,
		StaticDetails: fmt.Sprintf("`drydock upgrade status %[1]s --watch` follows this rollout. `drydock upgrade pause %[1]s`, `resume`, `approve` and `cancel` "+
			"steer it, and so do the signals `pause`, `resume` and `cancel`. "+doNotTerminate, namespace+"/"+name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			AttributeGroup.ValueSet(namespace+"/"+name), AttributePaused.ValueSet(false),
		),
	}
}

// doNotTerminate warns, in the details of a workflow, of the other button beside it in the Web UI.
const doNotTerminate = "To stop it, cancel it: then it cleans up and returns nodes to service. Terminated, it does neither."
