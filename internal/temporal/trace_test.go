package temporal_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/tracing"
)

// recorder keeps spans.
type recorder struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (r *recorder) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	return nil
}

func (r *recorder) Shutdown(context.Context) error { return nil }

// named returns the spans of a name.
func (r *recorder) named(name string) (found []sdktrace.ReadOnlySpan) {
	for _, span := range r.spans {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

// tracedRun runs an activity, waits for a signal, and continues as new once.
func tracedRun(ctx workflow.Context, again bool) (string, error) {
	work := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(work, "work").Get(ctx, nil); err != nil {
		return "", err
	}
	workflow.GetSignalChannel(ctx, "continue").Receive(ctx, nil)
	if again {
		return "", workflow.NewContinueAsNewError(ctx, temporal.NodeMaintenance, false)
	}
	return temporal.TraceOf(ctx), nil
}

// A worker that has not seen the start of a run sends its span, once. All runs of a workflow are in one trace, which the ID of the first run names.
func tracesContinueElsewhere(t *testing.T, c client.Client) {
	var recorded recorder
	startWorker := func() (stop func()) {
		traces := tracing.To(&recorded, resource.Empty())
		w := worker.New(c, "traces", worker.Options{Interceptors: []interceptor.WorkerInterceptor{traces.Interceptor()}})
		for _, name := range []string{temporal.NodeMaintenance, temporal.Sweeper} {
			w.RegisterWorkflowWithOptions(tracedRun, workflow.RegisterOptions{Name: name})
		}
		w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "work"})
		require.NoError(t, w.Start())
		return func() {
			w.Stop()
			traces.Close()
		}
	}
	start := func(id, workflowType string, again bool) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "traces"}, workflowType, again)
		require.NoError(t, err)
		return run
	}
	first, before := start("traced", temporal.NodeMaintenance, true).GetRunID(), ""
	for range 2 { // each run begins with one worker and ends with another
		stop := startWorker()
		require.Eventually(t, func() bool {
			described, err := c.DescribeWorkflowExecution(t.Context(), "traced", "")
			info := described.GetWorkflowExecutionInfo()
			const waits = 10 // events until it waits for the signal
			if err != nil || info.GetExecution().GetRunId() == before || info.GetHistoryLength() < waits {
				return false
			}
			before = info.GetExecution().GetRunId()
			return true
		}, time.Minute, 20*time.Millisecond)
		stop()
		require.NoError(t, c.SignalWorkflow(t.Context(), "traced", "", "continue", nil))
	}
	stop := startWorker()
	var traceID, none string
	require.NoError(t, c.GetWorkflow(t.Context(), "traced", "").Get(t.Context(), &traceID))
	untraced := start("untraced", temporal.Sweeper, false)
	require.NoError(t, c.SignalWorkflow(t.Context(), "untraced", "", "continue", nil))
	require.NoError(t, untraced.Get(t.Context(), &none))
	stop()

	require.Equal(t, temporal.TraceID(first), traceID)
	require.Empty(t, none, "a workflow that never ends has no trace that a person could read")
	require.Empty(t, recorded.named(temporal.Sweeper))
	runs, activities := recorded.named(temporal.NodeMaintenance), recorded.named("work")
	require.Len(t, runs, 2)
	require.Len(t, activities, 2)
	require.False(t, runs[0].Parent().IsValid())
	require.Equal(t, runs[0].SpanContext().SpanID(), runs[1].Parent().SpanID(), "the second run is below the first one")
	for i, run := range runs {
		require.Equal(t, traceID, run.SpanContext().TraceID().String())
		require.Equal(t, traceID, activities[i].SpanContext().TraceID().String())
		require.Equal(t, run.SpanContext().SpanID(), activities[i].Parent().SpanID())
		require.True(t, run.StartTime().Before(activities[i].StartTime()) && run.EndTime().After(activities[i].EndTime()))
	}
}
