package temporal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
)

func TestATaskThatWaitedInAFrozenWorkerHasLessTime(t *testing.T) {
	const skew = -time.Hour // the server's clock is an hour ahead
	begin := func(delays *delays, waited time.Duration) error {
		info := activity.Info{StartToCloseTimeout: 10 * time.Second, HeartbeatTimeout: 20 * time.Second}
		_, cancel := context.WithCancelCause(t.Context())
		return newLease(info, time.Now().Add(-skew-waited), delays, cancel).check(false)
	}
	var delays delays
	require.NoError(t, begin(&delays, 0), "the clocks may differ")
	require.NoError(t, begin(&delays, 5*time.Second))
	require.ErrorIs(t, begin(&delays, 11*time.Second), errLeaseOver)
	require.NoError(t, begin(&delays, 0))

	for range delaysKept - 1 {
		require.ErrorIs(t, begin(&delays, time.Minute), errLeaseOver)
	}
	require.NoError(t, begin(&delays, time.Minute), "the worker's clock was set a minute ahead")
}

func TestAnAttemptKnowsTheServersTimeDespiteTheWorkersClock(t *testing.T) {
	const pause = 10 * time.Minute // the longest pause of this machine
	in := func(held *lease) context.Context { return context.WithValue(t.Context(), leaseKey{}, held) }
	for _, skew := range []time.Duration{0, 10 * time.Hour, -10 * time.Hour} { // by which the worker's clock is ahead
		var delays delays
		for _, waited := range []time.Duration{0, time.Hour, 0} {
			held := newLease(activity.Info{}, time.Now().Add(-skew-waited), &delays, nil)
			require.WithinDuration(t, time.Now().Add(-skew), Now(in(held)), pause, "skew %s, waited %s", skew, waited)
		}
	}
	require.WithinDuration(t, time.Now(), Now(t.Context()), pause)
}

func TestAnAttemptKnowsTheServersTimeWhenTheWorkersClockIsSet(t *testing.T) {
	real := wallClock
	t.Cleanup(func() { wallClock = real })
	for _, step := range []time.Duration{10 * time.Hour, -10 * time.Hour} {
		var delays delays
		wallClock = real
		newLease(activity.Info{}, time.Now(), &delays, nil)
		wallClock = func() time.Time { return real().Add(step) }
		held := newLease(activity.Info{}, time.Now(), &delays, nil)
		require.WithinDuration(t, time.Now(), Now(context.WithValue(t.Context(), leaseKey{}, held)), 10*time.Minute)
	}
}

func TestTheLeaseOfAFrozenAttemptIsNotRenewed(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	held := newLease(activity.Info{StartToCloseTimeout: time.Hour, HeartbeatTimeout: 20 * time.Second}, time.Now(), &delays{}, cancel)
	require.NoError(t, held.check(true))
	held.heard = held.heard.Add(-16 * time.Second)
	require.ErrorIs(t, held.check(true), errLeaseOver, "a late heartbeat does not renew the lease")
	require.ErrorIs(t, held.check(true), errLeaseOver)
	require.ErrorIs(t, context.Cause(ctx), errLeaseOver)
}
