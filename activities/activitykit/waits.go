package activitykit

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Waits lets an activity wait for a condition in a cluster, and reports the wait to the workflow.
type Waits struct {
	// Temporal signals observations to the workflow of the activity; nil: nothing is reported.
	Temporal Signaller
	// Workflows is queried for the hold of an activity's workflow; nil: no workflow is held.
	Workflows Querier
}

// askAfter is the time in the task queue after which an activity queries its workflow before it starts.
const askAfter = 10 * time.Second

// MayBegin is called before a disruptive effect. It refuses if the maintenance windows have closed or the cluster is held. clusters are the affected
// clusters, if the workflow works on several. Errors: those of UnlessHeld.
func (w Waits) MayBegin(ctx context.Context, closes *time.Time, clusters ...string) error {
	if err := unlessClosed(ctx, closes); err != nil {
		return err
	}
	return w.UnlessHeld(ctx, clusters...)
}

// unlessClosed refuses an attempt that started after the maintenance windows closed, because no worker was free in time. It uses the time of the Temporal
// server, like the workflow: with its own clock, a slow worker would start too late, and a fast one would refuse repeatedly.
// Errors: Held.
func unlessClosed(ctx context.Context, closes *time.Time) error {
	if closes == nil || !activity.IsActivity(ctx) || activity.GetInfo(ctx).StartedTime.Before(*closes) {
		return nil
	}
	return temporal.Error(temporal.ErrHeld, "no new work may begin since "+closes.UTC().Format("2006-01-02 15:04:05Z")+": the maintenance windows have closed", nil)
}

// UnlessHeld refuses an effect while its cluster is held. The workflow has checked that for a first attempt that starts in time; all others query the
// workflow, or leave the decision to it if their worker may only answer. clusters are the affected clusters, if the workflow works on several.
// Errors: Held; HoldUnknown if the workflow does not answer.
func (w Waits) UnlessHeld(ctx context.Context, clusters ...string) error {
	asksWorkflow := temporal.AsksBeforeRetry(ctx)
	if w.Workflows == nil && !asksWorkflow || !activity.IsActivity(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	switch {
	case info.Attempt <= 1 && info.StartedTime.Sub(info.ScheduledTime) < askAfter:
		return nil
	case asksWorkflow: // its next attempt is a first one
		return temporal.Error(emergency.ReasonUnknown, "the attempt before did not end, or no worker was free for it in time: the workflow decides about the next one", nil)
	}
	return w.UnlessHeldNow(ctx, clusters...)
}

// UnlessHeldNow is UnlessHeld for an effect that comes after a wait: it always queries the workflow.
func (w Waits) UnlessHeldNow(ctx context.Context, clusters ...string) error {
	if w.Workflows == nil || !activity.IsActivity(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	query, args := temporal.QueryStatus, []any(nil)
	if len(clusters) > 0 {
		query, args = temporal.QueryHeld, []any{clusters}
	}
	var status temporal.Held
	answer, err := w.Workflows.QueryWorkflow(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, query, args...)
	if err == nil {
		err = answer.Get(&status)
	}
	switch {
	case err != nil:
		return temporal.Error(emergency.ReasonUnknown, fmt.Sprintf("ask workflow %s whether its cluster is held: %v", info.WorkflowExecution.ID, err), err)
	case status.Held != nil:
		return temporal.Error(temporal.ErrHeld, emergency.Message(*status.Held), nil)
	case status.Paused:
		return temporal.Error(temporal.ErrHeld, "paused: no new work begins until it is resumed", nil)
	}
	return nil
}

// MayBeginOn is MayBegin for an activity that starts work on these clusters, or on none.
func (w Waits) MayBeginOn(ctx context.Context, clusters []string, closes *time.Time) error {
	if len(clusters) == 0 {
		return nil
	}
	return w.MayBegin(ctx, closes, clusters...)
}

// Await calls check until it is done or fails, whenever an object of one of these kinds has changed (kube.Cluster.Await). What check
// observes is sent with the heartbeats and, after a change, to the workflow. check need not set the Activity of the observation or the Since of its Wait.
func (w Waits) Await(ctx context.Context, cluster *kube.Cluster, kinds []client.Object,
	check func(context.Context) (temporal.Observation, bool, error),
) error {
	return w.AwaitAlarm(ctx, nil, cluster, kinds, check)
}

// AwaitAlarm is Await that also calls check when the alarm goes off.
func (w Waits) AwaitAlarm(ctx context.Context, alarm <-chan time.Time, cluster *kube.Cluster, kinds []client.Object,
	check func(context.Context) (temporal.Observation, bool, error),
) error {
	r := NewReport(ctx, nil)
	stop := r.Start(ctx, w.Temporal)
	defer stop()
	return TypedError(cluster, cluster.AwaitAlarm(ctx, kinds, alarm, r.observing(check)))
}

// StartReport reports the wait of a long activity to its workflow until stop is called.
func (w Waits) StartReport(ctx context.Context, observation temporal.Observation) (stop func()) {
	r := NewReport(ctx, nil)
	r.Observe(observation)
	return r.Start(ctx, w.Temporal)
}

// AwaitUntil is Await with a deadline by Temporal's clock; nil: none. check must use the given reader: the cache or, once after the deadline, the API
// server, so that a stale cache does not cause a timeout. It returns false if check is not done then.
func (w Waits) AwaitUntil(ctx context.Context, deadline *time.Time, cluster *kube.Cluster, kinds []client.Object,
	check func(context.Context, client.Reader) (temporal.Observation, bool, error),
) (done bool, err error) {
	return w.AwaitUntilAlarm(ctx, deadline, nil, cluster, kinds, check)
}

// AwaitUntilAlarm is AwaitUntil that also calls check when the alarm goes off.
func (w Waits) AwaitUntilAlarm(ctx context.Context, deadline *time.Time, alarm <-chan time.Time, cluster *kube.Cluster, kinds []client.Object,
	check func(context.Context, client.Reader) (temporal.Observation, bool, error),
) (done bool, err error) {
	r := NewReport(ctx, deadline)
	stop := r.Start(ctx, w.Temporal)
	defer stop()

	waiting, cancel := withDeadline(ctx, deadline)
	defer cancel()
	err = cluster.AwaitAlarm(waiting, kinds, alarm, r.observing(func(ctx context.Context) (temporal.Observation, bool, error) {
		return check(ctx, cluster.Cache)
	}))
	if err == nil || waiting.Err() == nil || ctx.Err() != nil {
		return err == nil, TypedError(cluster, err)
	}
	_, done, err = check(ctx, cluster.Client)
	return done && err == nil, TypedError(cluster, err)
}

func withDeadline(ctx context.Context, deadline *time.Time) (context.Context, context.CancelFunc) {
	if deadline == nil {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, *WorkerTime(ctx, deadline))
}

// WorkerTime converts an instant of Temporal's clock, such as a deadline, to the clock of this worker; nil stays nil.
func WorkerTime(ctx context.Context, instant *time.Time) *time.Time {
	if instant == nil {
		return nil
	}
	return new(time.Now().Add(instant.Sub(temporal.Now(ctx))))
}
