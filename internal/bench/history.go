package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	workflowhistory "drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

// history is the history of one closed run.
type history struct {
	events []*historypb.HistoryEvent
}

// readAll reads the history of a workflow, followed by those of its later runs and of its children.
func readAll(ctx context.Context, server client.Client, id string) ([]history, error) {
	runs, err := workflowhistory.Read(ctx, server, id)
	var all []history
	for _, run := range runs {
		all = append(all, history{run.Events})
	}
	return all, err
}

// kind is the workflow's type.
func (h history) kind() string {
	return h.events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name
}

func (h history) began() time.Time { return h.events[0].EventTime.AsTime() }

func (h history) ended() time.Time { return h.events[len(h.events)-1].EventTime.AsTime() }

func (h history) took() time.Duration { return h.ended().Sub(h.began()) }

// firstTimer returns when the first timer was started.
func (h history) firstTimer() (time.Time, bool) {
	for _, event := range h.events {
		if event.GetTimerStartedEventAttributes() != nil {
			return event.EventTime.AsTime(), true
		}
	}
	return time.Time{}, false
}

// maintenance reads the node of a maintenance from its history, when it was ready, and when its work was done: the times of the activity RunJob or,
// without a Job, the end of the drain and the start of the health check.
func (h history) maintenance() (node string, ready, released time.Time, err error) {
	attributes := h.events[0].GetWorkflowExecutionStartedEventAttributes().SearchAttributes
	if err := converter.GetDefaultDataConverter().FromPayload(attributes.GetIndexedFields()[temporal.AttributeNode.GetName()], &node); err != nil {
		return "", ready, released, fmt.Errorf("read which node was maintained: %w", err)
	}
	var drain, work int64
	for _, event := range h.events {
		switch activityOf(event) {
		case "RunJob":
			work, ready = event.EventId, event.EventTime.AsTime()
		case "Drain":
			drain = event.EventId
		case "AwaitNodeHealthy":
			if work == 0 {
				released = event.EventTime.AsTime()
			}
			if ready.IsZero() {
				ready = released
			}
		}
		switch event.GetActivityTaskCompletedEventAttributes().GetScheduledEventId() {
		case 0:
		case drain:
			ready = event.EventTime.AsTime()
		case work:
			released = event.EventTime.AsTime()
		}
	}
	if ready.IsZero() || released.IsZero() {
		return "", ready, released, fmt.Errorf("the history of the maintenance of %s has no start or no end of the work", node)
	}
	return node, ready, released, nil
}

// activityOf returns the activity that an event schedules; "" for any other event.
func activityOf(event *historypb.HistoryEvent) string {
	return event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
}

// eventName is an event's type as the temporal CLI writes it, such as ActivityTaskScheduled, and the name of a signal.
func eventName(event *historypb.HistoryEvent) string {
	name := strings.TrimPrefix(event.EventType.String(), "EVENT_TYPE_")
	for _, signal := range []string{
		event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName(), event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName(),
	} {
		if signal != "" {
			name += " " + signal
		}
	}
	return name
}
