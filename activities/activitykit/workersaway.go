package activitykit

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// awayAfter is the time without a heartbeat after which no worker ran an activity. One that takes over from a worker that crashed needs half of that.
const awayAfter = time.Minute

// WorkersAway returns the period before this attempt in which no worker ran the activity: since the last heartbeat or, if there was none, since the
// activity was scheduled. The server records heartbeats late, so the period may start up to 24 s early. An activity that fails without heartbeats is no
// sign of it.
func WorkersAway(ctx context.Context) (from, to time.Time, away bool) {
	if !activity.IsActivity(ctx) {
		return time.Time{}, time.Time{}, false
	}
	info := activity.GetInfo(ctx)
	from, to = info.ScheduledTime, info.StartedTime
	switch {
	case activity.HasHeartbeatDetails(ctx):
		var last heartbeatDetails
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil || last.At.IsZero() {
			return time.Time{}, time.Time{}, false
		}
		from = last.At
	case info.Attempt > 1:
		return time.Time{}, time.Time{}, false
	}
	return from, to, to.Sub(from) > awayAfter
}
