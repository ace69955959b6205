package kit

import (
	"go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// SearchAttributes sets search attributes of a workflow. Each upsert is an event and a write to the visibility store. A workflow that changes them often
// gathers the changes of one task.
type SearchAttributes struct {
	Ctx workflow.Context
	// Log shows the reasons of waits, too; nil: it does not.
	Log       log.Logger
	gathering bool
	gathered  []sdktemporal.SearchAttributeUpdate
	// passing: the gathered changes are of a state that is likely over at once. They are written with the next change, or when a wait begins.
	passing bool
	// reason is that of the current wait, written the one that the attribute has, and logged the last one in the log; nil: not known yet.
	reason, written, logged *string
	// message is that of the current wait.
	message string
}

// Gather combines the changes of one workflow task into one event, until Flush is called. A workflow must call Flush before it ends.
func (k *SearchAttributes) Gather() {
	k.gathering = true
	ctx, _ := workflow.NewDisconnectedContext(k.Ctx)
	workflow.GoNamed(ctx, "search attributes", func(ctx workflow.Context) {
		// This coroutine starts first, so it runs again after all others.
		for k.gathering && workflow.Await(ctx, func() bool { return k.changed() || k.unlogged() }) == nil {
			k.logReason()
			if k.changed() {
				k.upsert()
			}
		}
	})
}

// Set sets an attribute now, or at the end of the task while gathering. The last change of an attribute counts.
func (k *SearchAttributes) Set(update sdktemporal.SearchAttributeUpdate) {
	k.passing = false
	k.gathered = append(k.gathered, update)
	if !k.gathering {
		k.upsert()
	}
}

// SetPassing sets an attribute for a state that is likely over at once, while gathering: with the next change, or when a wait begins in that state.
func (k *SearchAttributes) SetPassing(update sdktemporal.SearchAttributeUpdate) {
	k.passing = true
	k.gathered = append(k.gathered, update)
}

// Stay writes the attributes of a state that lasts after all.
func (k *SearchAttributes) Stay() { k.passing = false }

// SetReason sets the attribute for the reason of a wait, if it differs; nil: there is no wait. before is the wait before the first call: an earlier run
// may have set the attribute.
func (k *SearchAttributes) SetReason(before, wait *drydockv1.Wait) {
	if k.written == nil {
		k.written = reasonOfWait(before)
		k.logged = k.written
	}
	if wait != nil {
		k.message = wait.Message
	}
	if k.reason = reasonOfWait(wait); !k.gathering {
		k.upsert()
	}
}

// reasonOfWait is the reason of a wait; empty for nil.
func reasonOfWait(wait *drydockv1.Wait) *string {
	reason := ""
	if wait != nil {
		reason = wait.Reason
	}
	return &reason
}

// Flush sets the gathered attributes and ends the gathering.
func (k *SearchAttributes) Flush() {
	k.gathering = false
	k.upsert()
}

func (k *SearchAttributes) changed() bool {
	if k.passing && (k.reason == nil || *k.reason == "") {
		return false
	}
	return len(k.gathered) > 0 || k.reasonChanged()
}

func (k *SearchAttributes) reasonChanged() bool { return k.reason != nil && *k.reason != *k.written }

func (k *SearchAttributes) upsert() {
	if k.reasonChanged() {
		update := temporal.AttributeReason.ValueUnset()
		if *k.reason != "" {
			update = temporal.AttributeReason.ValueSet(*k.reason)
		}
		k.gathered, k.written = append(k.gathered, update), k.reason
	}
	k.logReason()
	if len(k.gathered) > 0 {
		_ = workflow.UpsertTypedSearchAttributes(k.Ctx, k.gathered...)
		k.gathered = nil
	}
}

func (k *SearchAttributes) unlogged() bool { return k.reason != nil && *k.reason != *k.logged }

// logReason logs the reason of the current wait, or that the wait has ended.
func (k *SearchAttributes) logReason() {
	if !k.unlogged() {
		return
	}
	switch k.logged = k.reason; {
	case k.Log == nil:
	case *k.reason == "":
		k.Log.Info("Wait ended")
	default:
		k.Log.Info("Wait started", "reason", *k.reason, "message", k.message)
	}
}
