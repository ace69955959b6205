package window

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	windowsactivities "drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// notify has receivers told of what has happened. Each is told by a workflow of its own, which outlives this run: a receiver that is dead holds up nothing
// here. Its id is that of the notice, so that none is sent by two, even if the window was terminated and is defined anew.
func (w *maintenanceWindow) notify(ctx workflow.Context) {
	events := w.events
	w.events = nil
	if w.course.Window == nil {
		return
	}
	var begun []workflow.ChildWorkflowFuture
	for _, event := range events {
		for _, notice := range windows.Notices(w.name, w.course.Window.Spec, event) {
			begun = append(begun, workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
				WorkflowID:            "notice/" + notice.ID,
				WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
				ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
				StaticSummary:         temporal.Cut("tell that window "+w.name+" is "+string(event.Kind), 200),
			}), temporal.WindowNotification, notice))
		}
	}
	for _, child := range begun {
		// One that has begun already is the right one.
		_ = child.GetChildWorkflowExecution().Get(ctx, nil)
	}
}

const (
	// notifyFor is for how long a receiver is tried that does not answer; notifyPause is the longest pause in between.
	notifyFor   = 24 * time.Hour
	notifyPause = 10 * time.Minute
)

// WindowNotification sends word of a window to one receiver. Nobody waits for it: what is tried, and why it fails, is seen in its one activity.
func WindowNotification(ctx workflow.Context, notice windows.Notice) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    2 * kit.EffectTimeout,
		ScheduleToCloseTimeout: notifyFor,
		Summary:                string(notice.Body.Type) + ": " + notice.Body.Message,
		RetryPolicy: &sdktemporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: notifyPause, NonRetryableErrorTypes: temporal.NonRetryable,
		},
	})
	var webhooks *windowsactivities.Activities
	return workflow.ExecuteActivity(ctx, webhooks.SendNotice, notice).Get(ctx, nil)
}
