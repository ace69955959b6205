package kit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

// answering is a workflow whose activities run in a worker that may only answer its tasks.
type answering struct {
	*workflowtest.World
	received []temporal.Observation
	attempts []time.Time
	// handled is the signal that the workflow handles; empty: observed.
	handled string
}

func newAnswering(t *testing.T) *answering {
	a := &answering{World: workflowtest.NewWorld(t)}
	a.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &temporal.WorkerShutdown{}, &temporal.AnswersOnly{}},
	})
	a.SetContextPropagators([]workflow.ContextPropagator{temporal.AttemptHeaders(temporal.DataConverter())})
	return a
}

// run runs a workflow with one activity, and returns its result and error.
func (a *answering) run(retrier kit.Retrier, attempt func(context.Context) (string, error)) (result string, err error) {
	a.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		a.Mu.Lock()
		a.attempts = append(a.attempts, a.Now())
		a.Mu.Unlock()
		return attempt(ctx)
	}, activity.RegisterOptions{Name: "Work"})
	a.ExecuteWorkflow(func(ctx workflow.Context, _ string) (string, error) {
		kit.OnSignal(ctx, cmp.Or(a.handled, temporal.SignalObserved), "", func(o temporal.Observation) { a.received = append(a.received, o) })
		retrier.TaskQueue = temporal.ClusterTaskQueue("c1")
		var done string
		err := retrier.Run(ctx, "work", "Work", nil, &done)
		return done, err
	}, "")
	require.True(a.T, a.IsWorkflowCompleted())
	if err := a.GetWorkflowError(); err != nil {
		return "", err
	}
	return result, a.GetWorkflowResult(&result)
}

func TestAMessageEndsAnAttemptAndTheNextOneContinues(t *testing.T) {
	a := newAnswering(t)
	result, err := a.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		var steps int
		temporal.StateOf(ctx, &steps)
		if steps == 3 {
			return "after 3 messages", nil
		}
		ends, err := temporal.AnswerWith(ctx, temporal.SignalObserved, temporal.Observation{Part: string(rune('a' + steps))}, steps+1)
		require.True(t, ends)
		require.NoError(t, err)
		<-ctx.Done()
		return "", ctx.Err()
	})
	require.NoError(t, err)
	require.Equal(t, "after 3 messages", result)
	require.Equal(t, []temporal.Observation{{Part: "a"}, {Part: "b"}, {Part: "c"}}, a.received)
	require.Len(t, a.attempts, 4)
}

func TestTheResultOfAnActivityCountsMoreThanItsMessage(t *testing.T) {
	a := newAnswering(t)
	result, err := a.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		_, err := temporal.AnswerWith(ctx, temporal.SignalObserved, temporal.Observation{Part: "late"}, nil)
		return "done", err
	})
	require.NoError(t, err)
	require.Equal(t, "done", result)
	require.Empty(t, a.received)
}

// A stolen worker must not send what people and other workflows send.
func TestAMessageThatNoActivitySendsIsIgnored(t *testing.T) {
	a := newAnswering(t)
	a.handled = temporal.SignalSlotResponse
	result, err := a.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		if temporal.StateOf(ctx, new(int)) {
			return "done", nil
		}
		_, _ = temporal.AnswerWith(ctx, temporal.SignalSlotResponse, temporal.Observation{}, 1)
		return "", ctx.Err()
	})
	require.NoError(t, err)
	require.Equal(t, "done", result)
	require.Empty(t, a.received)
}

func TestAMessageThatNobodyCanReadIsIgnored(t *testing.T) {
	a := newAnswering(t)
	result, err := a.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		if temporal.StateOf(ctx, new(int)) {
			return "done", nil
		}
		_, _ = temporal.AnswerWith(ctx, temporal.SignalObserved, json.RawMessage(`[7]`), 1)
		return "", ctx.Err()
	})
	require.NoError(t, err)
	require.Equal(t, "done", result)
	require.Empty(t, a.received)
}

// The worker cannot ask whether its cluster is held, so each attempt is one that the workflow has decided about.
func TestOnlyTheWorkflowRepeatsADisruptiveAttemptOfAWorkerThatMayOnlyAnswer(t *testing.T) {
	a, fails := newAnswering(t), 8
	var reasons []string
	retrier := kit.Retrier{Report: func(_ workflow.Context, reason, message string) { reasons = append(reasons, reason+": "+message) }}
	result, err := a.run(retrier, func(ctx context.Context) (string, error) {
		require.EqualValues(t, 1, activity.GetInfo(ctx).Attempt)
		require.True(t, temporal.AsksBeforeRetry(ctx))
		if fails--; fails >= 0 {
			return "", temporal.Error(temporal.ErrClusterUnreachable, "no answer", errors.New("connection refused"))
		}
		return "done", nil
	})
	require.NoError(t, err)
	require.Equal(t, "done", result)
	require.Len(t, a.attempts, 9)
	require.GreaterOrEqual(t, a.attempts[8].Sub(a.attempts[0]), 25*time.Second, "with growing pauses")
	require.Equal(t, []string{"ClusterUnreachable: work: no answer", "ClusterUnreachable: work: no answer", "ClusterUnreachable: work: no answer", ": "}, reasons,
		"the reason is the failure, after as many attempts as elsewhere")
}

func TestAHoldEndsTheAttemptsOfAWorkerThatMayOnlyAnswer(t *testing.T) {
	a, held := newAnswering(t), false
	retrier := kit.Retrier{BeforeRound: func() error {
		if held {
			return temporal.Error(temporal.ErrHeld, "held by ann", nil)
		}
		held = true
		return nil
	}}
	_, err := a.run(retrier, func(ctx context.Context) (string, error) {
		temporal.AsksBeforeRetry(ctx)
		return "", errors.New("conflict")
	})
	require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err))
	require.Len(t, a.attempts, 2)
}

func TestOneRoundOfAWorkerThatMayOnlyAnswerHasAsManyAttempts(t *testing.T) {
	a := newAnswering(t)
	_, err := a.run(kit.Retrier{}.Once(), func(ctx context.Context) (string, error) {
		temporal.AsksBeforeRetry(ctx)
		return "", temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	})
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.Len(t, a.attempts, kit.RoundAttempts)
}

func TestFinalErrorsAndCancellationOfAWorkerThatMayOnlyAnswerAreKept(t *testing.T) {
	a := newAnswering(t)
	_, err := a.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		temporal.AsksBeforeRetry(ctx)
		return "", temporal.Error(temporal.ErrNodeGone, "node gone", nil)
	})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
	require.Len(t, a.attempts, 1)

	cancelled := newAnswering(t)
	cancelled.RegisterDelayedCallback(cancelled.CancelWorkflow, time.Second)
	_, err = cancelled.run(kit.Retrier{}, func(ctx context.Context) (string, error) {
		temporal.AsksBeforeRetry(ctx)
		return "", errors.New("conflict")
	})
	require.True(t, sdktemporal.IsCanceledError(err), "%v", err)
}
