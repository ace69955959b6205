package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

// The headers of an activity carry what its attempt must know beside its input: the values of WithState and Local.
const (
	stateHeader   = "drydock-state"
	startedHeader = "drydock-started"
)

// attemptHeaders passes these values to activities. Headers are not encrypted by the SDK, so it uses the data converter of the client.
type attemptHeaders struct{ converter converter.DataConverter }

var _ workflow.ContextPropagator = attemptHeaders{}

// AttemptHeaders returns the propagator that workflows and activities need for the state of an attempt, and for local activities.
func AttemptHeaders(with converter.DataConverter) workflow.ContextPropagator {
	return attemptHeaders{with}
}

// Inject implements workflow.ContextPropagator.
func (attemptHeaders) Inject(context.Context, workflow.HeaderWriter) error { return nil }

// InjectFromWorkflow implements workflow.ContextPropagator.
func (h attemptHeaders) InjectFromWorkflow(ctx workflow.Context, headers workflow.HeaderWriter) error {
	return errors.Join(h.set(headers, stateHeader, ctx.Value(stateKey{})), h.set(headers, startedHeader, ctx.Value(startedKey{})))
}

func (h attemptHeaders) set(headers workflow.HeaderWriter, name string, value any) error {
	if state, ok := value.(json.RawMessage); value == nil || ok && len(state) == 0 {
		return nil
	}
	payload, err := h.converter.ToPayload(value)
	if err != nil {
		return err
	}
	headers.Set(name, payload)
	return nil
}

// Extract implements workflow.ContextPropagator. Without a state that can be decoded, the activity starts from its input.
func (h attemptHeaders) Extract(ctx context.Context, headers workflow.HeaderReader) (context.Context, error) {
	ctx = withHeader[json.RawMessage](ctx, h, headers, stateHeader, stateKey{})
	return withHeader[time.Time](ctx, h, headers, startedHeader, startedKey{}), nil
}

func withHeader[T any](ctx context.Context, h attemptHeaders, headers workflow.HeaderReader, name string, key any) context.Context {
	var value T
	if payload, found := headers.Get(name); found && h.converter.FromPayload(payload, &value) == nil {
		return context.WithValue(ctx, key, value)
	}
	return ctx
}

// ExtractToWorkflow implements workflow.ContextPropagator.
func (attemptHeaders) ExtractToWorkflow(ctx workflow.Context, _ workflow.HeaderReader) (workflow.Context, error) {
	return ctx, nil
}
