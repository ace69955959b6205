package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/workflows/notification"
	"drydock.dev/drydock/workflows/workflowtest"
)

// Otherwise an e-mail would be sent again while the mail server still examines it. A webhook whose worker has crashed is called again sooner.
func TestAnAttemptLastsLongerThanTheDialogWithTheMailServer(t *testing.T) {
	attempt := func(url string) (limit time.Duration) {
		w := workflowtest.NewWorld(t)
		w.RegisterActivityWithOptions(func(ctx context.Context, _ notify.Notice) error {
			limit = activity.GetInfo(ctx).StartToCloseTimeout
			return nil
		}, activity.RegisterOptions{Name: "SendNotification"})
		w.ExecuteWorkflow(notification.Notification, notify.Notice{URL: url})
		require.NoError(t, w.GetWorkflowError())
		return limit
	}
	require.Greater(t, attempt("mailto:ann@example.com"), notify.EmailTimeout)
	require.Equal(t, time.Minute, attempt("https://hooks.example.com"))
}
