package workflowtest

// Sending is a signal with its payload.
type Sending struct {
	Name    string
	Payload any
}

// SendTogether sends signals that one workflow task brings: of all but the last, no task is told.
func (w *World) SendTogether(signals ...Sending) {
	last := len(signals) - 1
	for _, s := range signals[:last] {
		w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
	}
	w.SignalWorkflow(signals[last].Name, signals[last].Payload)
}

// SayTogether sends signals without a payload.
func (w *World) SayTogether(names ...string) {
	var signals []Sending
	for _, name := range names {
		signals = append(signals, Sending{Name: name})
	}
	w.SendTogether(signals...)
}
