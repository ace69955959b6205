package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/temporal"
)

// AnswerTimeout limits a query. A worker that takes longer counts as absent. The server needs 5 s to notice that the worker that it used last is gone, and to
// try another one.
const AnswerTimeout = 8 * time.Second

var (
	// ErrNoWorker: Temporal answers, but no worker does.
	ErrNoWorker = errors.New("no worker answers on task queue " + temporal.TaskQueue + ": start drydock-worker, or see `drydock doctor`")
	// ErrNotUnderstood: the answer of a workflow has the format of another version.
	ErrNotUnderstood = errors.New("answers with a status that this version of drydock does not understand")
)

// ErrTaskFails: workers fail the workflow task repeatedly. It also matches ErrNoWorker.
var ErrTaskFails error = taskFails{}

type taskFails struct{}

func (taskFails) Error() string {
	return "the workers repeatedly fail its next workflow task, so it neither continues nor answers: see the worker log or the failed Workflow Task in the Web UI"
}

func (taskFails) Is(target error) bool { return target == ErrNoWorker }

// ErrNeverBegan: the run was closed before a worker ran it. It also matches ErrNoWorker.
var ErrNeverBegan error = neverBegan{}

type neverBegan struct{}

func (neverBegan) Error() string { return "it ended before a worker ran it, so it has no status" }

func (neverBegan) Is(target error) bool { return target == ErrNoWorker }

// Unanswered returns why no worker has answered: ErrTaskFails, ErrNeverBegan or ErrNoWorker.
func Unanswered(err error) error {
	refused, ok := errors.AsType[*serviceerror.WorkflowNotReady](err)
	switch {
	case ok && strings.Contains(refused.Message, "failed state"):
		return ErrTaskFails
	case ok && strings.Contains(refused.Message, "closed before"):
		return ErrNeverBegan
	}
	return ErrNoWorker
}

// Queries is the part of Temporal's client that Status needs.
type Queries interface {
	QueryWorkflow(ctx context.Context, workflowID, runID, query string, args ...any) (converter.EncodedValue, error)
}

// Status queries a workflow for its status. Without an answer the error is that of Unanswered.
func Status(ctx context.Context, server Queries, workflowID, runID string, into any, args ...any) error {
	return Query(ctx, server, workflowID, runID, temporal.QueryStatus, into, args...)
}

// Query queries a workflow. Without an answer the error is that of Unanswered.
func Query(ctx context.Context, server Queries, workflowID, runID, query string, into any, args ...any) error {
	waiting, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	answer, err := server.QueryWorkflow(waiting, workflowID, runID, query, args...)
	for pause := readyPause; notReady(err) && waiting.Err() == nil && Unanswered(err) == ErrNoWorker; pause = min(2*pause, readyPauseLimit) { //nolint:errorlint // the others match it
		select {
		case <-waiting.Done():
		case <-time.After(pause):
		}
		answer, err = server.QueryWorkflow(waiting, workflowID, runID, query, args...)
	}
	if err != nil {
		if ctx.Err() == nil && NoWorker(err) {
			return Unanswered(err)
		}
		return err
	}
	if err := answer.Get(into); err != nil {
		return fmt.Errorf("%w: %w", ErrNotUnderstood, err)
	}
	return nil
}

// A run cannot be queried before its first task is done, which a busy worker does late. It is asked again after pauses that double.
const readyPause, readyPauseLimit = 20 * time.Millisecond, 500 * time.Millisecond

func notReady(err error) bool {
	_, ok := errors.AsType[*serviceerror.WorkflowNotReady](err)
	return ok
}

// NoWorker reports whether an error means that no worker has answered.
func NoWorker(err error) bool {
	if _, ok := errors.AsType[*serviceerror.DeadlineExceeded](err); ok {
		return true
	}
	if notReady(err) {
		return true
	}
	// The server returns this when no worker has polled for 20 s.
	unpolled, ok := errors.AsType[*serviceerror.FailedPrecondition](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && strings.Contains(unpolled.Message, "no poller")
}

// Cut reports whether an execution status means that a workflow was cut off: terminated or timed out. Such a workflow still answers queries, as
// if it were running.
func Cut(execution string) bool {
	return execution == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED.String() || execution == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT.String()
}

// Away reports whether an error means that Temporal did not answer, now or at all.
func Away(err error) bool {
	if _, unavailable := errors.AsType[*serviceerror.Unavailable](err); unavailable {
		return true
	}
	if _, late := errors.AsType[*serviceerror.DeadlineExceeded](err); late {
		return true
	}
	_, busy := errors.AsType[*serviceerror.ResourceExhausted](err)
	return busy || errors.Is(err, context.DeadlineExceeded)
}

// Ends is the part of Temporal's client that LastStatus needs.
type Ends interface {
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
}

// LastStatus reads the last status of a workflow without a worker: from its result, or from the details of its failure or cancellation. It waits
// for a running workflow. It fails for a workflow without one, such as a terminated one.
func LastStatus(ctx context.Context, server Ends, workflowID, runID string, into any) error {
	err := server.GetWorkflow(ctx, workflowID, runID).Get(ctx, into)
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*sdktemporal.ApplicationError](err); ok && failed.HasDetails() {
		return failed.Details(into)
	}
	if cancelled, ok := errors.AsType[*sdktemporal.CanceledError](err); ok && cancelled.HasDetails() {
		return cancelled.Details(into)
	}
	return err
}
