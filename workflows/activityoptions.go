// Package workflows holds Drydock's durable workflows. Each reads like the runbook of what it does: time and order are here,
// decisions are in the pure packages, effects in the activities.
package workflows

import (
	"errors"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

const (
	// effectTimeout is how long one attempt at an effect may take.
	effectTimeout = 10 * time.Second
	// heartbeatTimeout is how long a waiting activity may be silent before another worker takes over.
	heartbeatTimeout = 30 * time.Second
	// unlimitedWait is how long one attempt at a wait without a deadline may take.
	unlimitedWait = 24 * time.Hour
	// deadlineGrace is what an activity is given beyond its deadline to look once more and say what was left.
	deadlineGrace = time.Minute
	// effectAttempts is after how many attempts at an effect the workflow says why it does not succeed, and goes on trying.
	effectAttempts = 6
)

// effect returns a context for a short effect on a cluster or the hub.
func effect(ctx workflow.Context, taskQueue, summary string, retryInterval time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           taskQueue,
		StartToCloseTimeout: effectTimeout,
		WaitForCancellation: true,
		RetryPolicy: &sdktemporal.RetryPolicy{
			InitialInterval:        retryInterval,
			BackoffCoefficient:     2,
			MaximumInterval:        max(10*time.Second, retryInterval),
			MaximumAttempts:        effectAttempts,
			NonRetryableErrorTypes: temporal.NonRetryable,
		},
		Summary: summary,
	})
}

// wait returns a context for an activity that waits, heartbeating, until deadline or without limit. A wait that is lost with its
// worker is taken up by another.
func wait(ctx workflow.Context, taskQueue, summary string, deadline *time.Time) workflow.Context {
	limit := unlimitedWait
	if deadline != nil {
		limit = max(0, deadline.Sub(workflow.Now(ctx))) + deadlineGrace
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           taskQueue,
		StartToCloseTimeout: limit,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &sdktemporal.RetryPolicy{
			InitialInterval:        200 * time.Millisecond,
			BackoffCoefficient:     2,
			MaximumInterval:        10 * time.Second,
			NonRetryableErrorTypes: temporal.NonRetryable,
		},
		Summary: summary,
	})
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

// insistence runs effects until they succeed or fail for good.
type insistence struct {
	// waiting is told why an effect does not succeed yet, and nil once it has.
	waiting func(ctx workflow.Context, reason, message string)
	// giveUpAt ends the insistence; the zero time means never. An effect is always tried at least one round after it.
	giveUpAt time.Time
}

// run executes the activity on the task queue until it succeeds, fails for good or ctx is cancelled.
func (i insistence) run(ctx workflow.Context, taskQueue, summary string, activity, input, result any) error {
	retryInterval := 200 * time.Millisecond
	refused := false
	for {
		late := !i.giveUpAt.IsZero() && workflow.Now(ctx).After(i.giveUpAt)
		err := workflow.ExecuteActivity(effect(ctx, taskQueue, summary, retryInterval), activity, input).Get(ctx, result)
		if err == nil || late || ctx.Err() != nil || temporal.Final(err) {
			if refused && err == nil {
				i.waiting(ctx, "", "")
			}
			return err
		}
		refused = true
		i.waiting(ctx, reasonOf(err), summary+": "+temporal.ErrorMessage(err))
		retryInterval = 10 * time.Second
	}
}

// reasonOf is the CamelCase reason for an error that keeps an effect from succeeding.
func reasonOf(err error) string {
	if t := temporal.ErrorType(err); t != "" {
		return t
	}
	if timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err); ok {
		return "Timeout" + timeout.TimeoutType().String()
	}
	return "Retrying"
}
