// Package notification holds the workflow that delivers a notification.
package notification

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/notifications"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/workflows/kit"
)

// Notification sends a notification to one receiver. Its only activity shows the attempts and their errors.
func Notification(ctx workflow.Context, notice notify.Notice) error {
	var activities *notifications.Activities
	return workflow.ExecuteActivity(kit.WithNotificationRetries(ctx, notice.URL, notice.String()), activities.SendNotification, notice).Get(ctx, nil)
}
