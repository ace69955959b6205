package temporal

import (
	"strings"

	"go.temporal.io/sdk/workflow"
)

// TraceRoots are the workflows that begin a trace, unless another workflow of a trace has started them. Workflows that never end have none that a person could
// read.
func TraceRoots() []string { return []string{ClusterGroupUpgrade, NodeMaintenance} }

// TraceID is the ID of the trace that begins with the first run of a workflow: that of the run, as OpenTelemetry writes it. So it needs no place in a history, each
// worker knows it, and people find the trace.
func TraceID(firstRunID string) string { return strings.ReplaceAll(firstRunID, "-", "") }

type traceKey struct{}

// WithTrace returns the context of a workflow of which this worker sends a trace.
func WithTrace(ctx workflow.Context, traceID string) workflow.Context {
	return workflow.WithValue(ctx, traceKey{}, traceID)
}

// TraceOf is the ID of the trace that this worker sends of a workflow; empty if it sends none.
func TraceOf(ctx workflow.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
