package temporal

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// closing is the server's refusal while a workflow continues as new.
var closing = &serviceerror.ResourceExhausted{Cause: enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, Message: "workflow is closing"}

func TestARequestToABusyWorkflowIsRetriedImmediately(t *testing.T) {
	overloaded := &serviceerror.ResourceExhausted{Cause: enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, Message: "too many requests"}
	aborted := serviceerror.NewMultiOperationAborted("aborted")
	for _, tt := range []struct {
		name    string
		refusal error
		times   int
		calls   int
		fails   bool
	}{
		{"a success is not retried", nil, 0, 1, false},
		{"while the workflow continues as new", closing.Status().Err(), 3, 4, false},
		{
			"an update-with-start while the workflow continues as new",
			serviceerror.NewMultiOperationExecution("could not be executed", []error{aborted, closing}).(*serviceerror.MultiOperationExecution).Status().Err(),
			2, 3, false,
		},
		{"an update whose workflow could not continue as new", serviceerror.NewWorkflowNotReady("workflow task failure").(*serviceerror.WorkflowNotReady).Status().Err(), 1, 2, false},
		{"a workflow that stays busy is left to the SDK", closing.Status().Err(), 1000, 8, true},
		{"a request to an overloaded server is not retried", overloaded.Status().Err(), 1, 1, true},
		{"another error is not retried", status.Error(codes.Unavailable, "down"), 1, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			err := retryBusy(t.Context(), "UpdateWorkflowExecution", nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					if calls++; calls <= tt.times {
						return tt.refusal
					}
					return nil
				})
			require.Equal(t, tt.calls, calls)
			require.Equal(t, tt.fails, err != nil, "%v", err)
		})
	}
}

func TestARequestWithACancelledContextIsNotRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := retryBusy(ctx, "UpdateWorkflowExecution", nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			calls++
			cancel()
			return closing.Status().Err()
		})
	require.Equal(t, 1, calls)
	require.ErrorContains(t, err, "workflow is closing")
	require.False(t, errors.Is(err, context.Canceled))
}
