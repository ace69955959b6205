package temporal

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
)

// started returns when the attempt of ctx started, by the clock of the Temporal server. For a local activity that is the time of its workflow.
func started(ctx context.Context) time.Time {
	if at, local := ctx.Value(startedKey{}).(time.Time); local {
		return at
	}
	return activity.GetInfo(ctx).StartedTime
}

// Local returns the context for a local activity, which knows the time of its workflow: the SDK tells it only that of the worker's clock.
func Local(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, startedKey{}, workflow.Now(ctx))
}

type startedKey struct{}
