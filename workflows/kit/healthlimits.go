package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// HealthTimeout returns the timeout of the built-in health checks in seconds. The default is 600.
func HealthTimeout(seconds *int32) int32 {
	if seconds == nil {
		return 600
	}
	return *seconds
}

// LastDeadline returns the latest deadline of the declared checks and the built-in ones; nil if one of them has no limit.
func LastDeadline(ctx workflow.Context, builtIn *time.Time, checks []drydockv1.HealthCheck) *time.Time {
	last := builtIn
	for _, check := range checks {
		deadline := DeadlineIn(ctx, checkTimeout(check))
		if last == nil || deadline == nil {
			return nil
		}
		if deadline.After(*last) {
			last = deadline
		}
	}
	return last
}

// checkTimeout returns the timeout of a declared check in seconds. The default is 300.
func checkTimeout(check drydockv1.HealthCheck) int32 {
	if check.TimeoutSeconds == nil {
		return 300
	}
	return *check.TimeoutSeconds
}
