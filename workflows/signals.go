package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// SignalOrder is an interceptor that every worker and every replayer of the workflows needs: it delivers signals in the order in which they were sent.
// The SDK alone gives every signal name a channel of its own. If one workflow task brings both pause and resume, their order is lost.
type SignalOrder struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*SignalOrder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &arrivals{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, inbox: &inbox{handlers: map[string]func(){}}}
}

// arrivals records the signals of one run in their order. Signals that were sent before the run started come first.
type arrivals struct {
	interceptor.WorkflowInboundInterceptorBase
	inbox *inbox
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (a *arrivals) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return a.Next.ExecuteWorkflow(workflow.WithValue(ctx, inboxKey{}, a.inbox), in)
}

// HandleSignal implements interceptor.WorkflowInboundInterceptor.
func (a *arrivals) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	err := a.Next.HandleSignal(ctx, in)
	if err == nil {
		a.inbox.arrived = append(a.inbox.arrived, in.SignalName)
	}
	return err
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor. The server delivers an update after the signals of its task, and the SDK runs it
// before any other coroutine.
func (a *arrivals) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	a.inbox.hear()
	return a.Next.ExecuteUpdate(ctx, in)
}

// inbox holds the signals of a run that are not handled yet.
type inbox struct {
	// arrived are the names of the signals, in the order in which they were sent.
	arrived []string
	// handlers handle the next signal of a name.
	handlers map[string]func()
	// cancellation handles Temporal's own cancellation; nil after it was handled, or when no handler is set.
	cancellation func()
}

type inboxKey struct{}

func inboxOf(ctx workflow.Context) *inbox {
	known, ordered := ctx.Value(inboxKey{}).(*inbox)
	if !ordered {
		panic("SignalOrder is missing among the interceptors of this worker: the order of signals is unknown")
	}
	return known
}

// hear handles the signals that have a handler so far, in their order, and then the cancellation of the workflow.
func (i *inbox) hear() {
	arrived := i.arrived
	i.arrived = nil
	for _, name := range arrived {
		if handle, listening := i.handlers[name]; listening {
			handle()
		} else {
			i.arrived = append(i.arrived, name)
		}
	}
	if i.cancellation != nil {
		i.cancellation()
	}
}

// onSignal calls handle for every signal of that name, in order among all signals. Handlers only change state. A signal without a payload, as the Web UI
// sends it, counts as an empty T. A signal that cannot be decoded is logged and ignored.
func onSignal[T any](ctx workflow.Context, name, description string, handle func(T)) {
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
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		// A blocked Receive takes its signal from the channel before it runs, and handlers of other signals could not see it.
		for workflow.Await(ctx, func() bool { return channel.Len() > 0 }) == nil {
			inbox.hear()
		}
	})
}

// onCancellation calls handle once when ctx, the context of the workflow, is cancelled; the workflow goes on in the context listening. A cancellation is
// handled in order with signals: one that comes with the workflow task in which the run continues as new would be lost otherwise.
func onCancellation(ctx, listening workflow.Context, handle func()) {
	inbox := inboxOf(listening)
	inbox.cancellation = func() {
		if ctx.Err() != nil {
			inbox.cancellation = nil
			handle()
		}
	}
	workflow.GoNamed(listening, "cancellation", func(listening workflow.Context) {
		ctx.Done().Receive(listening, nil)
		inbox.hear()
	})
}

// hearSignals handles the signals that are not handled yet. A run must call it before it continues as new, or those signals are lost.
func hearSignals(ctx workflow.Context) { inboxOf(ctx).hear() }

// continueAsNewSignals is the number of signals after which a run continues as new; the server ends a run at 10,000.
const continueAsNewSignals = 5000

// mustContinueAsNew reports whether the run's history is long enough to continue as new at the next good moment.
func mustContinueAsNew(ctx workflow.Context, signals int) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || signals >= continueAsNewSignals
}

// mostEvents and mostBytes limit the history of a run: the server ends a longer one.
const (
	mostEvents = 51_200
	mostBytes  = 50 << 20
)

// historyUsed returns the used part of the history limits, from 0 to 1.
func historyUsed(ctx workflow.Context) float64 {
	info := workflow.GetInfo(ctx)
	return max(float64(info.GetCurrentHistoryLength())/mostEvents, float64(info.GetCurrentHistorySize())/mostBytes)
}

// byWhom renders the actor of a request and the reason for a message, as in " by ann: flood".
func byWhom(r temporal.SignalRequest) string {
	switch {
	case r.Actor != "" && r.Reason != "":
		return " by " + r.Actor + ": " + r.Reason
	case r.Actor != "":
		return " by " + r.Actor
	case r.Reason != "":
		return ": " + r.Reason
	}
	return ""
}
