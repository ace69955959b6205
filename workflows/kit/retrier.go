// Package kit holds what all workflows share: retries of activities, signals in the order in which they were sent, search attributes, the
// current reason, details for the Web UI, and progress for a parent.
package kit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

const (
	// EffectTimeout is how long one attempt at an effect may take.
	EffectTimeout = 10 * time.Second
	// HeartbeatTimeout is how long a waiting activity may go without a heartbeat before another worker takes over.
	HeartbeatTimeout = 30 * time.Second
	// WatchHeartbeatTimeout is the same for watches on which decisions depend: until another worker takes over, they use what was observed last.
	WatchHeartbeatTimeout = 10 * time.Second
	// UnlimitedWait is how long one attempt at a wait without a deadline may take, and watchProbe one attempt at a watch that has failed before.
	UnlimitedWait = 24 * time.Hour
	watchProbe    = time.Minute
	// DeadlineGrace is the time beyond its deadline in which an activity looks again and reports what still blocks.
	DeadlineGrace = time.Minute
	// RoundAttempts is the number of attempts in the first round. After a failed round the workflow shows the reason and keeps retrying.
	RoundAttempts = 6
	// FirstRetry is the pause before the second attempt; LaterRetry is the least pause in the rounds after the first.
	FirstRetry = 200 * time.Millisecond
	LaterRetry = 10 * time.Second
	// UsualRound is the length of the second round. Each further round is twice as long as the one before, up to LongestRound. In an outage of most of a
	// day rounds grow on by outageGrowth each, up to outageRound, so that an outage of months does not fill the history. Within a round an attempt
	// starts every LaterRetry, so recovery is noticed as fast as before.
	UsualRound   = RoundAttempts * LaterRetry
	LongestRound = 10 * time.Minute
	outageGrowth = 6 * time.Second
	outageRound  = time.Hour
)

// Report receives the reason why an activity does not succeed yet, and an empty reason once it does. An empty reason with a message clears only that
// message: the activity continues, and something else may have set another reason meanwhile.
type Report func(ctx workflow.Context, reason, message string)

// Retrier retries activities until they succeed or fail for good, in rounds of attempts. Between rounds it reports why.
type Retrier struct {
	// TaskQueue of the activities.
	TaskQueue string
	// Located, unless nil, points to the task queue of the workers that have cluster, and replaces TaskQueue. It is located again when the workers there
	// no longer have the cluster.
	Located *string
	cluster string
	// Report is called when the reason changes; nil: the reason is not reported.
	Report Report
	// Deadline ends the retries; the zero time means never. At least one round runs, however late it is.
	Deadline time.Time
	// HeartbeatTimeout is how long a waiting activity may go without a heartbeat; 0 means the constant HeartbeatTimeout.
	HeartbeatTimeout time.Duration
	// Attempts is the number of attempts in the first round; 0 means RoundAttempts.
	Attempts int32
	// BeforeRound, unless nil, runs before every round but the first. Its error ends the retries.
	BeforeRound func() error
	// watching marks a watch: it waits without limit and does not report what it waits for.
	watching bool
	// Abandon returns on cancellation without waiting for the activity, which must be one that changes nothing.
	Abandon bool
}

// Until returns a copy that gives up at that instant.
func (r Retrier) Until(then time.Time) Retrier {
	r.Deadline = then
	return r
}

// Once returns a copy that makes one round of attempts.
func (r Retrier) Once() Retrier { return r.Until(time.Unix(0, 0)) }

// Run runs a short activity.
func (r Retrier) Run(ctx workflow.Context, summary string, activity, input, result any) error {
	return r.retry(ctx, workflow.ActivityOptions{StartToCloseTimeout: EffectTimeout, Summary: summary}, activity, input, result)
}

// Wait runs an activity that waits, with heartbeats, until its deadline, or without limit when that is nil. The activity itself ends at the deadline
// and reports what still blocks. If no worker could look, Wait fails with the error type timeoutType soon after.
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

// Watch runs an activity that waits without limit and reports only news. After a failure, attempts are short until one of them ends without an error:
// only then is it known that the watch works again, and the reason can be cleared.
func (r Retrier) Watch(ctx workflow.Context, summary string, activity, input, result any) error {
	r.watching = true
	return r.Wait(ctx, summary, nil, "", activity, input, result)
}

func (r Retrier) retry(ctx workflow.Context, options workflow.ActivityOptions, activity, input, result any) error {
	options.WaitForCancellation = !r.Abandon
	reported := ""
	for failed := 0; ; {
		if r.Located != nil {
			r.TaskQueue = *r.Located
		}
		r.Plan(ctx, &options, failed)
		if r.watching {
			r.planWatch(&options, reported != "")
		}
		late := !r.Deadline.IsZero() && workflow.Now(ctx).After(r.Deadline)
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, input).Get(ctx, result)
		over := err == nil || temporal.Final(err) || late
		if reported != "" && (over || ctx.Err() != nil) {
			r.report(ctx, "", "")
		}
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			// An attempt in progress at the cancellation may end with any error.
			return ctx.Err()
		case Uneventful(err, options):
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
		if err := r.BeforeRound(); err != nil {
			r.report(ctx, "", "")
			return err
		}
	}
}

func (r Retrier) report(ctx workflow.Context, reason, message string) {
	if r.Report != nil {
		r.Report(ctx, reason, message)
	}
}

// Plan sets the options of the next round after that many failed ones. The last round before the deadline is hardly longer than the time left.
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
	case r.TaskQueue == temporal.TaskQueue:
	case failed == 0 && (r.Deadline.IsZero() || r.Deadline.After(workflow.Now(ctx))):
		options.ScheduleToStartTimeout = LaterRetry // the cluster may have moved
	default:
		options.ScheduleToStartTimeout = length
	}
}

// planWatch ends a round of a watch that has failed before with the first attempt that can wait again.
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
		return "found no worker that has the cluster: " + temporal.ErrorMessage(err)
	}
	return temporal.ErrorMessage(err)
}

// Uneventful reports whether a round ended only because workers stopped, or because nothing happened for as long as one attempt at a wait may take.
func Uneventful(err error, options workflow.ActivityOptions) bool {
	waits := options.HeartbeatTimeout > 0
	return temporal.ErrorType(err) == temporal.ErrWorkerShutdown || waits && timedOut(err)
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err)
	return ok && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE
}

// reasonNoWorker is the reason when no worker accepts the activities of a cluster that has a task queue of its own.
const reasonNoWorker = "NoWorker"

// ReasonOf returns the CamelCase reason for an error.
func ReasonOf(err error) string {
	if t := temporal.ErrorType(err); t != "" {
		return t
	}
	if timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err); ok {
		if timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			return reasonNoWorker
		}
		return "Timeout" + timeout.TimeoutType().String()
	}
	var running *sdktemporal.ChildWorkflowExecutionAlreadyStartedError
	var terminated *sdktemporal.TerminatedError
	switch {
	case errors.As(err, &running):
		return "AlreadyRunning"
	case errors.As(err, &terminated):
		return "Terminated"
	}
	return "Failed"
}

// DeadlineIn returns the instant that is seconds from now, or nil when seconds is 0, which means no limit everywhere in the APIs.
func DeadlineIn(ctx workflow.Context, seconds int32) *time.Time {
	if seconds == 0 {
		return nil
	}
	deadline := workflow.Now(ctx).Add(time.Duration(seconds) * time.Second)
	return &deadline
}

// Owner returns the ownership mark of this workflow. It holds the id of the first run, so that it stays the same over continue-as-new.
func Owner(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return info.WorkflowExecution.ID + "/" + info.FirstRunID
}
