package invariants

import (
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

// History returns the violations in the history of a run: the run is closed, everything that it started has ended, and no workflow task
// failed because of Drydock.
func History(run history.Run) []string {
	c := &checker{run: run, open: map[int64]string{}}
	for _, event := range run.Events {
		c.checkTask(event)
		c.recordStart(event)
		c.recordEnd(event)
	}
	c.checkEnd()
	return c.violations
}

// Tasks returns the violations in the history of a run that may be open: no workflow task failed because of Drydock.
func Tasks(run history.Run) []string {
	c := &checker{run: run}
	for _, event := range run.Events {
		c.checkTask(event)
	}
	return c.violations
}

// checker processes the events of a history.
type checker struct {
	run history.Run
	// open are started and unfinished operations, by the ID of their first event.
	open map[int64]string
	// cancelled are the operations with a requested cancellation.
	cancelled  []int64
	violations []string
}

func (c *checker) violated(event *historypb.HistoryEvent, format string, args ...any) {
	where := fmt.Sprintf("%s, event %d: ", c.run.WorkflowID, event.GetEventId())
	c.violations = append(c.violations, where+fmt.Sprintf(format, args...))
}

// harmlessCauses are causes of a failed workflow task that are no bugs: an event arrived during the task, the workflow was reset or terminated, or
// the cache of its worker evicted it.
var harmlessCauses = []enumspb.WorkflowTaskFailedCause{
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
}

func (c *checker) checkTask(event *historypb.HistoryEvent) {
	failed := event.GetWorkflowTaskFailedEventAttributes()
	if failed != nil && !slices.Contains(harmlessCauses, failed.Cause) {
		c.violated(event, "a workflow task failed: %s: %s", failed.Cause, failed.GetFailure().GetMessage())
	}
}

func (c *checker) recordStart(event *historypb.HistoryEvent) {
	id := event.GetEventId()
	if a := event.GetActivityTaskScheduledEventAttributes(); a != nil {
		c.open[id] = fmt.Sprintf("activity %s of event %d", a.ActivityType.Name, id)
	}
	if child := event.GetStartChildWorkflowExecutionInitiatedEventAttributes(); child != nil {
		c.open[id] = fmt.Sprintf("child %s of event %d", child.WorkflowId, id)
	}
	if t := event.GetTimerStartedEventAttributes(); t != nil {
		c.open[id] = fmt.Sprintf("timer %s of event %d", t.TimerId, id)
	}
	if s := event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes(); s != nil {
		c.open[id] = fmt.Sprintf("signal %s of event %d", s.SignalName, id)
	}
	if cancel := event.GetActivityTaskCancelRequestedEventAttributes(); cancel != nil {
		c.cancelled = append(c.cancelled, cancel.ScheduledEventId)
	}
}

// recordEnd removes the operation that an event ends. Each kind of event has its own attributes for that.
func (c *checker) recordEnd(event *historypb.HistoryEvent) {
	ends := []interface{ GetScheduledEventId() int64 }{
		event.GetActivityTaskCompletedEventAttributes(), event.GetActivityTaskFailedEventAttributes(),
		event.GetActivityTaskTimedOutEventAttributes(), event.GetActivityTaskCanceledEventAttributes(),
	}
	for _, end := range ends {
		delete(c.open, end.GetScheduledEventId())
	}
	delete(c.open, event.GetTimerFiredEventAttributes().GetStartedEventId())
	delete(c.open, event.GetTimerCanceledEventAttributes().GetStartedEventId())
	children := []interface{ GetInitiatedEventId() int64 }{
		event.GetStartChildWorkflowExecutionFailedEventAttributes(),
		event.GetChildWorkflowExecutionCompletedEventAttributes(), event.GetChildWorkflowExecutionFailedEventAttributes(),
		event.GetChildWorkflowExecutionCanceledEventAttributes(), event.GetChildWorkflowExecutionTimedOutEventAttributes(),
		event.GetChildWorkflowExecutionTerminatedEventAttributes(),
		event.GetExternalWorkflowExecutionSignaledEventAttributes(), event.GetSignalExternalWorkflowExecutionFailedEventAttributes(),
	}
	for _, end := range children {
		delete(c.open, end.GetInitiatedEventId())
	}
}

// checkEnd requires that the run closed without a termination and that no operation is open, except those of mayBeOpen.
func (c *checker) checkEnd() {
	last := c.run.Events[len(c.run.Events)-1]
	switch last.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
	default:
		c.violated(last, "the run did not close: its last event is %s", last.EventType)
		return
	}
	for _, id := range sorted(c.open) {
		if !c.mayBeOpen(id) {
			c.violated(last, "%s was started and has no end", c.open[id])
		}
	}
}

// mayBeOpen reports whether an operation may be open at the end of the run: an activity with a requested cancellation or one that writes Events, a
// signal other than cancel, or a pause before signals. A child or any other activity may not.
func (c *checker) mayBeOpen(id int64) bool {
	event := c.run.Events[id-1]
	switch event.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return slices.Contains(c.cancelled, id) || event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == writesEvent
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		return event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().SignalName != temporal.SignalCancel
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		summary := string(event.GetUserMetadata().GetSummary().GetData())
		return strings.Contains(summary, pauseBetweenMessages) || strings.Contains(summary, pauseBeforeResend)
	}
	return false
}

// writesEvent is the activity that writes the Event of a state. A maintenance does not wait for it, and may end before a retry.
const writesEvent = "AnnounceState"

// Summaries of timers that may be open when their workflow ends: between messages to a parent, and before slot requests are sent again.
const (
	pauseBetweenMessages = "gather changes for the parent"
	pauseBeforeResend    = "send the slot requests again"
)
