package slots

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// slotLog logs the changes of each request and slot.
type slotLog struct {
	log log.Logger
	// reason is why no slot is granted; empty: slots are granted.
	reason string
}

func newSlotLog(ctx workflow.Context, cluster string) *slotLog {
	return &slotLog{log: log.With(workflow.GetLogger(ctx), "cluster", cluster)}
}

// slots logs one line for each change of a request or slot.
func (l *slotLog) slots(changes []scheduling.SlotChange) {
	for _, change := range changes {
		message := changeMessage(change.From, change.To)
		if message == "" {
			continue
		}
		keys := []any{"node", change.Node, "requestor", change.Requestor, "owner", change.Owner.WorkflowID}
		if of := temporal.RolloutOf(change.Owner.WorkflowID); of != "" {
			keys = append(keys, "rollout", of)
		}
		l.log.Info(message, keys...)
	}
}

// blocked logs that the scheduler grants nothing, and why; nil: it grants slots.
func (l *slotLog) blocked(wait *drydockv1.Wait) {
	switch {
	case wait == nil && l.reason != "":
		l.reason = ""
		l.log.Info("Scheduler grants slots")
	case wait != nil && l.reason != wait.Reason:
		l.reason = wait.Reason
		l.log.Info("Scheduler grants no slots", "reason", wait.Reason, "message", wait.Message)
	}
}

// changeMessage returns the log message for a change; empty: it is not logged.
func changeMessage(before, after scheduling.SlotStatus) string {
	held := before == scheduling.SlotGranted || before == scheduling.SlotEnding
	freed := after == scheduling.SlotReturned || after == scheduling.SlotOver
	switch {
	case before == after || before == scheduling.SlotReturned || before == scheduling.SlotOver:
		return ""
	case held && freed:
		return "Slot released"
	case after == scheduling.SlotEnding:
		return "Slot kept, because its maintenance ended without returning the node"
	case before == "" && after == scheduling.SlotGranted:
		return "Slot reported by its owner"
	case after == scheduling.SlotGranted:
		return "Slot granted"
	case after == scheduling.SlotNodeGone:
		return "Slot request ended, because the cluster does not have the node"
	case before == "" && after == scheduling.SlotWaiting:
		return "Slot requested"
	case before != "" && freed:
		return "Slot request cancelled"
	}
	return ""
}
