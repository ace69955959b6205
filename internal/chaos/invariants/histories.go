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
	j := &judgement{run: run, open: map[int64]string{}}
	for _, event := range run.Events {
		j.tasks(event)
		j.began(event)
		j.ended(event)
	}
	j.end()
	return j.violations
}

// Tasks returns the violations in the history of a run that may be open: no workflow task failed because of Drydock.
func Tasks(run history.Run) []string {
	j := &judgement{run: run}
	for _, event := range run.Events {
		j.tasks(event)
	}
	return j.violations
}

// judgement processes the events of a history.
type judgement struct {
	run history.Run
	// open are started and unfinished operations, by the ID of their first event.
	open map[int64]string
	// cancelled are the operations with a requested cancellation.
	cancelled  []int64
	violations []string
}

func (j *judgement) violated(event *historypb.HistoryEvent, format string, args ...any) {
	where := fmt.Sprintf("%s, event %d: ", j.run.WorkflowID, event.GetEventId())
	j.violations = append(j.violations, where+fmt.Sprintf(format, args...))
}

// explained are harmless causes of a failed workflow task: an event arrived during the task, the workflow was reset or
// terminated, or its worker's cache evicted it.
var explained = []enumspb.WorkflowTaskFailedCause{
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
}

func (j *judgement) tasks(event *historypb.HistoryEvent) {
	failed := event.GetWorkflowTaskFailedEventAttributes()
	if failed != nil && !slices.Contains(explained, failed.Cause) {
		j.violated(event, "a workflow task failed: %s: %s", failed.Cause, failed.GetFailure().GetMessage())
	}
}

func (j *judgement) began(event *historypb.HistoryEvent) {
	id := event.GetEventId()
	if a := event.GetActivityTaskScheduledEventAttributes(); a != nil {
		j.open[id] = fmt.Sprintf("activity %s of event %d", a.ActivityType.Name, id)
	}
	if c := event.GetStartChildWorkflowExecutionInitiatedEventAttributes(); c != nil {
		j.open[id] = fmt.Sprintf("child %s of event %d", c.WorkflowId, id)
	}
	if t := event.GetTimerStartedEventAttributes(); t != nil {
		j.open[id] = fmt.Sprintf("timer %s of event %d", t.TimerId, id)
	}
	if s := event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes(); s != nil {
		j.open[id] = fmt.Sprintf("signal %s of event %d", s.SignalName, id)
	}
	if c := event.GetActivityTaskCancelRequestedEventAttributes(); c != nil {
		j.cancelled = append(j.cancelled, c.ScheduledEventId)
	}
}

// ended closes the operation that an event ends. Each kind of event has its own attributes for that.
func (j *judgement) ended(event *historypb.HistoryEvent) {
	ends := []interface{ GetScheduledEventId() int64 }{
		event.GetActivityTaskCompletedEventAttributes(), event.GetActivityTaskFailedEventAttributes(),
		event.GetActivityTaskTimedOutEventAttributes(), event.GetActivityTaskCanceledEventAttributes(),
	}
	for _, end := range ends {
		delete(j.open, end.GetScheduledEventId())
	}
	delete(j.open, event.GetTimerFiredEventAttributes().GetStartedEventId())
	delete(j.open, event.GetTimerCanceledEventAttributes().GetStartedEventId())
	children := []interface{ GetInitiatedEventId() int64 }{
		event.GetStartChildWorkflowExecutionFailedEventAttributes(),
		event.GetChildWorkflowExecutionCompletedEventAttributes(), event.GetChildWorkflowExecutionFailedEventAttributes(),
		event.GetChildWorkflowExecutionCanceledEventAttributes(), event.GetChildWorkflowExecutionTimedOutEventAttributes(),
		event.GetChildWorkflowExecutionTerminatedEventAttributes(),
		event.GetExternalWorkflowExecutionSignaledEventAttributes(), event.GetSignalExternalWorkflowExecutionFailedEventAttributes(),
	}
	for _, end := range children {
		delete(j.open, end.GetInitiatedEventId())
	}
}

// end checks the end of the run. It explains an activity with a requested cancellation, a message that is no longer received, and the pause
// between two messages to a parent; it does not explain a child that runs on, or an effect.
func (j *judgement) end() {
	last := j.run.Events[len(j.run.Events)-1]
	switch last.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
	default:
		j.violated(last, "the run is not closed by itself: its last event is %s", last.EventType)
		return
	}
	for _, id := range sorted(j.open) {
		if !j.forgivable(id) {
			j.violated(last, "%s was started and has no end", j.open[id])
		}
	}
}

// forgivable reports whether the end of the run explains an operation without an end.
func (j *judgement) forgivable(id int64) bool {
	event := j.run.Events[id-1]
	switch event.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return slices.Contains(j.cancelled, id) || event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == tellsOfState
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		return event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().SignalName != temporal.SignalCancel
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		summary := string(event.GetUserMetadata().GetSummary().GetData())
		return strings.Contains(summary, pauseBetweenMessages) || strings.Contains(summary, pauseBeforeResend)
	}
	return false
}

// tellsOfState is the activity that writes an Event of a state. A maintenance does not wait for it, and may end before it is retried.
const tellsOfState = "AnnounceState"

// Summaries of timers that may be open when their workflow ends: between messages to a parent, and before slot requests are sent again.
const (
	pauseBetweenMessages = "gather changes for the parent"
	pauseBeforeResend    = "send the slot requests again"
)
