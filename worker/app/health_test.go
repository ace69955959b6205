package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
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
	ready := &readiness{temporal: server, namespace: "prod"}
	ready.working.Store(true)
	require.EqualError(t, ready.check(), "temporal: namespace prod: Request unauthorized.")
}

// counting is a Temporal server that counts requests.
type counting struct {
	refusing
	requests *atomic.Int32
}

func (c counting) DescribeNamespace(ctx context.Context, in *workflowservice.DescribeNamespaceRequest, options ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	c.requests.Add(1)
	return c.refusing.DescribeNamespace(ctx, in, options...)
}

func TestManyReadinessRequestsCostTheServersFew(t *testing.T) {
	var requests atomic.Int32
	server := &mocks.Client{}
	server.On("WorkflowService").Return(counting{requests: &requests})
	ready := &readiness{temporal: server, namespace: "prod"}
	ready.working.Store(true)
	handler := healthHandler(ready, prometheus.NewRegistry())
	began := time.Now()
	var clients sync.WaitGroup
	for range 200 {
		clients.Go(func() {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		})
	}
	clients.Wait()
	require.LessOrEqual(t, int(requests.Load()), 1+int(time.Since(began)/readyInterval))

	ready.checked = time.Now().Add(-readyInterval)
	before := requests.Load()
	require.Error(t, ready.check())
	require.Equal(t, before+1, requests.Load(), "the result is renewed")
}

func TestTheHealthServerHasTimeLimits(t *testing.T) {
	health, err := serveHealth("127.0.0.1:0", &readiness{}, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(health.close)
	for name, limit := range map[string]time.Duration{
		"read": health.server.ReadTimeout, "write": health.server.WriteTimeout, "idle": health.server.IdleTimeout,
	} {
		require.NotZero(t, limit, name)
	}
	require.Greater(t, health.server.WriteTimeout, readyTimeout, "an answer needs that long")
}
