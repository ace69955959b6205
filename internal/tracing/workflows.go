package tracing

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// Interceptor returns the interceptor that makes the spans of workflows and activities.
//
// The span of a run is sent when the run ends, by the worker that ends it. Every worker knows its IDs, because they are those of the run, so that spans below it
// need no worker that has seen its start. Headers of activities and child workflows name it. Headers are no part of what a replay compares.
func (t *Traces) Interceptor() interceptor.WorkerInterceptor { return &spans{tracer: t.tracer} }

type spans struct {
	interceptor.WorkerInterceptorBase
	tracer trace.Tracer
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (s *spans) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflowSpan{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, tracer: s.tracer, below: &headers{}}
}

// workflowSpan makes the span of a run.
type workflowSpan struct {
	interceptor.WorkflowInboundInterceptorBase
	tracer trace.Tracer
	below  *headers
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (w *workflowSpan) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	w.below.Next = outbound
	return w.Next.Init(w.below)
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (w *workflowSpan) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	above := spanIn(interceptor.WorkflowHeader(ctx))
	run := ids{trace: above.TraceID(), span: spanID(info.WorkflowExecution.RunID)}
	if !above.IsValid() {
		run.trace = traceID(info.FirstRunID)
		if !slices.Contains(temporal.TraceRoots(), info.WorkflowType.Name) || !run.trace.IsValid() {
			return w.Next.ExecuteWorkflow(ctx, in)
		}
	}
	parent := trace.ContextWithRemoteSpanContext(context.WithValue(context.Background(), idsKey{}, run), above)
	_, span := w.tracer.Start(parent, info.WorkflowType.Name, trace.WithTimestamp(info.WorkflowStartTime), trace.WithAttributes(
		attribute.String("temporal.workflow.id", info.WorkflowExecution.ID), attribute.String("temporal.run.id", info.WorkflowExecution.RunID)))
	// The next run is beside this one, below the same parent. Without a parent it is below the first run.
	if w.below.span, w.below.next = span.SpanContext(), above; !above.IsValid() {
		w.below.next = span.SpanContext()
	}
	result, err := w.Next.ExecuteWorkflow(temporal.WithTrace(ctx, run.trace.String()), in)
	if !workflow.IsReplaying(ctx) {
		end(span, err, trace.WithTimestamp(workflow.Now(ctx)))
	}
	return result, err
}

// headers names the span of a run to what the run starts.
type headers struct {
	interceptor.WorkflowOutboundInterceptorBase
	// span is that of the run, and next the parent of the next run.
	span, next trace.SpanContext
}

// ExecuteActivity implements interceptor.WorkflowOutboundInterceptor.
func (h *headers) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	name(h.span, interceptor.WorkflowHeader(ctx))
	return h.Next.ExecuteActivity(ctx, activityType, args...)
}

// ExecuteLocalActivity implements interceptor.WorkflowOutboundInterceptor.
func (h *headers) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	name(h.span, interceptor.WorkflowHeader(ctx))
	return h.Next.ExecuteLocalActivity(ctx, activityType, args...)
}

// ExecuteChildWorkflow implements interceptor.WorkflowOutboundInterceptor.
func (h *headers) ExecuteChildWorkflow(ctx workflow.Context, workflowType string, args ...any) workflow.ChildWorkflowFuture {
	name(h.span, interceptor.WorkflowHeader(ctx))
	return h.Next.ExecuteChildWorkflow(ctx, workflowType, args...)
}

// NewContinueAsNewError implements interceptor.WorkflowOutboundInterceptor.
func (h *headers) NewContinueAsNewError(ctx workflow.Context, workflowFunc any, args ...any) error {
	name(h.next, interceptor.WorkflowHeader(ctx))
	return h.Next.NewContinueAsNewError(ctx, workflowFunc, args...)
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (s *spans) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activitySpan{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, tracer: s.tracer}
}

// activitySpan makes the spans of the attempts at an activity.
type activitySpan struct {
	interceptor.ActivityInboundInterceptorBase
	tracer trace.Tracer
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *activitySpan) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	above := spanIn(interceptor.Header(ctx))
	if !above.IsValid() {
		return a.Next.ExecuteActivity(ctx, in)
	}
	info := activity.GetInfo(ctx)
	ctx, span := a.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, above), info.ActivityType.Name, trace.WithAttributes(
		attribute.String("temporal.workflow.id", info.WorkflowExecution.ID), attribute.String("temporal.run.id", info.WorkflowExecution.RunID),
		attribute.String("temporal.activity.id", info.ActivityID), attribute.Int("temporal.activity.attempt", int(info.Attempt))))
	result, err := a.Next.ExecuteActivity(ctx, in)
	end(span, err)
	return result, err
}

// end ends a span. It has the type of an error and not its message, which may have what the encryption of payloads keeps from Temporal. That a run continues as new, or that work was cancelled, is no error.
func end(span trace.Span, err error, options ...trace.SpanEndOption) {
	var next *workflow.ContinueAsNewError
	switch {
	case err == nil:
	case errors.As(err, &next):
		span.SetAttributes(attribute.Bool("temporal.continued_as_new", true))
	case sdktemporal.IsCanceledError(err), errors.Is(err, context.Canceled):
		span.SetAttributes(attribute.Bool("temporal.cancelled", true))
	default:
		span.SetStatus(codes.Error, cmp.Or(temporal.ErrorType(err), "error"))
	}
	span.End(options...)
}

// parentHeader is the header with a span, in the form of the W3C.
const parentHeader = "traceparent"

// name writes a span to headers, unless there is none.
func name(span trace.SpanContext, to map[string]*commonpb.Payload) {
	if to == nil || !span.IsValid() {
		return
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	if payload, err := converter.GetDefaultDataConverter().ToPayload(carrier.Get(parentHeader)); err == nil {
		to[parentHeader] = payload
	}
}

// spanIn returns the span that headers name. It is invalid without one.
func spanIn(from map[string]*commonpb.Payload) trace.SpanContext {
	var parent string
	if payload := from[parentHeader]; payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &parent) != nil {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{parentHeader: parent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
