package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
)

// completed returns a succeeded rollout with a worker that answers.
func completed(t *testing.T) *answering {
	a := &answering{t: t, status: longRollout(3)}
	a.status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: ranv1.ReasonCompleted}}
	a.status.Status.CompletedAt = new(metav1.Now())
	return a
}

// follows watches a rollout to its end, and returns the output.
func follows(t *testing.T, temporal client.Client) string {
	t.Helper()
	var out, errOut bytes.Buffer
	c := &cli{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, output: formatTable}
	require.NoError(t, c.watchRollout(t.Context(), &server{Client: temporal}, rolloutSubject("prod", "june")))
	require.Empty(t, errOut.String())
	return out.String()
}

// failingOver is a Temporal client whose first status and history requests fail.
type failingOver struct {
	*answering
	described, followed int
}

func (f *failingOver) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	if f.described++; f.described == 1 {
		return nil, serviceerror.NewUnavailable("connection refused")
	}
	return &client.WorkflowExecutionDescription{WorkflowExecutionMetadata: client.WorkflowExecutionMetadata{WorkflowExecution: workflow.Execution{RunID: "run"}}}, nil
}

func (f *failingOver) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	if f.followed++; f.followed == 1 {
		return unread{}
	}
	return &closeEvent{{}}
}

// unread is a history that cannot be read.
type unread struct{}

func (unread) HasNext() bool                          { return true }
func (unread) Next() (*historypb.HistoryEvent, error) { return nil, context.DeadlineExceeded }

func TestAWatchResumesWhenTemporalIsBack(t *testing.T) {
	output := follows(t, &failingOver{answering: completed(t)})
	require.Contains(t, output, "Temporal does not answer; retrying: describe rollout prod/june: connection refused\n")
	require.Contains(t, output, "Temporal does not answer; retrying: follow rollout prod/june: context deadline exceeded\n")
	require.Contains(t, output, "Completed")
}

// flakyWorker answers every other query. After each query there is a new event; after the fourth the workflow closes.
type flakyWorker struct {
	*answering
	questions int
	news      chan struct{}
}

func (w *flakyWorker) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	return &client.WorkflowExecutionDescription{WorkflowExecutionMetadata: client.WorkflowExecutionMetadata{
		WorkflowExecution: workflow.Execution{RunID: "run"}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}}, nil
}

func (w *flakyWorker) QueryWorkflow(ctx context.Context, id, run, query string, args ...any) (converter.EncodedValue, error) {
	w.questions++
	switch {
	case w.questions < 4:
		w.news <- struct{}{}
	case w.questions == 4:
		close(w.news)
	}
	if w.questions == 1 || w.questions == 3 {
		return nil, serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")
	}
	return w.answering.QueryWorkflow(ctx, id, run, query, args...)
}

func (w *flakyWorker) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return w
}

func (w *flakyWorker) HasNext() bool {
	_, more := <-w.news
	return more
}

func (w *flakyWorker) Next() (*historypb.HistoryEvent, error) {
	return &historypb.HistoryEvent{}, nil
}

func TestEachAbsenceOfWorkersIsReported(t *testing.T) {
	worker := &flakyWorker{answering: completed(t), news: make(chan struct{}, 1)}
	worker.news <- struct{}{}
	require.Equal(t, 2, strings.Count(follows(t, worker), observe.ErrNoWorker.Error()))
}
