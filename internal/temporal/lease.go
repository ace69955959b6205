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

// Lease holds attempts at activities to the time they have. Temporal gives an attempt up, and starts another wherever a worker is, when its
// time is over, or when nothing was heard of it for its heartbeat timeout. A worker that stood still meanwhile (stopped, swapped out, paused
// with its machine) does not know that, and would go on where it was, long after others have finished the work. With Lease such an
// attempt is cancelled when it moves again, and LeaseOver stops what it is about to write before that.
//
// What has left the worker already cannot be stopped, and says itself what it is about: a node's marks, cordon and conditions hold for the
// version that was read, an eviction for the UID of the pod, a deletion for that of the object. What is created finds the object of the attempt that
// took over; if that is over and gone, it bears the mark of a workflow that has ended, by which the sweeper finds it.
type Lease struct {
	interceptor.WorkerInterceptorBase
	delays delays
}

// LeaseOver returns why the attempt at an activity that ctx belongs to may not change anything any more: another may have taken over. It is
// nil for an attempt that has time, and outside activities.
func LeaseOver(ctx context.Context) error {
	if held, ok := ctx.Value(leaseKey{}).(*lease); ok {
		return held.check(false)
	}
	return nil
}

// Now is the time by the clock of the Temporal server, by which workflows set deadlines, as far as the attempt at an activity that ctx belongs to can
// tell: the worker's clock need not agree with it. Outside activities it is the clock of this machine.
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
	held := newLease(activity.GetInfo(ctx), a.delays, cancel)
	result, err := a.Next.ExecuteActivity(context.WithValue(ctx, leaseKey{}, held), in)
	if err == nil || Final(err) || !errors.Is(context.Cause(ctx), errLeaseOver) {
		return result, err
	}
	return nil, handedOver("the worker stood still for too long; another attempt goes on", err)
}

// leaseHeartbeats renews leases.
type leaseHeartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
}

// RecordHeartbeat implements interceptor.ActivityOutboundInterceptor.
func (h *leaseHeartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	if held, ok := ctx.Value(leaseKey{}).(*lease); ok {
		_ = held.check(true) // over or not: the answer to the heartbeat is the last word
	}
	h.Next.RecordHeartbeat(ctx, details...)
}

var errLeaseOver = errors.New("another attempt may have taken over")

type leaseKey struct{}

// lease is the time that one attempt has.
type lease struct {
	deadline time.Time
	// ahead is by how much the worker's steady clock is ahead of the server's clock; less than 0: it is behind.
	ahead time.Duration
	// silence is for how long nothing may be heard of the attempt; 0: without limit.
	silence time.Duration
	cancel  context.CancelCauseFunc

	mu    sync.Mutex
	heard time.Time
	over  error
}

// newLease counts from when the server has started the attempt: its task may have waited for a worker that stood still. The SDK's own deadline
// counts from when the worker begins, and lets it do so at any time.
func newLease(info activity.Info, delays *delays, cancel context.CancelCauseFunc) *lease {
	begun, steady := wallClock(), steadyClock()
	ahead := steady.Sub(begun)
	if !info.IsLocalActivity {
		var excess time.Duration
		excess, ahead = delays.take(begun.Sub(info.StartedTime), steady.Sub(info.StartedTime))
		begun = begun.Add(-excess)
	}
	return &lease{
		deadline: begun.Add(info.StartToCloseTimeout), ahead: ahead,
		// Less than the server waits: it counts from when a heartbeat came in, and heartbeats are throttled.
		silence: info.HeartbeatTimeout * 3 / 4,
		cancel:  cancel,
		heard:   begun,
	}
}

// delays are the times from the start of an attempt, by the server's clock, to its beginning, by that of the worker, of the latest attempts.
// The clocks need not agree: by how much they differ is in the least delay, and goes out of it some attempts after one of them was set.
type delays struct {
	mu sync.Mutex
	// latest are by the wall clock, in which a pause of the machine shows; steady by the steady clock, in which it does not show that the clock was set.
	latest, steady []time.Duration
}

const delaysKept = 32

// take takes in a delay by either clock. It returns by how much the first is more than the least, and the least of the other.
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

// wallClock is the time without the reading of the monotonic clock, which stands still with a paused machine. Tests set it.
var wallClock = func() time.Time { return time.Now().Round(0) }

// processStart has a reading of the monotonic clock.
var processStart = time.Now()

// steadyClock is a clock that nobody sets, and that stands still with a paused machine.
func steadyClock() time.Time { return processStart.Round(0).Add(time.Since(processStart)) }

// check ends the lease if its time is over, and renews it if that is asked for and it is not.
func (l *lease) check(renew bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	now := wallClock()
	switch silent := now.Sub(l.heard); {
	case now.After(l.deadline):
		l.over = fmt.Errorf("%w: its time was over at %s", errLeaseOver, l.deadline.Format(time.RFC3339))
	case l.silence > 0 && silent > l.silence:
		l.over = fmt.Errorf("%w: nothing was heard of this one for %s", errLeaseOver, silent.Round(time.Second))
	case renew:
		l.heard = now
	}
	if l.over != nil {
		l.cancel(l.over)
	}
	return l.over
}
