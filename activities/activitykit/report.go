package activitykit

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwait "k8s.io/apimachinery/pkg/util/wait"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// heartbeatInterval is the shortest interval between heartbeats.
	heartbeatInterval = 2 * time.Second
	// reportInterval is the delay of the first report and of progress, and the minimum interval between reports: short waits are not reported, because each
	// report costs the workflow a task. With its spread, people see a change within 5 s. longReportInterval applies to waits that keep changing, and longestReportInterval to
	// those that change for days.
	reportInterval        = 3600 * time.Millisecond
	longReportInterval    = 5 * time.Minute
	longestReportInterval = time.Hour
	// ReportTimeout limits one report, so that a slow Temporal server does not delay the heartbeats.
	ReportTimeout = 5 * time.Second
)

// Report publishes the observations of a waiting activity, in its heartbeats and as signals to its workflow.
type Report struct {
	activity string
	deadline *time.Time
	// Sent counts the reports of the wait, including those of earlier activities.
	Sent int
	// Writes: the activity writes while it waits, so it must learn soon that its workflow has closed or cancelled it.
	Writes bool
	// reported is the last report of this attempt or, if that report ended it, of the attempt before. Only the goroutine of Start changes it.
	reported temporal.Observation

	mu      sync.Mutex
	latest  temporal.Observation
	changed chan struct{}
}

// heartbeatDetails are the state that an attempt of a wait passes to the next one.
type heartbeatDetails struct {
	temporal.Observation
	// Sent counts the reports.
	Sent int `json:"sent,omitempty"`
	// Unreported: the observation is not that of the last report.
	Unreported bool `json:"unreported,omitempty"`
	// At is when the heartbeat was sent, by Temporal's clock.
	At time.Time `json:"at,omitzero"`
}

// NewReport starts with the last observation of the attempt before, so that the wait keeps its start time and its count of reports.
func NewReport(ctx context.Context, deadline *time.Time) *Report {
	r := &Report{deadline: deadline, changed: make(chan struct{}, 1)}
	if !activity.IsActivity(ctx) {
		return r
	}
	r.activity = activity.GetInfo(ctx).ActivityType.Name
	// Details that cannot be decoded are ignored.
	var before heartbeatDetails
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &before)
	} else {
		temporal.StateOf(ctx, &before)
	}
	r.latest, r.Sent = before.Observation, before.Sent
	if temporal.OnlyAnswers(ctx) && r.Sent > 0 && !before.Unreported { // the report ended the attempt before
		r.reported = r.latest
	}
	return r
}

// Observe replaces the observation. A wait with the same reason keeps its start time.
func (r *Report) Observe(observation temporal.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	observation.Activity = r.activity
	if observation.Wait != nil {
		wait := temporal.CutWait(*observation.Wait)
		r.complete(&wait)
		observation.Wait = &wait
	}
	r.latest = observation
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// observing wraps check, and records its observations until it is done.
func (r *Report) observing(check func(context.Context) (temporal.Observation, bool, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		observation, done, err := check(ctx)
		if err == nil && !done {
			r.Observe(observation)
		}
		return done, err
	}
}

func (r *Report) complete(wait *drydockv1.Wait) {
	if before := r.latest.Wait; wait.Since.IsZero() && before != nil && before.Reason == wait.Reason {
		wait.Since = before.Since
	}
	if wait.Since.IsZero() {
		wait.Since = metav1.Now()
	}
	if wait.Until == nil && r.deadline != nil {
		until := metav1.NewTime(*r.deadline)
		wait.Until = &until
	}
}

// Observed returns the last observation.
func (r *Report) Observed() temporal.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// Start reports in the background until stop is called. Outside an activity it does nothing.
func (r *Report) Start(ctx context.Context, workflows Signaller) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx, workflows) })
	return func() {
		cancel()
		running.Wait()
	}
}

// run sends heartbeats, and a signal when the observation has changed. The last change before a quiet time is always
// sent. A change that is pending at the end of the wait is not, because the result of the activity follows. When the worker shuts down, the last heartbeat
// has the last observation for the next worker.
func (r *Report) run(ctx context.Context, workflows Signaller) {
	began, timeout := time.Now(), activity.GetInfo(ctx).HeartbeatTimeout
	heartbeat := time.NewTimer(heartbeatInterval)
	defer heartbeat.Stop()
	var due <-chan time.Time
	earliest := time.Now().Add(spread(reportInterval))
	if temporal.OnlyAnswers(ctx) && r.Sent > 0 {
		earliest = time.Now().Add(spread(pauseAfter(r.Sent)))
	}
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown) {
				r.heartbeat(context.WithoutCancel(ctx))
			}
			return
		case <-heartbeat.C:
			r.heartbeat(ctx)
			waited := time.Since(began)
			if r.Writes {
				waited = 0
			}
			heartbeat.Reset(HeartbeatPause(timeout, waited))
		case <-r.changed:
			switch {
			case workflows == nil && !temporal.OnlyAnswers(ctx):
			case r.urgent():
				due = time.After(0)
			case !r.progresses():
				due = time.After(time.Until(earliest))
			case due == nil:
				due = time.After(max(time.Until(earliest), spread(reportInterval)))
			}
		case <-due:
			r.Sent++
			due, earliest = nil, time.Now().Add(spread(pauseAfter(r.Sent)))
			if latest := r.Observed(); !equality.Semantic.DeepEqual(latest, r.reported) {
				if err := r.send(ctx, workflows, latest); err != nil {
					activity.GetLogger(ctx).Warn("failed to report the current wait to the workflow; will retry", "error", err)
					due = time.After(reportInterval)
					continue
				}
				r.reported = latest
			}
		}
	}
}

// HeartbeatPause is the time until the next heartbeat of an activity that has waited for so long without writing. It limits the delay of a cancellation, which
// arrives with the response to a heartbeat. Each heartbeat is a write of Temporal's database, so an activity that waits for long sends fewer: each 30th of
// its time, up to a quarter of its heartbeat timeout.
func HeartbeatPause(timeout, waited time.Duration) time.Duration {
	return max(heartbeatInterval, min(waited/30, timeout/4))
}

// HeartbeatFor waits and sends heartbeats.
func HeartbeatFor(ctx context.Context, pause time.Duration) error {
	defer NewReport(ctx, nil).Start(ctx, nil)()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

func (r *Report) heartbeat(ctx context.Context) {
	latest := r.Observed()
	activity.RecordHeartbeat(ctx, heartbeatDetails{Observation: latest, Sent: r.Sent, Unreported: !equality.Semantic.DeepEqual(latest, r.reported), At: temporal.Now(ctx)})
}

// urgent reports whether the observation is urgent and has another reason than the last report. After many reports, urgent ones wait like others.
func (r *Report) urgent() bool {
	latest := r.Observed()
	return latest.Urgent && r.Sent < usualReports && !r.sameReason(latest)
}

// progresses reports whether a drain has only made progress since the last report: more may follow soon.
func (r *Report) progresses() bool {
	latest := r.Observed()
	return latest.Drain != nil && r.sameReason(latest) || latest.Progresses && r.reported.Progresses
}

func (r *Report) sameReason(latest temporal.Observation) bool {
	return latest.Wait != nil && r.reported.Wait != nil && latest.Wait.Reason == r.reported.Wait.Reason
}

const (
	// After usualReports the pause between reports grows, and after manyReports it grows faster.
	usualReports = 1000
	manyReports  = 2000
	// reportsDoubling is the number of further reports after which the pause doubles.
	reportsDoubling = 36
)

// pauseAfter is the pause after this number of reports. Usually a change is reported within 5 s. A wait that has changed a thousand times, which takes
// more than an hour, is reported less and less often, because the server terminates a workflow at 10,000 signals: it sends fewer than 1,500 on the
// first day, 288 on each of the next, and from the fourth or fifth on 24 a day. The count starts at zero with each round of attempts, which takes a
// day at most, except for a drain.
func pauseAfter(reports int) time.Duration {
	pause := grown(reportInterval, reports-usualReports, longReportInterval)
	return grown(pause, reports-manyReports, longestReportInterval)
}

// grown doubles a pause with every reportsDoubling reports, up to the longest.
func grown(pause time.Duration, reports int, longest time.Duration) time.Duration {
	return min(pause<<min(10, max(0, reports)/reportsDoubling), longest)
}

// spread extends a pause by up to a quarter, so that waits that start together do not report together.
func spread(pause time.Duration) time.Duration { return apiwait.Jitter(pause, 0.25) }

// send sends an observation to the workflow. A worker that may only answer ends the attempt with it, and the next one continues.
func (r *Report) send(ctx context.Context, workflows Signaller, observation temporal.Observation) error {
	if ends, err := temporal.AnswerWith(ctx, temporal.SignalObserved, observation, heartbeatDetails{Observation: observation, Sent: r.Sent}); ends {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	workflow := activity.GetInfo(ctx).WorkflowExecution
	return workflows.SignalWorkflow(ctx, workflow.ID, workflow.RunID, temporal.SignalObserved, observation)
}
