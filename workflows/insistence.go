// Package workflows holds Drydock's durable workflows. Each reads like the runbook of what it does: time and order are here,
// decisions are in the pure packages, effects in the activities.
package workflows

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
	// effectTimeout is how long one attempt at an effect may take.
	effectTimeout = 10 * time.Second
	// heartbeatTimeout is how long a waiting activity may go without a heartbeat before another worker takes over.
	heartbeatTimeout = 30 * time.Second
	// unlimitedWait is how long one attempt at a wait without a deadline may take, and heardWait one at a watch that has failed before.
	unlimitedWait = 24 * time.Hour
	heardWait     = time.Minute
	// deadlineGrace is the time beyond its deadline in which an activity looks once more and reports what is left.
	deadlineGrace = time.Minute
	// roundAttempts is the number of attempts in the first round. After a failed round the workflow shows the reason and goes on retrying.
	roundAttempts = 6
	// firstRetry is the pause before the second attempt; laterRetry is the least pause in the rounds after the first.
	firstRetry = 200 * time.Millisecond
	laterRetry = 10 * time.Second
	// usualRound is the length of the second round. Each further round is twice as long as the one before, up to longestRound. In an outage of most of a
	// day rounds grow on by outageGrowth each, up to outageRound, so that an outage of months does not fill the history. Within a round an attempt
	// starts every laterRetry, so recovery is noticed as fast as before.
	usualRound   = roundAttempts * laterRetry
	longestRound = 10 * time.Minute
	outageGrowth = 6 * time.Second
	outageRound  = time.Hour
)

// insistence retries activities until they succeed or fail for good, in rounds of attempts. Between rounds it reports why.
type insistence struct {
	// taskQueue of the activities.
	taskQueue string
	// home, unless nil, points to the task queue of the workers that have cluster, and replaces taskQueue. It is located again when no worker there
	// has the cluster any more.
	home    *string
	cluster string
	// waiting receives the reason why an activity does not succeed yet, and an empty reason once it does. An empty reason with a message clears only
	// that message: the activity goes on, and something else may have set another one meanwhile.
	waiting func(ctx workflow.Context, reason, message string)
	// giveUpAt ends the retries; the zero time means never. At least one round runs, however late it is.
	giveUpAt time.Time
	// silence is how long a waiting activity may go without a heartbeat; 0 means heartbeatTimeout.
	silence time.Duration
	// attempts is the number of attempts in the first round; 0 means roundAttempts.
	attempts int32
	// before, unless nil, runs before every round but the first. Its error ends the retries.
	before func() error
	// mute marks a watch: it waits without limit and does not report what it waits for.
	mute bool
	// abandon returns on cancellation without waiting for the activity, which must be one that changes nothing.
	abandon bool
}

// until returns a copy that gives up at that instant.
func (i insistence) until(then time.Time) insistence {
	i.giveUpAt = then
	return i
}

// effect runs a short activity.
func (i insistence) effect(ctx workflow.Context, summary string, activity, input, result any) error {
	return i.run(ctx, workflow.ActivityOptions{StartToCloseTimeout: effectTimeout, Summary: summary}, activity, input, result)
}

// wait runs an activity that waits, with heartbeats, until its deadline, or without limit when that is nil. The activity itself ends at the deadline
// and reports what is left. If no worker could look, wait fails with the error type timedOut soon after.
func (i insistence) wait(ctx workflow.Context, summary string, deadline *time.Time, timedOut string, activity, input, result any) error {
	options := workflow.ActivityOptions{StartToCloseTimeout: unlimitedWait, HeartbeatTimeout: cmp.Or(i.silence, heartbeatTimeout), Summary: summary}
	if deadline != nil {
		options.StartToCloseTimeout = max(0, deadline.Sub(workflow.Now(ctx))) + deadlineGrace
		i.giveUpAt = deadline.Add(deadlineGrace)
	}
	err := i.run(ctx, options, activity, input, result)
	if err == nil || deadline == nil || ctx.Err() != nil || temporal.Final(err) {
		return err
	}
	return temporal.Error(timedOut, fmt.Sprintf("%s: timed out; state unknown: %s", summary, temporal.ErrorMessage(err)), err)
}

// watch runs an activity that waits without limit and reports only news. After a failure, attempts are short until one of them ends without an error:
// only then is it known that the watch works again, and the reason can be cleared.
func (i insistence) watch(ctx workflow.Context, summary string, activity, input, result any) error {
	i.mute = true
	return i.wait(ctx, summary, nil, "", activity, input, result)
}

func (i insistence) run(ctx workflow.Context, options workflow.ActivityOptions, activity, input, result any) error {
	options.WaitForCancellation = !i.abandon
	said := ""
	for failed := 0; ; {
		if i.home != nil {
			i.taskQueue = *i.home
		}
		i.plan(ctx, &options, failed)
		if i.mute {
			i.planWatch(&options, said != "")
		}
		late := !i.giveUpAt.IsZero() && workflow.Now(ctx).After(i.giveUpAt)
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, input).Get(ctx, result)
		over := err == nil || temporal.Final(err) || late
		if said != "" && (over || ctx.Err() != nil) {
			i.waiting(ctx, "", "")
		}
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			// An attempt in progress at the cancellation may end with any error.
			return ctx.Err()
		case uneventful(err, options):
			failed = 0
			if said != "" && tookTooLong(err) {
				i.waiting(ctx, "", said)
				said = ""
			}
		default:
			said = options.Summary + ": " + i.explain(err, options)
			i.waiting(ctx, reasonOf(err), said)
			failed++
			i.locateAnew(ctx, err)
		}
		if i.before == nil {
			continue
		}
		if err := i.before(); err != nil {
			i.waiting(ctx, "", "")
			return err
		}
	}
}

// plan sets the options of the next round after that many failed ones. The last round before the deadline is hardly longer than the time left.
func (i insistence) plan(ctx workflow.Context, options *workflow.ActivityOptions, failed int) {
	length := min(usualRound<<min(max(0, failed-1), 10), longestRound)
	length = max(length, min(time.Duration(failed)*outageGrowth, outageRound))
	if !i.giveUpAt.IsZero() {
		length = max(usualRound, min(length, i.giveUpAt.Sub(workflow.Now(ctx))))
	}
	options.RetryPolicy = &sdktemporal.RetryPolicy{
		InitialInterval:        firstRetry,
		BackoffCoefficient:     2,
		MaximumInterval:        laterRetry,
		MaximumAttempts:        cmp.Or(i.attempts, roundAttempts),
		NonRetryableErrorTypes: temporal.NonRetryable,
	}
	if failed > 0 {
		options.RetryPolicy.InitialInterval, options.RetryPolicy.MaximumAttempts = laterRetry, int32(length/laterRetry)
	}
	options.TaskQueue, options.ScheduleToStartTimeout = i.taskQueue, 0
	switch {
	case i.taskQueue == temporal.TaskQueue:
	case failed == 0 && (i.giveUpAt.IsZero() || i.giveUpAt.After(workflow.Now(ctx))):
		options.ScheduleToStartTimeout = laterRetry // the cluster may have moved
	default:
		options.ScheduleToStartTimeout = length
	}
}

// planWatch ends a round of a watch that has failed before with the first attempt that can wait again.
func (i insistence) planWatch(options *workflow.ActivityOptions, hasFailed bool) {
	options.StartToCloseTimeout = unlimitedWait
	if hasFailed {
		options.StartToCloseTimeout = heardWait
		options.RetryPolicy.NonRetryableErrorTypes = append(slices.Clone(temporal.NonRetryable), "TemporalTimeout:"+enumspb.TIMEOUT_TYPE_START_TO_CLOSE.String())
	}
}

// explain describes why a round failed.
func (i insistence) explain(err error, options workflow.ActivityOptions) string {
	switch {
	case reasonOf(err) == reasonNoWorker:
		return fmt.Sprintf("no free worker serves task queue %s: no worker accepted the activity within %s", i.taskQueue, options.ScheduleToStartTimeout)
	case tookTooLong(err):
		return fmt.Sprintf("every attempt timed out after %s", options.StartToCloseTimeout)
	case temporal.ErrorType(err) == temporal.ErrClusterUnknown:
		return "found no worker that has the cluster: " + temporal.ErrorMessage(err)
	}
	return temporal.ErrorMessage(err)
}

// uneventful reports whether a round ended only because workers stopped, or because nothing happened for as long as one attempt at a wait may take.
func uneventful(err error, options workflow.ActivityOptions) bool {
	waits := options.HeartbeatTimeout > 0
	return temporal.ErrorType(err) == temporal.ErrHandedOver || waits && tookTooLong(err)
}

func tookTooLong(err error) bool {
	timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err)
	return ok && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE
}

// reasonNoWorker is the reason when no worker accepts the activities of a cluster that has a task queue of its own.
const reasonNoWorker = "NoWorker"

// reasonOf returns the CamelCase reason for an error.
func reasonOf(err error) string {
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

// deadlineIn returns the instant that is seconds from now, or nil when seconds is 0, which means no limit everywhere in the APIs.
func deadlineIn(ctx workflow.Context, seconds int32) *time.Time {
	if seconds == 0 {
		return nil
	}
	deadline := workflow.Now(ctx).Add(time.Duration(seconds) * time.Second)
	return &deadline
}

// owner returns the ownership mark of this workflow. It holds the id of the first run, so that it stays the same over continue-as-new.
func owner(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return info.WorkflowExecution.ID + "/" + info.FirstRunID
}
