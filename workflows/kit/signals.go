package kit

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// SignalOrder is an interceptor that delivers signals in the order in which they were sent. Every worker and replayer of the workflows needs it. The SDK
// has one channel per signal name: if one workflow task brings both pause and resume, their order is lost.
type SignalOrder struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*SignalOrder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &signalOrder{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, inbox: &inbox{handlers: map[string]func(){}, messages: map[string]func([]byte) error{}}}
}

// signalOrder records the order of the signals of one run. Signals that were sent before the run started come first.
type signalOrder struct {
	interceptor.WorkflowInboundInterceptorBase
	inbox *inbox
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (a *signalOrder) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return a.Next.ExecuteWorkflow(workflow.WithValue(ctx, inboxKey{}, a.inbox), in)
}

// HandleSignal implements interceptor.WorkflowInboundInterceptor.
func (a *signalOrder) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	err := a.Next.HandleSignal(ctx, in)
	if err == nil {
		a.inbox.pending = append(a.inbox.pending, in.SignalName)
	}
	return err
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor. The server delivers an update after the signals of its task, and the SDK runs it
// before any other coroutine.
func (a *signalOrder) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	a.inbox.handle()
	return a.Next.ExecuteUpdate(ctx, in)
}

// inbox holds the signals of a run that are not handled yet.
type inbox struct {
	// pending are the names of the signals, in the order in which they were sent.
	pending []string
	// handlers handle the next signal of a name. messages handle a message of an activity that has the name of a signal.
	handlers map[string]func()
	messages map[string]func(payload []byte) error
	// cancellation handles Temporal's own cancellation; nil: it was handled, or has no handler.
	cancellation func()
}

type inboxKey struct{}

func inboxOf(ctx workflow.Context) *inbox {
	known, found := ctx.Value(inboxKey{}).(*inbox)
	if !found {
		panic("SignalOrder is missing among the interceptors of this worker: the order of signals is unknown")
	}
	return known
}

// handle handles the pending signals that have a handler, in order, and then the cancellation of the workflow.
func (i *inbox) handle() {
	arrived := i.pending
	i.pending = nil
	for _, name := range arrived {
		if handle, listening := i.handlers[name]; listening {
			handle()
		} else {
			i.pending = append(i.pending, name)
		}
	}
	if i.cancellation != nil {
		i.cancellation()
	}
}

// OnSignal calls handle for every signal of that name, in order among all signals. Handlers only change state. A signal without a payload, which the Web UI
// can send, is an empty T. A signal that cannot be decoded is logged and ignored.
func OnSignal[T any](ctx workflow.Context, name, description string, handle func(T)) {
	channel := workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
	inbox := inboxOf(ctx)
	inbox.handlers[name] = func() {
		// Receive raw: the channel skips a signal that it cannot decode and would deliver the next one in its place.
		var raw converter.RawValue
		if !channel.ReceiveAsync(&raw) {
			return
		}
		var payload T
		if raw.Payload() != nil {
			if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &payload); err != nil {
				workflow.GetLogger(ctx).Error("Ignoring undecodable signal", "signal", name, "error", err)
				return
			}
		}
		handle(payload)
	}
	inbox.messages[name] = func(text []byte) error {
		var payload T
		encoded := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: text}
		err := converter.GetDefaultDataConverter().FromPayload(encoded, &payload)
		if err == nil {
			handle(payload)
		}
		return err
	}
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		// A blocked Receive would take its signal from the channel before the handlers of earlier signals run.
		for workflow.Await(ctx, func() bool { return channel.Len() > 0 }) == nil {
			inbox.handle()
		}
	})
}

// OnCancellation calls handle once when ctx, the context of the workflow, is cancelled. The workflow continues in the context listening. A cancellation
// is handled in order with signals. Otherwise one that arrives in the task in which the run continues as new would be lost.
func OnCancellation(ctx, listening workflow.Context, handle func()) {
	inbox := inboxOf(listening)
	inbox.cancellation = func() {
		if ctx.Err() != nil {
			inbox.cancellation = nil
			handle()
		}
	}
	workflow.GoNamed(listening, "cancellation", func(listening workflow.Context) {
		ctx.Done().Receive(listening, nil)
		inbox.handle()
	})
}

// handleMessage handles the message of an activity whose worker may not send signals, after all signals that have arrived. It takes only what activities send: such
// a worker may be stolen, and must not send what people and other workflows send, such as the grant of a slot, or the end of a hold.
func handleMessage(ctx workflow.Context, message *temporal.Message) {
	if message.Signal != temporal.SignalObserved && message.Signal != temporal.SignalNodeUpdate {
		workflow.GetLogger(ctx).Error("Ignoring a message that no activity sends", "signal", message.Signal)
		return
	}
	inbox := inboxOf(ctx)
	inbox.handle()
	handle, listening := inbox.messages[message.Signal]
	if !listening {
		return
	}
	if err := handle(message.Payload); err != nil {
		workflow.GetLogger(ctx).Error("Ignoring undecodable message", "signal", message.Signal, "error", err)
	}
}

// HandlePendingSignals handles the pending signals. A run must call it before it continues as new, or it loses them. A gate calls it before it reads what
// signals change: if a timer fires in the task that brings a signal, the code after the timer may run first.
func HandlePendingSignals(ctx workflow.Context) { inboxOf(ctx).handle() }
