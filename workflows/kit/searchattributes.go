package kit

import (
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// SearchAttributes sets search attributes of a workflow. Each upsert is an event and a write to the visibility store. A workflow that changes them often
// gathers the changes of one task.
type SearchAttributes struct {
	Ctx       workflow.Context
	gathering bool
	gathered  []sdktemporal.SearchAttributeUpdate
}

// Gather combines the changes of one workflow task into one event, until Flush is called. A workflow must call Flush before it ends.
func (k *SearchAttributes) Gather() {
	k.gathering = true
	ctx, _ := workflow.NewDisconnectedContext(k.Ctx)
	workflow.GoNamed(ctx, "search attributes", func(ctx workflow.Context) {
		// This coroutine starts first, so it runs again after all others.
		for k.gathering && workflow.Await(ctx, func() bool { return len(k.gathered) > 0 }) == nil {
			k.upsert()
		}
	})
}

// Set sets an attribute now, or at the end of the task while gathering. The last change of an attribute counts.
func (k *SearchAttributes) Set(update sdktemporal.SearchAttributeUpdate) {
	k.gathered = append(k.gathered, update)
	if !k.gathering {
		k.upsert()
	}
}

// Flush sets the gathered attributes and ends the gathering.
func (k *SearchAttributes) Flush() {
	k.gathering = false
	k.upsert()
}

func (k *SearchAttributes) upsert() {
	if len(k.gathered) > 0 {
		_ = workflow.UpsertTypedSearchAttributes(k.Ctx, k.gathered...)
		k.gathered = nil
	}
}
