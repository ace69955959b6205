package workflowtest

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
)

// Notices are the notifications that a workflow has started.
type Notices struct {
	// ByURL are the notices by receiver.
	ByURL map[string][]notify.Notice
	// IDs are those of the workflows that deliver them.
	IDs []string
}

// RecordNotices records notifications instead of delivering them.
func (w *World) RecordNotices() *Notices {
	notices := &Notices{ByURL: map[string][]notify.Notice{}}
	w.RegisterAs(temporal.Notification, func(ctx workflow.Context, notice notify.Notice) error {
		notices.ByURL[notice.URL] = append(notices.ByURL[notice.URL], notice)
		notices.IDs = append(notices.IDs, workflow.GetInfo(ctx).WorkflowExecution.ID)
		return nil
	})
	return notices
}

// Events are the events of which a receiver was notified, with " resolved" for the end of a state.
func (n *Notices) Events(url string) []string {
	var events []string
	for _, notice := range n.ByURL[url] {
		event := string(notice.Fact.Event)
		if notice.Fact.ResolvedAt != nil {
			event += " resolved"
		}
		events = append(events, event)
	}
	return events
}
