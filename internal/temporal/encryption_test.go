package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

const (
	waitLimit    = time.Minute
	pollInterval = 100 * time.Millisecond
)

const planted = "hunter2"

// confide passes a secret through all that a workflow stores, and fails with it.
func confide(ctx workflow.Context, secret string) (string, error) {
	if err := workflow.SetQueryHandler(ctx, "status", func(suffix string) (string, error) { return secret + suffix, nil }); err != nil {
		return "", err
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{temporal.MemoStarted: temporal.SignalRequest{Reason: secret}}); err != nil {
		return "", err
	}
	var more string
	workflow.GetSignalChannel(ctx, "more").Receive(ctx, &more)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, Summary: secret})
	err := workflow.ExecuteActivity(ctx, "refuse", more).Get(ctx, nil)
	return "", err
}

func refuse(_ context.Context, secret string) error {
	return sdktemporal.NewNonRetryableApplicationError("refused "+secret, "Refused", errors.New("because "+secret), secret)
}

func dialWith(t *testing.T, stack *devstack.Stack, keyFile string) client.Client {
	return dial(t, temporal.Connection{Address: stack.Temporal.Address, Namespace: stack.Temporal.Namespace, EncryptionKeyFile: keyFile})
}

func dial(t *testing.T, connection temporal.Connection) client.Client {
	options, err := connection.Options(nil, nil)
	require.NoError(t, err)
	c, err := temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// confidant starts a worker of confide.
func confidant(t *testing.T, stack *devstack.Stack, keyFile string) {
	c := dial(t, temporal.Connection{Address: stack.Temporal.Address, Namespace: stack.Temporal.Namespace, EncryptionKeyFile: keyFile, Worker: true})
	w := worker.New(c, t.Name(), worker.Options{})
	w.RegisterWorkflow(confide)
	w.RegisterActivityWithOptions(refuse, activity.RegisterOptions{Name: "refuse"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// storesNothingReadable reads as Temporal does what a workflow stores.
func storesNothingReadable(t *testing.T, stack *devstack.Stack, plain client.Client) {
	keys := keyFile(t, keyLine("june", "a"))
	c := dialWith(t, stack, keys)
	confidant(t, stack, keys)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: t.Name(), StaticSummary: planted, StaticDetails: planted, Memo: map[string]any{temporal.MemoObject: temporal.Object{Kind: "Node", Name: planted}},
	}, confide, planted)
	require.NoError(t, err)
	require.NoError(t, c.SignalWorkflow(t.Context(), run.GetID(), "", "more", planted))
	err = run.Get(t.Context(), nil)
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	require.True(t, ok)
	require.Equal(t, "refused hunter2", application.Message())
	require.Equal(t, "Refused", application.Type())
	var detail string
	require.NoError(t, application.Details(&detail))
	require.Equal(t, planted, detail)

	stored, read := historyOf(t, plain, run), historyOf(t, c, run)
	require.NotContains(t, stored, planted)
	require.NotContains(t, stored, "aHVudGVyMg", "nor in Base64")
	require.Contains(t, stored, "Encoded failure")
	require.Contains(t, read, "refused hunter2")
	require.NotContains(t, read, "YmluYXJ5L2VuY3J5cHRlZA", "no payload is left with the encoding binary/encrypted")

	described, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	object, err := temporal.ObjectOf(described.GetWorkflowExecutionInfo())
	require.NoError(t, err)
	require.Equal(t, planted, object.Name)
	require.Equal(t, planted, temporal.StartedBy(described.GetWorkflowExecutionInfo().GetMemo()).Reason)
	stripped, err := plain.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	_, err = temporal.ObjectOf(stripped.GetWorkflowExecutionInfo())
	require.ErrorContains(t, err, `read memo field object: the payload is encrypted with key "june", and there are no keys: set --encryption-key-file`)
	require.ErrorContains(t, plain.GetWorkflow(t.Context(), run.GetID(), "").Get(t.Context(), nil), `the payload is encrypted with key "june"`)

	require.Eventually(t, func() bool { // visibility lags
		listed, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + run.GetID() + "'"})
		if err != nil || len(listed.Executions) != 1 {
			return false
		}
		object, err := temporal.ObjectOf(listed.Executions[0])
		return err == nil && object.Name == planted
	}, waitLimit, pollInterval)
}

func historyOf(t *testing.T, c client.Client, run client.WorkflowRun) string {
	history := &historypb.History{}
	for events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		require.NoError(t, err)
		history.Events = append(history.Events, event)
	}
	text, err := protojson.Marshal(history)
	require.NoError(t, err)
	return string(text)
}

// waitsForItsKey: a worker without the key of a workflow fails its task, and continues it when the key is in its file.
func waitsForItsKey(t *testing.T, stack *devstack.Stack, _ client.Client) {
	starter := dialWith(t, stack, keyFile(t, keyLine("june", "a")))
	path := keyFile(t, keyLine("july", "b"))
	confidant(t, stack, path)
	run, err := starter.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, confide, planted)
	require.NoError(t, err)
	require.NoError(t, starter.SignalWorkflow(t.Context(), run.GetID(), "", "more", planted))

	failed := awaitEvent(t, starter, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED).GetWorkflowTaskFailedEventAttributes()
	require.Equal(t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE, failed.Cause)

	writeKeys(t, path, keyLine("july", "b"), keyLine("june", "a"))
	require.ErrorContains(t, run.Get(t.Context(), nil), "key \"july\"", "the starter lacks the key of the result")
	_ = awaitEvent(t, starter, run, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED)
	require.ErrorContains(t, dialWith(t, stack, path).GetWorkflow(t.Context(), run.GetID(), "").Get(t.Context(), nil), "refused hunter2")
}

func awaitEvent(t *testing.T, c client.Client, run client.WorkflowRun, want enumspb.EventType) *historypb.HistoryEvent {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for events := c.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		require.NoError(t, err)
		if event.GetEventType() == want {
			return event
		}
	}
	require.Fail(t, "no such event", "%s", want)
	return nil
}

// survivesForeignKeys: a client may send anything. A query or an update with an unknown key fails, and the workflow answers others.
func survivesForeignKeys(t *testing.T, stack *devstack.Stack, _ client.Client) {
	keys := keyFile(t, keyLine("june", "a"))
	c, foreign := dialWith(t, stack, keys), dialWith(t, stack, keyFile(t, keyLine("mallory", "m")))
	confidant(t, stack, keys)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, confide, planted)
	require.NoError(t, err)
	query := func(from client.Client, limit time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		answer, err := from.QueryWorkflow(ctx, run.GetID(), "", "status", "!")
		if err != nil {
			return "", err
		}
		var status string
		return status, answer.Get(&status)
	}
	status, err := query(c, waitLimit)
	require.NoError(t, err)
	require.Equal(t, "hunter2!", status)
	_, err = query(foreign, 3*time.Second)
	require.Error(t, err)
	status, err = query(c, waitLimit)
	require.NoError(t, err)
	require.Equal(t, "hunter2!", status)
}
