package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collector receives traces, as the OpenTelemetry collector does.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracepb.Span
}

// Export implements the service of OTLP.
func (c *collector) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// ServeHTTP serves OTLP over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collectorpb.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// collectTraces starts a collector, and returns the environments of workers that send to it with gRPC and with HTTP.
func collectTraces(t *testing.T) (c *collector, overGRPC, overHTTP []map[string]any) {
	t.Helper()
	c = &collector{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	environment := func(endpoint, protocol string) []map[string]any {
		return []map[string]any{
			{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": endpoint},
			{"name": "OTEL_EXPORTER_OTLP_PROTOCOL", "value": protocol},
			{"name": "OTEL_BSP_SCHEDULE_DELAY", "value": "100"},
			{"name": "OTEL_BSP_EXPORT_TIMEOUT", "value": "120000"},
			{"name": "OTEL_EXPORTER_OTLP_TIMEOUT", "value": "60000"},
		}
	}
	return c, environment("http://"+listener.Addr().String(), "grpc"), environment(web.URL, "http/protobuf")
}

// paths are the names of the spans of a trace from the first to each last one, such as "ClusterGroupUpgrade > ClusterUpgrade", with the number of such spans.
func (c *collector) paths(traceID string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[trace.SpanID]*tracepb.Span{}
	for _, span := range c.spans {
		if fmt.Sprintf("%x", span.GetTraceId()) == traceID {
			spans[trace.SpanID(span.GetSpanId())] = span
		}
	}
	found := map[string]int{}
	for _, span := range spans {
		path := span.GetName()
		for len(span.GetParentSpanId()) > 0 {
			parent, known := spans[trace.SpanID(span.GetParentSpanId())]
			if !known {
				path = "? > " + path
				break
			}
			path, span = parent.GetName()+" > "+path, parent
		}
		found[path]++
	}
	return found
}

// requireRolloutTrace requires that the trace of a rollout of two clusters, one node each, goes down to the requests of each drain.
func (c *collector) requireRolloutTrace(t *testing.T, traceID string) {
	t.Helper()
	const nodes = "ClusterGroupUpgrade > ClusterUpgrade > NodeMaintenance"
	require.EventuallyWithT(t, func(check *assert.CollectT) {
		found := c.paths(traceID)
		assert.Equal(check, 1, found["ClusterGroupUpgrade"])
		assert.Equal(check, 2, found["ClusterGroupUpgrade > ClusterUpgrade"])
		assert.Equal(check, 2, found[nodes])
		assert.GreaterOrEqual(check, found[nodes+" > Drain"], 2, "an attempt may be repeated")
		assert.GreaterOrEqual(check, found[nodes+" > Drain > POST pods/eviction"], 2, "%v", found)
		for path := range found {
			assert.NotContains(check, path, "?", "the spans above each span are known")
		}
	}, stateLimit, 200*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		require.NotContains(t, []string{"Sweeper", "MaintenanceScheduler", "EmergencyStop"}, span.GetName(), "a workflow that never ends has no trace that a person could read")
	}
}
