package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// Lease cancels attempts at activities that have run out of time. After its timeout, or without a heartbeat for the heartbeat timeout, Temporal gives an
// attempt up and starts another on any worker. A worker that was frozen meanwhile (stopped, swapped out, or paused with its machine) does not know
// that and would continue, long after others have finished the work. Lease cancels such an attempt as soon as it runs again, and LeaseOver stops its
// writes before that.
//
// Requests that have already left the worker cannot be stopped, and have preconditions: changes of a node's mark, cordon and conditions name the
// resourceVersion, evictions and deletions the UID. A creation meets the object of the attempt that took over; if that is gone already, the new
// object has the mark of a closed workflow, and the sweeper finds it.
type Lease struct {
	interceptor.WorkerInterceptorBase
	delays delays
}

// LeaseOver returns why the attempt of ctx may no longer write: another one may have taken over. It is nil for an attempt that has time, and outside
// of activities.
func LeaseOver(ctx context.Context) error {
	if held, ok := ctx.Value(leaseKey{}).(*lease); ok {
		return held.check(false)
	}
	return nil
}

// Now returns the time of the Temporal server's clock, which workflows use for deadlines, as the attempt of ctx estimates it: the worker's clock may
// differ. Outside of activities it is the clock of this machine.
func Now(ctx context.Context) time.Time {
	if held, ok := ctx.Value(leaseKey{}).(*lease); ok {
		return steadyClock().Add(-held.ahead)
	}
	return time.Now()
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (l *Lease) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityLease{interceptor.ActivityInboundInterceptorBase{Next: next}, &l.delays}
}

type activityLease struct {
	interceptor.ActivityInboundInterceptorBase
	delays *delays
}

// Init implements interceptor.ActivityInboundInterceptor.
func (a *activityLease) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(&leaseHeartbeats{interceptor.ActivityOutboundInterceptorBase{Next: outbound}})
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *activityLease) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := newLease(activity.GetInfo(ctx), started(ctx), a.delays, cancel)
	result, err := a.Next.ExecuteActivity(context.WithValue(ctx, leaseKey{}, held), in)
	if err == nil || Final(err) || !errors.Is(context.Cause(ctx), errLeaseOver) {
		return result, err
	}
	return nil, continuedElsewhere("the worker was frozen for too long; another attempt continues", err)
}

// leaseHeartbeats renews leases.
type leaseHeartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
}

// RecordHeartbeat implements interceptor.ActivityOutboundInterceptor.
func (h *leaseHeartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	if held, ok := ctx.Value(leaseKey{}).(*lease); ok {
		_ = held.check(true) // the answer to the heartbeat decides
	}
	h.Next.RecordHeartbeat(ctx, details...)
}

var errLeaseOver = errors.New("another attempt may have taken over")

type leaseKey struct{}

// lease is the remaining time of an attempt.
type lease struct {
	deadline time.Time
	// ahead is how far the worker's steady clock is ahead of the server's clock; negative: behind.
	ahead time.Duration
	// silence is the longest time without a heartbeat; 0: no limit.
	silence time.Duration
	cancel  context.CancelCauseFunc

	mu    sync.Mutex
	heard time.Time
	over  error
}

// newLease counts from when the server started the attempt: its task may have waited in a frozen worker. The SDK's own deadline counts from when the
// worker begins.
func newLease(info activity.Info, started time.Time, delays *delays, cancel context.CancelCauseFunc) *lease {
	begun := wallClock()
	excess, ahead := delays.take(begun.Sub(started), steadyClock().Sub(started))
	begun = begun.Add(-excess)
	return &lease{
		deadline: begun.Add(info.StartToCloseTimeout), ahead: ahead,
		// Shorter than the server's timeout, which counts from the arrival of a throttled heartbeat.
		silence: info.HeartbeatTimeout * 3 / 4,
		cancel:  cancel,
		heard:   begun,
	}
}

// delays are the times from the server's start of an attempt to its beginning on the worker, for the latest attempts. The smallest delay contains the
// difference of the clocks; a clock that is set leaves it after a few attempts.
type delays struct {
	mu sync.Mutex
	// latest are by the wall clock, which shows a pause of the machine; steady by the steady clock, which does not show that a clock was set.
	latest, steady []time.Duration
}

const delaysKept = 32

// take records a delay by both clocks. It returns how much the first exceeds the smallest, and the smallest of the second.
func (d *delays) take(delay, steady time.Duration) (excess, ahead time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := func(kept *[]time.Duration, delay time.Duration) time.Duration {
		*kept = append(*kept, delay)
		*kept = (*kept)[max(0, len(*kept)-delaysKept):]
		return slices.Min(*kept)
	}
	return delay - keep(&d.latest, delay), keep(&d.steady, steady)
}

// wallClock is the time without the monotonic clock reading, which stops while a machine is paused. Tests set it.
var wallClock = func() time.Time { return time.Now().Round(0) }

// processStart has a reading of the monotonic clock.
var processStart = time.Now()

// steadyClock is a clock that cannot be set, and that stops while a machine is paused.
func steadyClock() time.Time { return processStart.Round(0).Add(time.Since(processStart)) }

// check ends the lease if it has expired; otherwise it renews the lease if asked.
func (l *lease) check(renew bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	now := wallClock()
	switch silent := now.Sub(l.heard); {
	case now.After(l.deadline):
		l.over = fmt.Errorf("%w: its time ended at %s", errLeaseOver, l.deadline.Format(time.RFC3339))
	case l.silence > 0 && silent > l.silence:
		l.over = fmt.Errorf("%w: this one had no heartbeat for %s", errLeaseOver, silent.Round(time.Second))
	case renew:
		l.heard = now
	}
	if l.over != nil {
		l.cancel(l.over)
	}
	return l.over
}
