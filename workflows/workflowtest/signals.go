package workflowtest

import (
	"slices"
	"time"
)

// SignalWhen sends the signal when the query's status first satisfies the condition, which is looked at every second of workflow time.
func SignalWhen[S any](w *World, condition func(S) bool, signal string, payload any) {
	w.When(func() bool { return condition(StatusOf[S](w)) }, func() { w.SignalWorkflow(signal, payload) })
}

// When runs then as soon as the condition holds; it is looked at every second of workflow time, after minutes less and less often.
func (w *World) When(condition func() bool, then func()) {
	begun, look := w.Now(), func() {}
	look = func() {
		if condition() {
			then()
			return
		}
		waited := w.Now().Sub(begun)
		w.RegisterDelayedCallback(look, max(time.Second, (waited/500).Truncate(time.Second)))
	}
	w.RegisterDelayedCallback(look, time.Second)
}

// SignalWithPayload is a signal with its payload.
type SignalWithPayload struct {
	Name    string
	Payload any
}

// SendInOneTask sends signals that one workflow task brings: of all but the last, no task is told.
func (w *World) SendInOneTask(signals ...SignalWithPayload) {
	last := len(signals) - 1
	for _, s := range signals[:last] {
		w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
	}
	w.SignalWorkflow(signals[last].Name, signals[last].Payload)
}

// SignalInOneTask sends signals without a payload.
func (w *World) SignalInOneTask(names ...string) {
	var signals []SignalWithPayload
	for _, name := range names {
		signals = append(signals, SignalWithPayload{Name: name})
	}
	w.SendInOneTask(signals...)
}

// SentSignals is what workflows have told others by that signal so far.
func (w *World) SentSignals(signal string) []any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.sentSignals[signal])
}
