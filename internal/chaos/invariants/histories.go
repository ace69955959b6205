package invariants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/temporal"
)

// History is all that happened in one run of a workflow.
type History struct {
	WorkflowID, RunID string
	Events            []*historypb.HistoryEvent
}

// Histories reads a workflow's history with those of its children, and of all runs that continue them.
func Histories(ctx context.Context, server client.Client, workflowID string) ([]History, error) {
	first, err := firstRun(ctx, server, workflowID)
	if err != nil {
		return nil, err
	}
	var histories []History
	for pending := []History{first}; len(pending) > 0; pending = pending[1:] {
		h := pending[0]
		if len(h.Events) == 0 {
			if h, err = read(ctx, server, h.WorkflowID, h.RunID); err != nil {
				return nil, err
			}
		}
		histories = append(histories, h)
		pending = append(pending, h.others()...)
	}
	return histories, nil
}

// firstRun reads the run that the latest one of a workflow began with.
func firstRun(ctx context.Context, server client.Client, workflowID string) (History, error) {
	latest, err := read(ctx, server, workflowID, "")
	if err != nil {
		return History{}, err
	}
	return read(ctx, server, workflowID, latest.Events[0].GetWorkflowExecutionStartedEventAttributes().GetFirstExecutionRunId())
}

func read(ctx context.Context, server client.Client, workflowID, runID string) (History, error) {
	h := History{WorkflowID: workflowID, RunID: runID}
	for events := server.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			return History{}, fmt.Errorf("read the history of %s: %w", workflowID, err)
		}
		h.Events = append(h.Events, event)
	}
	if len(h.Events) == 0 {
		return History{}, errors.New("the history of " + workflowID + " is empty")
	}
	return h, nil
}

// others are the runs that this one has led to: children, and the run that continues it.
func (h History) others() []History {
	var others []History
	for _, event := range h.Events {
		if child := event.GetChildWorkflowExecutionStartedEventAttributes(); child != nil {
			others = append(others, History{WorkflowID: child.WorkflowExecution.WorkflowId, RunID: child.WorkflowExecution.RunId})
		}
		if next := event.GetWorkflowExecutionContinuedAsNewEventAttributes(); next != nil {
			others = append(others, History{WorkflowID: h.WorkflowID, RunID: next.NewExecutionRunId})
		}
	}
	return others
}

// Violations returns what is not as it must be in a history: it is closed, whatever was begun in it has its end, and no workflow task
// failed for a cause of our own.
func (h History) Violations() []string {
	j := &judgement{history: h, open: map[int64]string{}}
	for _, event := range h.Events {
		j.tasks(event)
		j.began(event)
		j.ended(event)
	}
	j.end()
	return j.violations
}

// judgement goes through the events of a history.
type judgement struct {
	history History
	// open is what has begun and not ended, by the id of the event that began it.
	open map[int64]string
	// cancelled are those of them that were asked to end.
	cancelled  []int64
	violations []string
}

func (j *judgement) violated(event *historypb.HistoryEvent, format string, args ...any) {
	where := fmt.Sprintf("%s, event %d: ", j.history.WorkflowID, event.GetEventId())
	j.violations = append(j.violations, where+fmt.Sprintf(format, args...))
}

// explained are the causes of a failed workflow task that are no fault: an event came in while the task was at work, somebody has reset the
// workflow, or its worker's cache was given up.
var explained = []enumspb.WorkflowTaskFailedCause{
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
	enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
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

// ended closes what an event is the end of. Each kind of event says in its own attributes what that is.
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

// end judges how the run ended. Its end explains an activity that was asked to end, a message that nobody waits for any more, and the pause
// between two messages to a parent; it does not explain a child that runs on, or an effect.
func (j *judgement) end() {
	last := j.history.Events[len(j.history.Events)-1]
	switch last.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
	default:
		j.violated(last, "the run is not closed by itself: its last event is %s", last.EventType)
		return
	}
	for _, id := range sorted(j.open) {
		if !j.forgivable(id) {
			j.violated(last, "%s was begun and has no end", j.open[id])
		}
	}
}

// forgivable reports whether the end of the run explains that something has no end of its own.
func (j *judgement) forgivable(id int64) bool {
	event := j.history.Events[id-1]
	switch event.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return slices.Contains(j.cancelled, id)
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		return event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().SignalName != temporal.SignalCancel
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		return strings.Contains(string(event.GetUserMetadata().GetSummary().GetData()), pauseBetweenMessages)
	}
	return false
}

// pauseBetweenMessages is the summary of the timer that runs between two messages to a parent.
const pauseBetweenMessages = "gather further changes for the parent"
