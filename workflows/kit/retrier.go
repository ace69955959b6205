// Package kit has the helpers of all workflows: retries of activities, signals in order, search attributes, the current reason, details for the Web UI,
// and progress reports to a parent.
package kit

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

const (
	// EffectTimeout limits one attempt of a short activity, and LocalTimeout that of a local activity: all else that its workflow does waits meanwhile.
	EffectTimeout = 10 * time.Second
	LocalTimeout  = 2 * time.Second
	// HeartbeatTimeout is the maximum time between heartbeats of a waiting activity. After it, another worker takes over.
	HeartbeatTimeout = 30 * time.Second
	// WatchHeartbeatTimeout is the same for watches on which decisions depend: until another worker takes over, decisions use old observations.
	WatchHeartbeatTimeout = 10 * time.Second
	// UnlimitedWait limits one attempt of a wait without a deadline. watchProbe limits one attempt of a watch that has failed before.
	UnlimitedWait = 24 * time.Hour
	watchProbe    = time.Minute
	// DeadlineGrace is the time after its deadline in which an activity checks again and reports the blockers.
	DeadlineGrace = time.Minute
	// RoundAttempts is the number of attempts in the first round. After a failed round the workflow shows the reason and keeps retrying.
	RoundAttempts = 6
	// FirstRetry is the pause before the second attempt. LaterRetry is the pause in the rounds after the first.
	FirstRetry = 200 * time.Millisecond
	LaterRetry = 10 * time.Second
	// UsualRound is the length of the second round. Each further round is twice as long, up to LongestRound. In an outage of many hours, rounds grow by
	// outageGrowth each, up to outageRound, so that an outage of months does not fill the history. Within every round, an attempt starts each
	// LaterRetry, so recovery is noticed equally fast.
	UsualRound   = RoundAttempts * LaterRetry
	LongestRound = 10 * time.Minute
	outageGrowth = 6 * time.Second
	outageRound  = time.Hour
)

// Report receives the reason why an activity is being retried, and an empty reason after that. An empty reason with a message clears only that message,
// because another reason may have been set since.
type Report func(ctx workflow.Context, reason, message string)

// Retrier retries activities in rounds of attempts until they succeed or fail with a final error. Between rounds it reports the reason.
type Retrier struct {
	// TaskQueue of the activities.
	TaskQueue string
	// Located, unless nil, points to the task queue of the workers that serve the cluster, and replaces TaskQueue. The retrier locates the cluster again
	// when those workers no longer serve it.
	Located *string
	cluster string
	// Report receives changes of the reason; nil: they are not reported.
	Report Report
	// Deadline ends the retries; zero: never. At least one round runs, even after the deadline.
	Deadline time.Time
	// HeartbeatTimeout is that of waiting activities; 0: the constant HeartbeatTimeout.
	HeartbeatTimeout time.Duration
	// Attempts is the number of attempts in the first round; 0: RoundAttempts.
	Attempts int32
	// BeforeRound, unless nil, runs before every round but the first. Its error ends the retries.
	BeforeRound func() error
	// watching: the activity waits without limit, and returns only on a change.
	watching bool
	// Abandon: a cancellation does not wait for the activity. Use it only for activities without effects.
	Abandon bool
}

// Until returns a copy with that deadline.
func (r Retrier) Until(deadline time.Time) Retrier {
	r.Deadline = deadline
	return r
}

// Once returns a copy that makes one round of attempts.
func (r Retrier) Once() Retrier { return r.Until(time.Unix(0, 0)) }

// Run runs a short activity.
func (r Retrier) Run(ctx workflow.Context, summary string, activity, input, result any) error {
	return r.retry(ctx, workflow.ActivityOptions{StartToCloseTimeout: EffectTimeout, Summary: summary}, activity, input, result)
}

// RunLocal makes one attempt at a short activity as a local activity, which costs one event and no workflow task, and reports whether it has succeeded. It makes
// none if the workers of the workflow do not serve the task queue. The activity must be safe to repeat, and must not query its workflow.
func (r Retrier) RunLocal(ctx workflow.Context, summary string, activity, input, result any) bool {
	if r.Located != nil {
		r.TaskQueue = *r.Located
	}
	if r.TaskQueue != temporal.TaskQueue || ctx.Err() != nil {
		return false
	}
	own, err := copied(input)
	if err != nil {
		return false
	}
	whole, _ := workflow.NewDisconnectedContext(temporal.Local(ctx)) // a cancellation would leave open what it has done
	whole = workflow.WithLocalActivityOptions(whole, workflow.LocalActivityOptions{
		StartToCloseTimeout: LocalTimeout, RetryPolicy: &sdktemporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	})
	return workflow.ExecuteLocalActivity(whole, activity, own).Get(whole, result) == nil
}

// copied returns the input as an activity receives it from the server. The SDK passes that of a local activity by reference, and the activity could change
// the state of its workflow.
func copied(input any) (any, error) {
	payload, err := temporal.DataConverter().ToPayload(input)
	if err != nil {
		return nil, err
	}
	own := reflect.New(reflect.TypeOf(input))
	err = temporal.DataConverter().FromPayload(payload, own.Interface())
	return own.Elem().Interface(), err
}

// Wait runs an activity that waits with heartbeats, until its deadline or without limit if the deadline is nil. The activity itself ends at the deadline
// and reports the blockers. If no worker can run it, Wait fails soon after the deadline with an error of type timeoutType.
func (r Retrier) Wait(ctx workflow.Context, summary string, deadline *time.Time, timeoutType string, activity, input, result any) error {
	options := workflow.ActivityOptions{StartToCloseTimeout: UnlimitedWait, HeartbeatTimeout: cmp.Or(r.HeartbeatTimeout, HeartbeatTimeout), Summary: summary}
	if deadline != nil {
		options.StartToCloseTimeout = max(0, deadline.Sub(workflow.Now(ctx))) + DeadlineGrace
		r.Deadline = deadline.Add(DeadlineGrace)
	}
	err := r.retry(ctx, options, activity, input, result)
	if err == nil || deadline == nil || ctx.Err() != nil || temporal.Final(err) {
		return err
	}
	return temporal.Error(timeoutType, fmt.Sprintf("%s: timed out; state unknown: %s", summary, temporal.ErrorMessage(err)), err)
}

// Watch runs an activity that waits without limit for a change. After a failure, attempts are short until one of them times out or succeeds. That shows that
// the watch works again, and clears the reason.
func (r Retrier) Watch(ctx workflow.Context, summary string, activity, input, result any) error {
	r.watching = true
	return r.Wait(ctx, summary, nil, "", activity, input, result)
}

func (r Retrier) retry(ctx workflow.Context, options workflow.ActivityOptions, activity, input, result any) error {
	options.WaitForCancellation = !r.Abandon
	reported, attempting := "", ctx
	for failed, attempts := 0, 0; ; {
		if r.Located != nil {
			r.TaskQueue = *r.Located
		}
		r.Plan(ctx, &options, failed)
		if r.watching {
			r.planWatch(&options, reported != "")
		}
		late := !r.Deadline.IsZero() && workflow.Now(ctx).After(r.Deadline)
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(attempting, options), activity, input).Get(ctx, result)
		message, failure := temporal.MessageIn(err), temporal.FailureIn(err)
		if failure != nil {
			err = failure
		}
		over := err == nil || message == nil && failure == nil && (temporal.Final(err) || late)
		if failure != nil && late {
			over = attempts+1 >= int(cmp.Or(r.Attempts, RoundAttempts))
		}
		if reported != "" && (over || ctx.Err() != nil) {
			r.report(ctx, "", "")
		}
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			// A cancelled attempt may end with any error.
			return ctx.Err()
		case message != nil: // the activity continues after it
			failed, attempts, attempting = 0, 0, temporal.WithState(ctx, message)
			if reported != "" {
				r.report(ctx, "", reported)
				reported = ""
			}
			handleMessage(ctx, message)
		case failure != nil:
			if attempts++; attempts >= RoundAttempts {
				reported = options.Summary + ": " + r.Explain(err, options)
				r.report(ctx, ReasonOf(err), reported)
			}
			if err := pauseBeforeAttempt(ctx, attempts); err != nil {
				r.report(ctx, "", "")
				return err
			}
		case uneventful(err, options):
			failed = 0
			if reported != "" && timedOut(err) {
				r.report(ctx, "", reported)
				reported = ""
			}
		default:
			reported = options.Summary + ": " + r.Explain(err, options)
			r.report(ctx, ReasonOf(err), reported)
			failed++
			r.locateAgain(ctx, err)
		}
		if r.BeforeRound == nil {
			continue
		}
		HandlePendingSignals(ctx)
		if err := r.BeforeRound(); err != nil {
			r.report(ctx, "", "")
			return err
		}
	}
}

// pauseBeforeAttempt pauses before the next attempt of an activity that only its workflow may repeat. In a long outage attempts become rare, because each adds
// to the history.
func pauseBeforeAttempt(ctx workflow.Context, attempts int) error {
	pause := min(FirstRetry<<min(attempts-1, 10), LaterRetry)
	if rare := time.Duration(attempts) * time.Second; attempts > 60 {
		pause = min(rare, LongestRound)
	}
	return workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "before the next attempt"}).Get(ctx, nil)
}

func (r Retrier) report(ctx workflow.Context, reason, message string) {
	if r.Report != nil {
		r.Report(ctx, reason, message)
	}
}

// Plan sets the options of the next round after a number of failed ones. The last round ends soon after the deadline.
func (r Retrier) Plan(ctx workflow.Context, options *workflow.ActivityOptions, failed int) {
	length := min(UsualRound<<min(max(0, failed-1), 10), LongestRound)
	length = max(length, min(time.Duration(failed)*outageGrowth, outageRound))
	if !r.Deadline.IsZero() {
		length = max(UsualRound, min(length, r.Deadline.Sub(workflow.Now(ctx))))
	}
	options.RetryPolicy = &sdktemporal.RetryPolicy{
		InitialInterval:        FirstRetry,
		BackoffCoefficient:     2,
		MaximumInterval:        LaterRetry,
		MaximumAttempts:        cmp.Or(r.Attempts, RoundAttempts),
		NonRetryableErrorTypes: temporal.NonRetryable,
	}
	if failed > 0 {
		options.RetryPolicy.InitialInterval, options.RetryPolicy.MaximumAttempts = LaterRetry, int32(length/LaterRetry)
	}
	options.TaskQueue, options.ScheduleToStartTimeout = r.TaskQueue, 0
	switch {
	case r.TaskQueue == temporal.TaskQueue, r.TaskQueue == temporal.RequestTaskQueue:
	case failed == 0 && (r.Deadline.IsZero() || r.Deadline.After(workflow.Now(ctx))):
		options.ScheduleToStartTimeout = LaterRetry // the cluster may have moved to another worker
	default:
		options.ScheduleToStartTimeout = length
	}
}

// planWatch sets the options of a watch. After a failure, the first attempt that can wait again ends the round.
func (r Retrier) planWatch(options *workflow.ActivityOptions, hasFailed bool) {
	options.StartToCloseTimeout = UnlimitedWait
	if hasFailed {
		options.StartToCloseTimeout = watchProbe
		options.RetryPolicy.NonRetryableErrorTypes = append(slices.Clone(temporal.NonRetryable), "TemporalTimeout:"+enumspb.TIMEOUT_TYPE_START_TO_CLOSE.String())
	}
}

// Explain describes why a round failed.
func (r Retrier) Explain(err error, options workflow.ActivityOptions) string {
	switch {
	case ReasonOf(err) == reasonNoWorker:
		return fmt.Sprintf("no free worker serves task queue %s: no worker accepted the activity within %s", r.TaskQueue, options.ScheduleToStartTimeout)
	case timedOut(err):
		return fmt.Sprintf("every attempt timed out after %s", options.StartToCloseTimeout)
	case temporal.ErrorType(err) == temporal.ErrClusterUnknown:
		return "found no worker that serves the cluster: " + temporal.ErrorMessage(err)
	}
	return temporal.ErrorMessage(err)
}

// uneventful reports whether a round ended only because workers stopped, or because a wait reached the limit of one attempt without news.
func uneventful(err error, options workflow.ActivityOptions) bool {
	waits := options.HeartbeatTimeout > 0
	return temporal.ErrorType(err) == temporal.ErrWorkerShutdown || waits && timedOut(err)
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err)
	return ok && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE
}
