// Package tracing sends traces of rollouts and maintenances to an OpenTelemetry collector: a span for each run of a workflow, each attempt of an activity and
// each request to an API server.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"drydock.dev/drydock/internal/temporal"
)

// Traces sends spans. Nil sends none.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns traces as the standard environment variables OTEL_* say, of a service unless OTEL_SERVICE_NAME names another one. It contacts no server yet.
func New(ctx context.Context, service, version string, log *slog.Logger) (*Traces, error) {
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("cannot send traces", "error", err) }))
	return To(exporter, described), nil
}

// To returns traces that an exporter sends, of a resource.
func To(exporter sdktrace.SpanExporter, of *resource.Resource) *Traces {
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(of), sdktrace.WithIDGenerator(generator{}))
	return &Traces{provider: provider, tracer: provider.Tracer("drydock.dev/drydock")}
}

// newExporter returns the exporter of the protocol that the environment names. Each reads the address, the headers and the certificates from the environment.
func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	if sampler := os.Getenv("OTEL_TRACES_SAMPLER"); strings.Contains(sampler, "ratio") { // it needs random trace IDs
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is not supported, because the trace ID is the run ID: let the collector sample", sampler)
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	switch protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is neither grpc nor http/protobuf", protocol)
}

// Close sends the spans that have ended.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// traceID is the ID of the trace that begins with a first run. It is invalid if the ID of the run is none of Temporal's.
func traceID(firstRunID string) trace.TraceID {
	id, _ := trace.TraceIDFromHex(temporal.TraceID(firstRunID)) // the zero ID is invalid
	return id
}

// spanID is the ID of the span of a run.
func spanID(runID string) trace.SpanID {
	id := traceID(runID)
	return trace.SpanID(id[8:])
}

// ids are those of a span that is known beforehand.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

// generator generates random IDs, unless the context has some.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if known, ok := ctx.Value(idsKey{}).(ids); ok {
		return known.trace, known.span
	}
	return traceID(uuid.NewString()), g.NewSpanID(ctx, trace.TraceID{})
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if known, ok := ctx.Value(idsKey{}).(ids); ok {
		return known.span
	}
	return spanID(uuid.NewString())
}
