package slots

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// slotLog logs the changes of each request and slot, by comparing the state of the scheduler with the previous one.
type slotLog struct {
	log  log.Logger
	last []loggedSlot
	// reason is why no slot is granted; empty: slots are granted.
	reason string
}

// loggedSlot is a request, or the slot granted for it. Its owner and number identify it.
type loggedSlot struct {
	owner  scheduling.SlotOwner
	number int64
	// node and requestor are those of the maintenance.
	node, requestor string
	status          scheduling.SlotStatus
}

// newSlotLog starts with the logged state of the previous run.
func newSlotLog(ctx workflow.Context, cluster string, carried *scheduling.SlotState) *slotLog {
	return &slotLog{log: log.With(workflow.GetLogger(ctx), "cluster", cluster), last: loggedSlots(carried)}
}

// slots logs changed requests and slots, in the order of the requests.
func (l *slotLog) slots(state *scheduling.SlotState) {
	type key struct {
		owner  scheduling.SlotOwner
		number int64
	}
	slots := loggedSlots(state)
	current := make(map[key]scheduling.SlotStatus, len(slots))
	for _, slot := range slots {
		current[key{slot.owner, slot.number}] = slot.status
	}
	for _, slot := range l.last {
		id := key{slot.owner, slot.number}
		status, listed := current[id]
		if !listed {
			status = scheduling.SlotOver
		}
		l.change(slot, slot.status, status)
		delete(current, id)
	}
	for _, slot := range slots {
		if _, unknown := current[key{slot.owner, slot.number}]; unknown {
			l.change(slot, "", slot.status)
		}
	}
	l.last = slots
}

// change logs one line for a request or slot whose status has changed from before to after.
func (l *slotLog) change(slot loggedSlot, before, after scheduling.SlotStatus) {
	if message := changeMessage(before, after); message != "" {
		keys := []any{"node", slot.node, "requestor", slot.requestor, "owner", slot.owner.WorkflowID}
		if of := temporal.RolloutOf(slot.owner.WorkflowID); of != "" {
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

func loggedSlots(state *scheduling.SlotState) (slots []loggedSlot) {
	for _, requester := range state.Requesters {
		for _, entry := range requester.Slots {
			slots = append(slots, loggedSlot{requester.Owner, entry.Number, entry.Node, entry.Requestor, entry.Status})
		}
	}
	return slots
}
