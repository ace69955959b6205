package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// HealthTimeout is the limit of the built-in health checks in seconds; 600 unless given.
func HealthTimeout(seconds *int32) int32 {
	if seconds == nil {
		return 600
	}
	return *seconds
}

// LastDeadline is when the last of the checks and the built-in ones, whose deadline is given, has had its time; nil when one has no limit.
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

// checkTimeout is the limit of a declared check in seconds; 300 unless given.
func checkTimeout(check drydockv1.HealthCheck) int32 {
	if check.TimeoutSeconds == nil {
		return 300
	}
	return *check.TimeoutSeconds
}
