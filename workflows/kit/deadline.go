package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// DeadlineIn returns the instant that many seconds from now; nil for 0, which means no limit in all APIs.
func DeadlineIn(ctx workflow.Context, seconds int32) *time.Time {
	if seconds == 0 {
		return nil
	}
	deadline := workflow.Now(ctx).Add(time.Duration(seconds) * time.Second)
	return &deadline
}
