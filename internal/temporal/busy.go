package temporal

import (
	"context"
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// The pauses before a request is retried because its workflow is busy: firstBusyPause, doubled each time, up to lastBusyPause.
const (
	firstBusyPause = 10 * time.Millisecond
	lastBusyPause  = 640 * time.Millisecond
)

// retryBusy retries a request that the server refuses because its workflow is continuing as new or locked. That lasts milliseconds, and the request
// had no effect. But the SDK treats the refusal as overload and waits 0.4 s, 0.8 s, 1.6 s and so on, so an update that is refused four times would
// take 6 s. The SDK handles a workflow that stays busy longer. The server also refuses an update whose workflow task failed because a message arrived
// while the workflow continued as new; the SDK does not retry that at all.
func retryBusy(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, send grpc.UnaryInvoker, options ...grpc.CallOption) error {
	for pause := firstBusyPause; ; pause *= 2 {
		err := send(ctx, method, request, reply, connection, options...)
		if pause > lastBusyPause || !workflowBusy(err, updates(method)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// updates reports whether a request is an update of a workflow, or may contain one.
func updates(method string) bool {
	return strings.HasSuffix(method, "UpdateWorkflowExecution") || strings.HasSuffix(method, "ExecuteMultiOperation")
}

// workflowBusy reports whether a request, or a part of it, was refused because its workflow was busy.
func workflowBusy(err error, update bool) bool {
	if err == nil {
		return false
	}
	refusals := []error{serviceerror.FromStatus(status.Convert(err))}
	if several, ok := errors.AsType[*serviceerror.MultiOperationExecution](refusals[0]); ok {
		refusals = several.OperationErrors()
	}
	for _, refusal := range refusals {
		exhausted, ok := errors.AsType[*serviceerror.ResourceExhausted](refusal)
		if ok && exhausted.Cause == enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW {
			return true
		}
		if _, ok := errors.AsType[*serviceerror.WorkflowNotReady](refusal); ok && update {
			return true
		}
	}
	return false
}
