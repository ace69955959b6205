package history

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
)

func TestARunIncludesItsChildrenAndItsLaterRuns(t *testing.T) {
	run := Run{WorkflowID: "cgu/default/june", RunID: "run-1", Events: []*historypb.HistoryEvent{
		{Attributes: &historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes{
			ChildWorkflowExecutionStartedEventAttributes: &historypb.ChildWorkflowExecutionStartedEventAttributes{
				WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "c1", RunId: "run-c1"},
			},
		}},
		{Attributes: &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
			WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{NewExecutionRunId: "run-2"},
		}},
	}}
	require.Equal(t, []Run{{WorkflowID: "c1", RunID: "run-c1"}, {WorkflowID: "cgu/default/june", RunID: "run-2"}}, run.next())
}
