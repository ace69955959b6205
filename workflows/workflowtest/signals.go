package workflowtest

import (
	"slices"
	"time"
)

// SignalWhen sends the signal as soon as the status satisfies the condition.
func SignalWhen[S any](w *World, condition func(S) bool, signal string, payload any) {
	w.When(func() bool { return condition(StatusOf[S](w)) }, func() { w.SignalWorkflow(signal, payload) })
}

// When runs a function as soon as the condition holds. It checks every second of workflow time, and less often after minutes.
func (w *World) When(condition func() bool, then func()) {
	start, check := w.Now(), func() {}
	check = func() {
		if condition() {
			then()
			return
		}
		waited := w.Now().Sub(start)
		w.RegisterDelayedCallback(check, max(time.Second, (waited/500).Truncate(time.Second)))
	}
	w.RegisterDelayedCallback(check, time.Second)
}

// SignalWithPayload is a signal and its payload.
type SignalWithPayload struct {
	Name    string
	Payload any
}

// SendInOneTask sends signals that the workflow receives in one workflow task.
func (w *World) SendInOneTask(signals ...SignalWithPayload) {
	last := len(signals) - 1
	for _, s := range signals[:last] {
		w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
	}
	w.SignalWorkflow(signals[last].Name, signals[last].Payload)
}

// SignalInOneTask sends signals without a payload, which the workflow receives in one workflow task.
func (w *World) SignalInOneTask(names ...string) {
	var signals []SignalWithPayload
	for _, name := range names {
		signals = append(signals, SignalWithPayload{Name: name})
	}
	w.SendInOneTask(signals...)
}

// SentSignals returns the payloads of the signals that workflows have sent to others so far.
func (w *World) SentSignals(signal string) []any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.sentSignals[signal])
}
