package tracing

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// recording returns traces that are kept in memory.
func recording(t *testing.T) (*Traces, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(generator{}))
	return &Traces{provider: provider, tracer: provider.Tracer("test")}, exporter
}

func TestAnUnknownProtocolIsRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	_, err := New(t.Context(), "drydock-worker", "v1", nil)
	require.EqualError(t, err, `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is neither grpc nor http/protobuf`)
}

// Caches send requests of no activity. Each of them would be a trace of its own.
func TestOnlyRequestsOfAnActivityHaveSpans(t *testing.T) {
	traces, exporter := recording(t)
	var parents []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents = append(parents, r.Header.Get("traceparent")) }))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: traces.Requests(http.DefaultTransport)}
	get := func(ctx context.Context) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/nodes/worker-1", nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	get(t.Context())
	require.Empty(t, exporter.GetSpans())
	ctx, span := traces.tracer.Start(t.Context(), "activity")
	get(ctx)
	spans := exporter.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, "GET nodes", spans[0].Name)
	require.Equal(t, span.SpanContext().SpanID(), spans[0].Parent.SpanID())
	require.Empty(t, parents[0])
	require.Contains(t, parents[1], span.SpanContext().TraceID().String(), "the API server continues the trace")
}

func TestSpansOfRequestsHaveTheNameOfTheResource(t *testing.T) {
	for path, resource := range map[string]string{
		"/api/v1/nodes":                                        "nodes",
		"/api/v1/nodes/worker-1":                               "nodes",
		"/api/v1/nodes/worker-1/status":                        "nodes/status",
		"/api/v1/namespaces/shop":                              "namespaces",
		"/api/v1/namespaces/shop/status":                       "namespaces/status",
		"/api/v1/namespaces/shop/pods":                         "pods",
		"/api/v1/namespaces/shop/pods/web-1/eviction":          "pods/eviction",
		"/apis/batch/v1/namespaces/drydock-jobs/jobs/firmware": "jobs",
		"/apis/policy/v1/poddisruptionbudgets":                 "poddisruptionbudgets",
		"/version":                                             "/version",
		"/apis/apps/v1":                                        "/apis/apps/v1",
	} {
		require.Equal(t, resource, resourceOf(path), path)
	}
}
