package workflows

import (
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// attributeKeeper keeps search attributes of a workflow. Each time they are set is an event and a write to the server's visibility store: a workflow
// that changes them often gathers what changes in one task.
type attributeKeeper struct {
	ctx       workflow.Context
	gathering bool
	gathered  []sdktemporal.SearchAttributeUpdate
}

// gather makes changes of one workflow task one event, until flush is called. A workflow must do so before it ends: at its end nothing is gathered
// any more.
func (k *attributeKeeper) gather() {
	k.gathering = true
	ctx, _ := workflow.NewDisconnectedContext(k.ctx)
	workflow.GoNamed(ctx, "search attributes", func(ctx workflow.Context) {
		// It wakes when everybody else waits for something.
		for k.gathering && workflow.Await(ctx, func() bool { return len(k.gathered) > 0 }) == nil {
			k.upsert()
		}
	})
}

// set sets an attribute now, or at the end of the task. Of several changes of one, the last counts.
func (k *attributeKeeper) set(update sdktemporal.SearchAttributeUpdate) {
	k.gathered = append(k.gathered, update)
	if !k.gathering {
		k.upsert()
	}
}

// flush sets what was gathered, and whatever comes later at once.
func (k *attributeKeeper) flush() {
	k.gathering = false
	k.upsert()
}

func (k *attributeKeeper) upsert() {
	if len(k.gathered) > 0 {
		_ = workflow.UpsertTypedSearchAttributes(k.ctx, k.gathered...)
		k.gathered = nil
	}
}
