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

// AnswerTimeout is how long a worker may take to answer a query before it is taken to be absent.
const AnswerTimeout = 5 * time.Second

var (
	// ErrNoWorker: Temporal answers, but no worker does.
	ErrNoWorker = errors.New("no worker answers on task queue " + temporal.TaskQueue + ": start drydock-worker, or see `drydock doctor`")
	// ErrNotUnderstood: a workflow answers in the manner of another version.
	ErrNotUnderstood = errors.New("answers with a status that this version of drydock does not understand")
)

// ErrTaskFails: workers take up the workflow, and fail at it each time. Whoever does not tell them apart sees ErrNoWorker.
var ErrTaskFails error = taskFails{}

type taskFails struct{}

func (taskFails) Error() string {
	return "the workers fail at its next step again and again, so it neither goes on nor answers: see their log, or the failed Workflow Task in the Web UI"
}

func (taskFails) Is(target error) bool { return target == ErrNoWorker }

// Unanswered says why an error means that nobody has answered: ErrTaskFails or ErrNoWorker.
func Unanswered(err error) error {
	if refused, ok := errors.AsType[*serviceerror.WorkflowNotReady](err); ok && strings.Contains(refused.Message, "failed state") {
		return ErrTaskFails
	}
	return ErrNoWorker
}

// Queries is what is asked of Temporal for the status of a workflow; its client answers it.
type Queries interface {
	QueryWorkflow(ctx context.Context, workflowID, runID, query string, args ...any) (converter.EncodedValue, error)
}

// Status asks a workflow for its status. Without an answer the error is that of Unanswered.
func Status(ctx context.Context, server Queries, workflowID, runID string, into any, args ...any) error {
	waiting, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	answer, err := server.QueryWorkflow(waiting, workflowID, runID, temporal.QueryStatus, args...)
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

// NoWorker reports whether the error says that nobody has answered.
func NoWorker(err error) bool {
	if _, ok := errors.AsType[*serviceerror.DeadlineExceeded](err); ok {
		return true
	}
	if _, ok := errors.AsType[*serviceerror.WorkflowNotReady](err); ok {
		return true
	}
	// What the server says once nobody has asked for work for 20 s.
	unpolled, ok := errors.AsType[*serviceerror.FailedPrecondition](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && strings.Contains(unpolled.Message, "no poller")
}

// Cut reports whether a workflow did not come to an end of its own, as by Temporal's word for how it stands: it was terminated, or timed out. What such a
// workflow still answers is of its last moment, as if it went on.
func Cut(execution string) bool {
	return execution == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED.String() || execution == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT.String()
}

// Away reports whether an error says that Temporal could not be asked, or not now, rather than what it has answered.
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

// Ends is what is asked of Temporal for how a workflow ended; its client answers it.
type Ends interface {
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
}

// LastStatus reads the status that a workflow ended with, without a worker: its result, or the details of its failure or cancellation. A
// workflow that goes on is waited for. The error says that there is none, as of one that was terminated.
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
