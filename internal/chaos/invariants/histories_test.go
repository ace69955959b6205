package invariants

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

type event = historypb.HistoryEvent

// historyOf numbers events as the server does.
func historyOf(events ...*event) history.Run {
	for i, e := range events {
		e.EventId = int64(i + 1)
	}
	return history.Run{WorkflowID: "cgu/default/june", Events: events}
}

func started() *event { return &event{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED} }

func completed() *event { return &event{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED} }

func activity(name string) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
		Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityType: &commonpb.ActivityType{Name: name},
		}},
	}
}

func activityDone(scheduled int64) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
		Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
			ScheduledEventId: scheduled,
		}},
	}
}

func cancelRequested(scheduled int64) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
		Attributes: &historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes{ActivityTaskCancelRequestedEventAttributes: &historypb.ActivityTaskCancelRequestedEventAttributes{
			ScheduledEventId: scheduled,
		}},
	}
}

func timer(summary string) *event {
	return &event{
		EventType:    enumspb.EVENT_TYPE_TIMER_STARTED,
		UserMetadata: &sdkpb.UserMetadata{Summary: &commonpb.Payload{Data: []byte(`"` + summary + `"`)}},
		Attributes: &historypb.HistoryEvent_TimerStartedEventAttributes{TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{
			TimerId: "7",
		}},
	}
}

func timerFired(started int64) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_TIMER_FIRED,
		Attributes: &historypb.HistoryEvent_TimerFiredEventAttributes{TimerFiredEventAttributes: &historypb.TimerFiredEventAttributes{
			StartedEventId: started,
		}},
	}
}

func child(id string) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
		Attributes: &historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes{
			StartChildWorkflowExecutionInitiatedEventAttributes: &historypb.StartChildWorkflowExecutionInitiatedEventAttributes{WorkflowId: id},
		},
	}
}

func childFailed(initiated int64) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED,
		Attributes: &historypb.HistoryEvent_ChildWorkflowExecutionFailedEventAttributes{ChildWorkflowExecutionFailedEventAttributes: &historypb.ChildWorkflowExecutionFailedEventAttributes{
			InitiatedEventId: initiated,
		}},
	}
}

func signal(name string) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
		Attributes: &historypb.HistoryEvent_SignalExternalWorkflowExecutionInitiatedEventAttributes{
			SignalExternalWorkflowExecutionInitiatedEventAttributes: &historypb.SignalExternalWorkflowExecutionInitiatedEventAttributes{SignalName: name},
		},
	}
}

func taskFailed(cause enumspb.WorkflowTaskFailedCause) *event {
	return &event{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED,
		Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{
			Cause: cause,
		}},
	}
}

func TestACorrectHistoryHasNoViolations(t *testing.T) {
	tests := map[string]history.Run{
		"all operations have ended":                 historyOf(started(), activity("Drain"), timer("batch 1 times out"), child("c"), timerFired(3), activityDone(2), childFailed(4), completed()),
		"an activity with a requested cancellation": historyOf(started(), activity("WatchNodes"), cancelRequested(2), completed()),
		"an Event without an end":                   historyOf(started(), activity(writesEvent), completed()),
		"a pause after the last signal to a parent": historyOf(started(), signal(temporal.SignalNodeProgress), timer(pauseBetweenMessages), completed()),
		"an event arrived during a task":            historyOf(started(), taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND), completed()),
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) { require.Empty(t, History(run)) })
	}
}

func TestATaskCutOffByATerminationIsNotAViolation(t *testing.T) {
	require.Empty(t, Tasks(historyOf(started(), taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND))))
	require.Len(t, Tasks(historyOf(started(), taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR))), 1)
}

func TestViolationsInHistoriesAreFound(t *testing.T) {
	tests := []struct {
		name string
		run  history.Run
		want string
	}{
		{"a running workflow", historyOf(started()), "event 1: the run did not close: its last event is WorkflowExecutionStarted"},
		{
			"a terminated workflow", historyOf(started(), &event{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED}),
			"the run did not close: its last event is WorkflowExecutionTerminated",
		},
		{"an activity without an end", historyOf(started(), activity("ReturnNode"), completed()), "activity ReturnNode of event 2 was started and has no end"},
		{"a child without an end", historyOf(started(), child("c1"), completed()), "child c1 of event 2 was started and has no end"},
		{"a timer without an end", historyOf(started(), timer("batch 1 times out"), completed()), "timer 7 of event 2 was started and has no end"},
		{"a cancellation without an end", historyOf(started(), signal(temporal.SignalCancel), completed()), "signal cancel of event 2 was started and has no end"},
		{"a replay that is not deterministic", historyOf(started(), taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR), completed()), "a workflow task failed: NonDeterministicError"},
		{"a panic", historyOf(started(), taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE), completed()), "a workflow task failed: WorkflowWorkerUnhandledFailure"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			violations := History(test.run)
			require.Len(t, violations, 1)
			require.Contains(t, violations[0], test.want)
		})
	}
}
