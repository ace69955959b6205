package activitykit

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"

	"drydock.dev/drydock/internal/temporal"
)

// Logger returns the logger of an activity with these keys, such as "cluster" and "node". The SDK adds the workflow, the activity and the attempt.
// Outside an activity nothing is logged.
func Logger(ctx context.Context, keyvals ...any) log.Logger {
	if !activity.IsActivity(ctx) {
		return log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	}
	return log.With(activity.GetLogger(ctx), keyvals...)
}

// Logger returns the logger of an activity on this node.
func (r NodeRef) Logger(ctx context.Context) log.Logger {
	keys := []any{"cluster", r.Cluster, "node", r.Node, "owner", r.Owner}
	if r.Requestor != "" {
		keys = append(keys, "requestor", r.Requestor)
	}
	return Logger(ctx, append(keys, rolloutKey(r.Rollout)...)...)
}

// OwnerLogger returns the logger of an activity that works on a cluster for this owner.
func OwnerLogger(ctx context.Context, cluster, owner string) log.Logger {
	return Logger(ctx, append([]any{"cluster", cluster, "owner", owner}, rolloutKey(temporal.RolloutOf(owner))...)...)
}

// rolloutKey is the log key of a rollout; none for an empty name.
func rolloutKey(name string) []any {
	if name == "" {
		return nil
	}
	return []any{"rollout", name}
}
