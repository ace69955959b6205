package activitykit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
)

func TestAnActivityThatWaitsForLongSendsFewerHeartbeats(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Minute: 2 * time.Second, 3 * time.Minute: 6 * time.Second, 24 * time.Hour: 7500 * time.Millisecond,
	} {
		require.Equal(t, want, activitykit.HeartbeatPause(30*time.Second, waited), waited)
	}
	require.Equal(t, 2500*time.Millisecond, activitykit.HeartbeatPause(10*time.Second, time.Hour), "a lease ends after three quarters of the timeout")
}
