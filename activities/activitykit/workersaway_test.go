package activitykit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"drydock.dev/drydock/activities/activitykit"
)

// away runs WorkersAway in an activity whose last heartbeat had these details; nil: there was none.
func away(t *testing.T, last any) (length time.Duration, is bool) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	if last != nil {
		environment.SetHeartbeatDetails(last)
	}
	environment.RegisterActivityWithOptions(func(ctx context.Context) error {
		var from, to time.Time
		from, to, is = activitykit.WorkersAway(ctx)
		length = to.Sub(from)
		return nil
	}, activity.RegisterOptions{Name: "WorkersAway"})
	_, err := environment.ExecuteActivity("WorkersAway")
	require.NoError(t, err)
	return length, is
}

func TestATimeWithoutHeartbeatsShowsThatNoWorkerRan(t *testing.T) {
	length, is := away(t, activitykit.HeartbeatDetails{At: time.Now().Add(-10 * time.Minute)})
	require.True(t, is)
	require.InDelta(t, 10*time.Minute, length, float64(10*time.Second))

	for name, last := range map[string]any{
		"another worker took over": activitykit.HeartbeatDetails{At: time.Now().Add(-31 * time.Second)},
		"an earlier version":       activitykit.HeartbeatDetails{},
		"unreadable details":       "text",
		"the first attempt":        nil,
	} {
		_, is := away(t, last)
		require.False(t, is, name)
	}
	_, _, is = activitykit.WorkersAway(t.Context())
	require.False(t, is, "outside an activity")
}
