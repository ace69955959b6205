package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"
)

// refusing is a Temporal server that rejects our credentials.
type refusing struct {
	workflowservice.WorkflowServiceClient
}

func (refusing) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return nil, serviceerror.NewPermissionDenied("Request unauthorized.", "")
}

func TestAWorkerWithRejectedCredentialsIsNotReady(t *testing.T) {
	server := &mocks.Client{}
	server.On("WorkflowService").Return(refusing{})
	ready := readiness{temporal: server, namespace: "prod"}
	ready.working.Store(true)
	require.EqualError(t, ready.check(t.Context()), "temporal: namespace prod: Request unauthorized.")
}
