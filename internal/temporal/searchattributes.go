package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// Search attributes of Drydock's workflows, to find and list rollouts.
var (
	// AttributeGroup is the rollout, as namespace/name.
	AttributeGroup = sdktemporal.NewSearchAttributeKeyKeyword("DrydockGroup")
	// AttributeCluster is the cluster that a workflow works on.
	AttributeCluster = sdktemporal.NewSearchAttributeKeyKeyword("DrydockCluster")
	// AttributeNode is the node that a workflow works on.
	AttributeNode = sdktemporal.NewSearchAttributeKeyKeyword("DrydockNode")
	// AttributePhase is the progress of the work: a condition's reason, a cluster's step or a node's state.
	AttributePhase = sdktemporal.NewSearchAttributeKeyKeyword("DrydockPhase")
	// AttributeReason is the current reason of a wait; unset without a wait.
	AttributeReason = sdktemporal.NewSearchAttributeKeyKeyword("DrydockReason")
	// AttributeRequestor is the requestor of a node's maintenance.
	AttributeRequestor = sdktemporal.NewSearchAttributeKeyKeyword("DrydockRequestor")
	// AttributeBatch is the current batch of a rollout, counted from 1.
	AttributeBatch = sdktemporal.NewSearchAttributeKeyInt64("DrydockBatch")
	// AttributeDeadline is when the work times out.
	AttributeDeadline = sdktemporal.NewSearchAttributeKeyTime("DrydockDeadline")
	// AttributePaused: no new work starts.
	AttributePaused = sdktemporal.NewSearchAttributeKeyBool("DrydockPaused")
)

// SearchAttributes are all search attributes of Drydock's workflows.
func SearchAttributes() []sdktemporal.SearchAttributeKey {
	return []sdktemporal.SearchAttributeKey{
		AttributeGroup, AttributeCluster, AttributeNode, AttributePhase, AttributeReason, AttributeRequestor, AttributeBatch,
		AttributeDeadline, AttributePaused,
	}
}

// MissingSearchAttributes returns the names of Drydock's search attributes that the Temporal namespace lacks, in the order of SearchAttributes. It
// fails if one exists with another type.
func MissingSearchAttributes(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes of Temporal namespace %s: %w", namespace, err)
	}
	var missing []string
	for _, key := range SearchAttributes() {
		found, exists := listed.GetCustomAttributes()[key.GetName()]
		switch {
		case !exists:
			missing = append(missing, key.GetName())
		case found != key.GetValueType():
			return nil, fmt.Errorf("search attribute %s of Temporal namespace %s is of type %s, but must be %s: remove it with `temporal operator search-attribute remove --name %[1]s`",
				key.GetName(), namespace, found, key.GetValueType())
		}
	}
	return missing, nil
}

// RegisterSearchAttributes adds the missing search attributes to the Temporal namespace, and returns their names. It is idempotent and safe to call
// from several programs at once.
func RegisterSearchAttributes(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	missing, err := MissingSearchAttributes(ctx, c, namespace)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	types := map[string]enumspb.IndexedValueType{}
	for _, key := range SearchAttributes() {
		if slices.Contains(missing, key.GetName()) {
			types[key.GetName()] = key.GetValueType()
		}
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: types,
	})
	if _, lost := errors.AsType[*serviceerror.AlreadyExists](err); lost {
		// Another program was faster; it also adds the remaining ones.
		missing, err = MissingSearchAttributes(ctx, c, namespace)
		if err == nil && len(missing) > 0 {
			err = errors.New("another program is adding search attributes: try again")
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("add search attributes %v to Temporal namespace %s: %w", missing, namespace, err)
	}
	return missing, nil
}
