package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// SignalOrder is an interceptor that every worker and every replayer of the workflows has: by it they hear signals in the order in which they were
// sent. The SDK alone gives every name a channel of its own, and of what one workflow task brings nobody could say whether it was pause or resume that was
// said last.
type SignalOrder struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*SignalOrder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &arrivals{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, inbox: &inbox{handlers: map[string]func(){}}}
}

// arrivals notes what arrives for one run of a workflow. What was sent before the run begins arrives first.
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

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor. The server hands an update over after the signals of its task, and the SDK runs it before
// any other coroutine.
func (a *arrivals) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	a.inbox.hear()
	return a.Next.ExecuteUpdate(ctx, in)
}

// inbox is what has arrived for a run and was not handled yet.
type inbox struct {
	// arrived are the names of signals, in the order in which they were sent.
	arrived []string
	// handlers handle the next signal of a name.
	handlers map[string]func()
	// cancellation hears Temporal's own cancellation; nil: nobody does, or it was heard.
	cancellation func()
}

type inboxKey struct{}

func inboxOf(ctx workflow.Context) *inbox {
	known, ordered := ctx.Value(inboxKey{}).(*inbox)
	if !ordered {
		panic("the order of signals is not known: SignalOrder is not among the interceptors of this worker")
	}
	return known
}

// hear handles what has arrived, but for what nobody listens to so far, and then that the workflow was cancelled.
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

// onSignal calls handle for every signal of that name, in its turn among all that arrive. Handlers only change state. A signal without a payload, as the
// Web UI sends it, counts as an empty T.
func onSignal[T any](ctx workflow.Context, name, description string, handle func(T)) {
	channel := workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
	inbox := inboxOf(ctx)
	inbox.handlers[name] = func() {
		// Of one that nobody can read the channel would make the next one.
		var raw converter.RawValue
		if !channel.ReceiveAsync(&raw) {
			return
		}
		var payload T
		if raw.Payload() != nil {
			if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &payload); err != nil {
				workflow.GetLogger(ctx).Error("a signal cannot be read, and is not heard", "signal", name, "error", err)
				return
			}
		}
		handle(payload)
	}
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		// A blocked Receive would be handed a signal before it runs, where nobody else could find it.
		for workflow.Await(ctx, func() bool { return channel.Len() > 0 }) == nil {
			inbox.hear()
		}
	})
}

// onCancellation calls handle once when ctx, that of the workflow, is cancelled, in a workflow that goes on in a context of its own. It is heard like a
// signal: of one that comes with the workflow task in which the run continues as new, the next run would not hear.
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

// hearSignals handles what has arrived but was not handled yet: a run that continues as new must call it, or those signals are lost.
func hearSignals(ctx workflow.Context) { inboxOf(ctx).hear() }

// continueAsNewSignals is after how many signals a run continues as new; the server ends a run at 10,000.
const continueAsNewSignals = 5000

// mustContinueAsNew reports whether the run's history is long enough to continue as new at the next good moment.
func mustContinueAsNew(ctx workflow.Context, signals int) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || signals >= continueAsNewSignals
}

// mostEvents and mostBytes are how long a run's history may be: the server ends one that is longer.
const (
	mostEvents = 51_200
	mostBytes  = 50 << 20
)

// historyUsed is how much of that is used, from 0 to 1.
func historyUsed(ctx workflow.Context) float64 {
	info := workflow.GetInfo(ctx)
	return max(float64(info.GetCurrentHistoryLength())/mostEvents, float64(info.GetCurrentHistorySize())/mostBytes)
}

// byWhom renders who asked for something, and why, for messages.
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
