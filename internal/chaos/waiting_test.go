package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
)

// waitLimit is long because two cores may run several stacks, and an activity of a crashed worker is retried after its heartbeat timeout.
const waitLimit = 5 * time.Minute

// awaitEvent follows the history of a workflow until an event matches.
func (s *scenarioRun) awaitEvent(t *testing.T, workflow, what string, matches func(*history.HistoryEvent) bool) *history.HistoryEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for events := s.temporal.GetWorkflowHistory(ctx, workflow, "", true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		require.NoError(t, err, "read the history of %s until %s", workflow, what)
		if matches(event) {
			return event
		}
	}
	require.Fail(t, "the workflow ended too early", "%s ended before %s", workflow, what)
	return nil
}

// awaitWaiting waits until an activity has reported what it waits for.
func (s *scenarioRun) awaitWaiting(t *testing.T, workflow, activity string) {
	t.Helper()
	s.awaitEvent(t, workflow, activity+" waits", func(event *history.HistoryEvent) bool {
		signal := event.GetWorkflowExecutionSignaledEventAttributes()
		if signal.GetSignalName() != temporal.SignalObserved {
			return false
		}
		var seen temporal.Observation
		err := converter.GetDefaultDataConverter().FromPayloads(signal.Input, &seen)
		return err == nil && seen.Activity == activity
	})
}

// awaitPhase waits until the search attribute of a workflow has had each of the phases, in order.
func (s *scenarioRun) awaitPhase(t *testing.T, workflow string, phases ...string) {
	t.Helper()
	s.awaitEvent(t, workflow, fmt.Sprintf("it was %q", phases), func(event *history.HistoryEvent) bool {
		if attributeOf(event, temporal.AttributePhase) == phases[0] {
			phases = phases[1:]
		}
		return len(phases) == 0
	})
}

// awaitReason waits until the search attribute of a workflow has that reason.
func (s *scenarioRun) awaitReason(t *testing.T, workflow, reason string) {
	t.Helper()
	s.awaitEvent(t, workflow, "it waits because of "+reason, func(event *history.HistoryEvent) bool {
		return attributeOf(event, temporal.AttributeReason) == reason
	})
}

// attributeOf returns the value to which an event sets a search attribute; empty if it does not.
func attributeOf(event *history.HistoryEvent, key sdktemporal.SearchAttributeKeyKeyword) (value string) {
	fields := event.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
	if payload := fields[key.GetName()]; payload != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(payload, &value) // empty if it is unset
	}
	return value
}

// awaitStatus waits until the status of a workflow satisfies a condition, and returns it.
func awaitStatus[S any](t *testing.T, s *scenarioRun, workflow, what string, matches func(S) bool) (status S) {
	t.Helper()
	require.Eventually(t, func() bool {
		status = *new(S)
		answer, err := s.temporal.QueryWorkflow(t.Context(), workflow, "", temporal.QueryStatus)
		return err == nil && answer.Get(&status) == nil && matches(status)
	}, waitLimit, 100*time.Millisecond, "%s never %s: %+v", workflow, what, &status)
	return status
}

// awaitScheduled waits until a workflow has scheduled an activity.
func (s *scenarioRun) awaitScheduled(t *testing.T, workflow, activity string) {
	t.Helper()
	s.awaitEvent(t, workflow, activity+" is scheduled", func(event *history.HistoryEvent) bool {
		return event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activity
	})
}

// awaitCompleted waits until an activity has succeeded, and the next workflow task is completed.
func (s *scenarioRun) awaitCompleted(t *testing.T, workflow, activity string) {
	t.Helper()
	var scheduled int64
	completed := false
	s.awaitEvent(t, workflow, activity+" is completed", func(event *history.HistoryEvent) bool {
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activity {
			scheduled = event.EventId
		}
		if done := event.GetActivityTaskCompletedEventAttributes(); done != nil && scheduled != 0 {
			completed = completed || done.ScheduledEventId == scheduled
		}
		return completed && event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// awaitChild waits until a workflow has started that child.
func (s *scenarioRun) awaitChild(t *testing.T, workflow, child string) {
	t.Helper()
	s.awaitEvent(t, workflow, child+" is started", func(event *history.HistoryEvent) bool {
		return event.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution().GetWorkflowId() == child
	})
}

// awaitStopped waits until the proxy has stopped a request whose client still waits.
func awaitStopped(t *testing.T, injection *faultproxy.Injection) *faultproxy.Stopped {
	t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		select {
		case stopped := <-injection.Stopped():
			select {
			case <-stopped.Ended():
			default:
				return stopped
			}
		case <-limit.C:
			require.Fail(t, "no request was stopped")
		}
	}
}

// pending returns the pending activities of a workflow, and those of its pending children after a colon.
func (s *scenarioRun) pending(t *testing.T, workflow string) []string {
	t.Helper()
	description, err := s.temporal.DescribeWorkflowExecution(t.Context(), workflow, "")
	require.NoError(t, err)
	var names []string
	for _, activity := range description.PendingActivities {
		names = append(names, activity.ActivityType.Name)
	}
	for _, child := range description.PendingChildren {
		for _, name := range s.pending(t, child.WorkflowId) {
			names = append(names, child.WorkflowTypeName+": "+name)
		}
	}
	return names
}

// awaitPending waits until an activity is pending, and returns all pending activities.
func (s *scenarioRun) awaitPending(t *testing.T, workflow, activity string) []string {
	t.Helper()
	if activity == "" {
		return s.pending(t, workflow)
	}
	var names []string
	require.Eventually(t, func() bool {
		names = s.pending(t, workflow)
		return slices.Contains(names, activity)
	}, waitLimit, 20*time.Millisecond, "%s has not started in %s", activity, workflow)
	return names
}

// requireEnd waits for the end of work, and requires its result.
func (s *scenarioRun) requireEnd(t *testing.T, w *work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	err := s.temporal.GetWorkflow(ctx, w.workflow, "").Get(ctx, nil)
	require.NoError(t, ctx.Err(), "%s does not end; its nodes are %v", w.workflow, w.nodes)
	end := ended
	switch {
	case sdktemporal.IsCanceledError(err):
		end = cancelled
	case errors.As(err, new(*sdktemporal.TerminatedError)):
		end = terminated
	case err != nil:
		end = temporal.ErrorType(err)
	}
	require.Equal(t, w.end, end, "how %s ended: %v", w.workflow, err)
}

// Results of work, in addition to error types.
const (
	ended      = "Completed"
	cancelled  = "Cancelled"
	terminated = "Terminated"
)
