package window

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	windowsactivities "drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// notifyReceivers sends events to the receivers. Each notification is a workflow of its own, so that a dead receiver delays nothing here. The workflow
// has the ID of the notice, so that no notice is sent twice, even after the window was terminated and defined again.
func (w *maintenanceWindow) notifyReceivers(ctx workflow.Context) {
	events := w.events
	w.events = nil
	if w.state.Window == nil {
		return
	}
	var started []workflow.ChildWorkflowFuture
	for _, event := range events {
		for _, notice := range windows.Notices(w.name, w.state.Window.Spec, event) {
			started = append(started, workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
				WorkflowID:            temporal.NotificationID(notice.ID),
				WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
				ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
				StaticSummary:         temporal.Cut("notify: window "+w.name+" "+string(event.Kind), 200),
			}), temporal.WindowNotification, notice))
		}
	}
	for _, child := range started {
		// An error means that this notification has been started before.
		_ = child.GetChildWorkflowExecution().Get(ctx, nil)
	}
}

// WindowNotification sends a notification about a window to one receiver. Its only activity shows the attempts and their errors.
func WindowNotification(ctx workflow.Context, notice windows.Notice) error {
	ctx = kit.WithNotificationRetries(ctx, notice.URL, string(notice.Body.Type)+": "+notice.Body.Message)
	var webhooks *windowsactivities.Activities
	return workflow.ExecuteActivity(ctx, webhooks.SendNotice, notice).Get(ctx, nil)
}
