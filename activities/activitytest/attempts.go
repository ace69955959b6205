package activitytest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// HeldWorkflow is a workflow that answers queries with its hold; nil: none.
type HeldWorkflow struct {
	Hold  *drydockv1.Hold
	Asked int
	// query is the last query, and about are its clusters.
	query string
	about []any
}

func (w *HeldWorkflow) QueryWorkflow(_ context.Context, _, _, query string, args ...any) (converter.EncodedValue, error) {
	w.Asked++
	w.query, w.about = query, args
	return maintenanceStatus{Held: w.Hold}, nil
}

type maintenanceStatus maintenancev1.NodeMaintenanceStatus

func (maintenanceStatus) HasValue() bool { return true }

func (s maintenanceStatus) Get(into any) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Attempt gives every attempt of an activity this number and this scheduled time; the zero time: now.
type Attempt struct {
	interceptor.WorkerInterceptorBase
	Number int32
	At     time.Time
}

func (a *Attempt) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &attemptInbound{attempt: a}
	in.Next = next
	return in
}

type attemptInbound struct {
	interceptor.ActivityInboundInterceptorBase
	attempt *Attempt
}

func (i *attemptInbound) Init(next interceptor.ActivityOutboundInterceptor) error {
	out := &attemptOutbound{attempt: i.attempt}
	out.Next = next
	return i.Next.Init(out)
}

type attemptOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	attempt *Attempt
}

func (o *attemptOutbound) GetInfo(ctx context.Context) activity.Info {
	info := o.Next.GetInfo(ctx)
	info.Attempt = o.attempt.Number
	if at := o.attempt.At; !at.IsZero() {
		info.ScheduledTime, info.StartedTime = at, at
	}
	return info
}

// RunAttempt runs an activity as an attempt with that number.
func RunAttempt(number int32, step, in any) error {
	return Attempt{Number: number}.Run(step, in, nil)
}

// Run runs the attempt. seen is the observation of earlier attempts; nil: none.
func (a Attempt) Run(step, in any, seen *temporal.Observation) error {
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporal.Lease{}, &a}})
	environment.RegisterActivity(step)
	if seen != nil {
		environment.SetHeartbeatDetails(*seen)
	}
	_, err := environment.ExecuteActivity(step, in)
	return err
}

// RequireHeld requires that a later attempt is refused while the cluster is held, after this query about these clusters.
func (w *HeldWorkflow) RequireHeld(t *testing.T, step, in any, query string, about ...any) {
	t.Helper()
	w.Hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
	err := RunAttempt(2, step, in)
	require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
	require.Equal(t, query, w.query)
	require.Equal(t, about, w.about)
	w.Hold = nil
}

// RequireClosed requires that the attempt is refused because the maintenance windows have closed.
func (a Attempt) RequireClosed(t *testing.T, step, in any) {
	t.Helper()
	err := a.Run(step, in, nil)
	require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "the maintenance windows have closed")
}
