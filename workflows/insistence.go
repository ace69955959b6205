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
	// heartbeatTimeout is how long a waiting activity may be silent before another worker takes over.
	heartbeatTimeout = 30 * time.Second
	// unlimitedWait is how long one attempt at a wait without a deadline may take, and heardWait one at a watch that has failed before.
	unlimitedWait = 24 * time.Hour
	heardWait     = time.Minute
	// deadlineGrace is what an activity is given beyond its deadline to look once more and say what was left.
	deadlineGrace = time.Minute
	// roundAttempts is after how many failed attempts in a row the workflow says first why an activity does not succeed, and goes on trying.
	roundAttempts = 6
	// firstRetry is the pause before the second attempt; laterRetry is the least pause in the rounds after the first.
	firstRetry = 200 * time.Millisecond
	laterRetry = 10 * time.Second
	// usualRound is about how long the rounds after the first are; longestRound is what they grow to, each twice as long as the one before. After most of a
	// day, when outageGrowth for each makes more, they grow on, up to outageRound: a cluster that does not answer for months must not fill the history. One that
	// answers again is tried within laterRetry all the same.
	usualRound   = roundAttempts * laterRetry
	longestRound = 10 * time.Minute
	outageGrowth = 6 * time.Second
	outageRound  = time.Hour
)

// insistence runs activities until they succeed or fail for good, in rounds of attempts. Between the rounds it says why.
type insistence struct {
	// taskQueue of the activities.
	taskQueue string
	// home, unless nil, is where the activities of cluster run: it goes before taskQueue, and is looked up anew when nobody there has the cluster any more.
	home    *string
	cluster string
	// waiting is told why an activity does not succeed yet, and an empty reason once it does. With one comes the message that is taken back, if the activity goes
	// on and somebody else may have said something meanwhile.
	waiting func(ctx workflow.Context, reason, message string)
	// giveUpAt ends the insistence; the zero time means never. At least one round is tried, however late it is.
	giveUpAt time.Time
	// silence is how long a waiting activity may be silent; 0: heartbeatTimeout.
	silence time.Duration
	// attempts are how many the first round has; 0: roundAttempts.
	attempts int32
	// before, unless nil, stands before every round but the first. Its error ends the insistence.
	before func() error
	// mute: the activity is a watch.
	mute bool
	// abandon: an activity that is cancelled is not waited for. It must be one that changes nothing.
	abandon bool
}

// until returns an insistence that gives up then.
func (i insistence) until(then time.Time) insistence {
	i.giveUpAt = then
	return i
}

// effect runs a short activity.
func (i insistence) effect(ctx workflow.Context, summary string, activity, input, result any) error {
	return i.run(ctx, workflow.ActivityOptions{StartToCloseTimeout: effectTimeout, Summary: summary}, activity, input, result)
}

// wait runs an activity that waits, heartbeating, until its deadline, or without limit when that is nil. The activity ends by itself at
// the deadline and says what is left; if nobody could look, it ends with the error type timedOut soon after.
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
	return temporal.Error(timedOut, fmt.Sprintf("%s: the time is over, and how it stands could not be seen: %s", summary, temporal.ErrorMessage(err)), err)
}

// watch runs an activity that waits without limit, and does not tell what for. After it has failed nobody would hear that an attempt can wait, until there is
// news: attempts end soon until one was over without having failed.
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
			// An attempt that was under way when it was cancelled ends in whatever error it met.
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

// plan plans the round after so many that have failed. The last before the insistence gives up is not much longer than there is time.
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

// planWatch lets a round of a watch end with the first attempt that can wait, if it has failed before.
func (i insistence) planWatch(options *workflow.ActivityOptions, hasFailed bool) {
	options.StartToCloseTimeout = unlimitedWait
	if hasFailed {
		options.StartToCloseTimeout = heardWait
		options.RetryPolicy.NonRetryableErrorTypes = append(slices.Clone(temporal.NonRetryable), "TemporalTimeout:"+enumspb.TIMEOUT_TYPE_START_TO_CLOSE.String())
	}
}

// explain says to a person why a round failed.
func (i insistence) explain(err error, options workflow.ActivityOptions) string {
	switch {
	case reasonOf(err) == reasonNoWorker:
		return fmt.Sprintf("no worker serves task queue %s, or none there is free: nobody took it within %s", i.taskQueue, options.ScheduleToStartTimeout)
	case tookTooLong(err):
		return fmt.Sprintf("no attempt was over within %s", options.StartToCloseTimeout)
	case temporal.ErrorType(err) == temporal.ErrClusterUnknown:
		return "no worker that was asked has the cluster: " + temporal.ErrorMessage(err)
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

// reasonNoWorker: no worker takes the activities of a cluster that has a task queue of its own.
const reasonNoWorker = "NoWorker"

// reasonOf is the CamelCase reason for an error.
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

// owner is the ownership mark of this workflow. It holds the first run's id, so that it outlives continue-as-new.
func owner(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return info.WorkflowExecution.ID + "/" + info.FirstRunID
}
