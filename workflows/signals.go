package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// onSignal calls handle for every signal of that name, in a coroutine of its own. Handlers only change state. A signal without a payload,
// as the Web UI sends it, counts as an empty T. The returned function handles what has arrived but was not received yet: a run that
// continues as new must call it, or those signals are lost.
func onSignal[T any](ctx workflow.Context, name, description string, handle func(T)) (drain func()) {
	channel := workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
	receive := func() {
		var payload T
		for channel.ReceiveAsync(&payload) {
			handle(payload)
			payload = *new(T)
		}
	}
	workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
		// A blocked Receive would be handed a signal before it runs, where nobody else could find it.
		for workflow.Await(ctx, func() bool { return channel.Len() > 0 }) == nil {
			receive()
		}
	})
	return receive
}

// continueAsNewSignals is after how many signals a run continues as new; the server ends a run at 10,000.
const continueAsNewSignals = 5000

// mustContinueAsNew reports whether the run's history is long enough to continue as new at the next good moment.
func mustContinueAsNew(ctx workflow.Context, signals int) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || signals >= continueAsNewSignals
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
