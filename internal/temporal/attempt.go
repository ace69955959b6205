package temporal

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
)

// Started returns when the attempt of ctx started, by the clock of the Temporal server. For a local activity that is the start of its workflow task.
func Started(ctx context.Context) time.Time {
	if started, local := ctx.Value(startedKey{}).(time.Time); local {
		return started
	}
	return activity.GetInfo(ctx).StartedTime
}

// FirstAttempt reports whether no earlier attempt at the activity of ctx can have had effects. It is true outside of activities.
func FirstAttempt(ctx context.Context) bool {
	if !activity.IsActivity(ctx) {
		return true
	}
	attempted, _ := ctx.Value(attemptedKey{}).(bool)
	return activity.GetInfo(ctx).Attempt <= 1 && !attempted
}

// Local returns the context for a local activity, which knows when its workflow task started: the SDK tells it only the time of the worker's clock.
func Local(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, startedKey{}, workflow.Now(ctx))
}

// Attempted returns the context for an activity that was attempted before as a local activity.
func Attempted(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, attemptedKey{}, true)
}

type (
	startedKey   struct{}
	attemptedKey struct{}
)
