package nodemaintenance_test

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// Lists and the status of a node select and show maintenances by these search attributes.
func TestAMaintenanceThatARawClientStartsHasItsSearchAttributes(t *testing.T) {
	in := workflowtest.FullMaintenance()
	attributes := map[sdktemporal.SearchAttributeKeyKeyword]string{
		temporal.AttributeCluster: in.Cluster, temporal.AttributeNode: in.Object.Spec.NodeName, temporal.AttributeRequestor: in.Object.Spec.RequestorID,
	}
	for name, known := range map[string]bool{"without attributes": false, "with those of Drydock's clients": true} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			if known {
				var updates []sdktemporal.SearchAttributeUpdate
				for key, value := range attributes {
					updates = append(updates, key.ValueSet(value))
				}
				require.NoError(t, w.SetTypedSearchAttributesOnStart(sdktemporal.NewSearchAttributes(updates...)))
			}
			set := map[sdktemporal.SearchAttributeKeyKeyword]string{}
			w.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(upserted sdktemporal.SearchAttributes) bool {
				for key := range attributes {
					if value, is := upserted.GetKeyword(key); is {
						set[key] = value
					}
				}
				return true
			})).Return(nil)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			if known {
				require.Empty(t, set, "they are there already")
			} else {
				require.Equal(t, attributes, set)
			}
		})
	}
}
