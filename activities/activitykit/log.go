package activitykit

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
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
	return Logger(ctx, "cluster", r.Cluster, "node", r.Node, "owner", r.Owner)
}
