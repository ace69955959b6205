package workflowtest

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Takes ends a cluster after that time.
func Takes(duration time.Duration) func(workflow.Context) error {
	return func(ctx workflow.Context) error { return workflow.Sleep(ctx, duration) }
}
