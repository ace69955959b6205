package history_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"drydock.dev/drydock/internal/history"
)

// aRun is a workflow that was started and has scheduled a task, both by a process that says who it is.
func aRun(id, identity string) history.Run {
	return history.Run{WorkflowID: id, RunID: id + "-run", Events: []*historypb.HistoryEvent{
		{
			EventId: 1, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
				WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
					Identity: identity, Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte(`"in"`)}}},
				},
			},
		},
		{
			EventId: 2, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
				WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{Identity: identity},
			},
		},
	}}
}

func TestSavedRunsAreReadWithoutMachineNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v1", "scenario"+history.Suffix)
	require.NoError(t, history.Save(path, []history.Run{aRun("one", "4711@laptop"), aRun("two", "4712@laptop")}))

	runs, err := history.Load(path)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	for i, id := range []string{"one", "two"} {
		want := aRun(id, "anonymous")
		require.Equal(t, want.WorkflowID, runs[i].WorkflowID)
		require.Equal(t, want.RunID, runs[i].RunID)
		require.True(t, proto.Equal(&historypb.History{Events: want.Events}, &historypb.History{Events: runs[i].Events}))
	}
}

func TestAFileThatIsNotACorpusIsNamed(t *testing.T) {
	_, err := history.Load("history.go")
	require.ErrorContains(t, err, "history.go")
}
