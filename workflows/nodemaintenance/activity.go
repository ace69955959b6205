package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// awaited is the activity that the workflow waits for. Observations of other activities are ignored.
type awaited struct {
	name string
	// report reports that it is being retried.
	report kit.Report
	// started: the activity has reported an observation, so it is in progress.
	started Fact
}

// await runs a waiting activity and shows its observations in the status.
func (m *nodeMaintenance) await(ctx workflow.Context, name, summary string, deadline *time.Time, timedOut string, activity, input, result any) error {
	return m.awaitWith(ctx, m.retrier(), name, summary, deadline, timedOut, activity, input, result)
}

func (m *nodeMaintenance) awaitWith(
	ctx workflow.Context, retrier kit.Retrier, name, summary string, deadline *time.Time, timedOut string, activity, input, result any,
) error {
	return m.observing(ctx, name, retrier.Report, func() error {
		return retrier.Wait(ctx, summary, deadline, timedOut, activity, input, result)
	})
}

// observing runs an activity of that name and shows its observations until it ends.
func (m *nodeMaintenance) observing(ctx workflow.Context, name string, report kit.Report, run func() error) error {
	m.awaited = awaited{name: name, report: report}
	err := run()
	m.awaited, m.waits.observed = awaited{}, nil
	m.showWait(ctx)
	return err
}

// observe records an observation of the activity in progress. An observation of an earlier activity is stale.
func (m *nodeMaintenance) observe(ctx workflow.Context, o temporal.Observation) {
	if o.Activity == "" || o.Activity != m.awaited.name {
		return
	}
	m.awaited.started = Yes
	m.record.stay()
	if o.Drain != nil {
		m.observeDrain(o.Drain)
	}
	m.state.Status.WaitForCompletion = o.Pods
	if kit.BecameUrgent(m.state.Status.Wait, o.Wait) {
		m.record.progress.ReportNow()
	}
	m.waits.observed = o.Wait
	m.awaited.report(ctx, "", "") // the attempt in progress works
	m.showWait(ctx)
}

// retrier returns a retrier that shows failures of an activity in the status.
func (m *nodeMaintenance) retrier() kit.Retrier {
	return kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, m.reportRetry())
}

// hubRetrier returns a retrier for activities that any worker with a hub can run.
func (m *nodeMaintenance) hubRetrier() kit.Retrier {
	return kit.HubRetrier(m.reportRetry())
}

// quietRetrier returns a retrier for activities that the maintenance does not wait for.
func (m *nodeMaintenance) quietRetrier() kit.Retrier {
	return kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, nil)
}

// retrierUntilHeld returns a retrier for a disruptive step. If the cluster is held before the step has started, the step ends with the error Held, also
// within a round of attempts.
func (m *nodeMaintenance) retrierUntilHeld() kit.Retrier {
	retrier := m.retrier()
	retrier.BeforeRound = func() error {
		if hold := m.holds.Of(m.in.Cluster); hold != nil && m.awaited.started == No {
			return temporal.Error(temporal.ErrHeld, emergency.Message(*hold), nil)
		}
		return nil
	}
	return retrier
}

// reportRetry returns a report for one activity. A failure makes the last observation outdated.
func (m *nodeMaintenance) reportRetry() kit.Report {
	report := m.retries.Add()
	return func(ctx workflow.Context, reason, message string) {
		if reason != "" {
			m.waits.observed = nil
		}
		report(ctx, reason, message)
	}
}

// awaitGate waits at a gate until a condition holds, and shows the wait.
func (m *nodeMaintenance) awaitGate(ctx workflow.Context, at gate, condition func() bool) error {
	m.waits.gate = at
	err := m.followWait(ctx, condition)
	m.waits.gate = gateNone
	m.showWait(ctx)
	return err
}

// followWait shows each change of the wait until a condition holds.
func (m *nodeMaintenance) followWait(ctx workflow.Context, condition func() bool) error {
	for !condition() {
		m.showWait(ctx)
		if err := workflow.Await(ctx, func() bool { return condition() || !sameWait(m.currentWait(ctx), m.state.Status.Wait) }); err != nil {
			return err
		}
	}
	return nil
}

// currentWait returns the wait to show now.
func (m *nodeMaintenance) currentWait(ctx workflow.Context) *drydockv1.Wait {
	now, w := metav1.NewTime(workflow.Now(ctx)), m.waits
	w.retry = m.retries.Oldest()
	switch w.gate {
	case gateWindow:
		w.window = m.closedWindow()
	case gateSlot:
		w.slot = m.slotTrouble()
	}
	return m.state.wait(w, now)
}

// showWait shows the current wait.
func (m *nodeMaintenance) showWait(ctx workflow.Context) {
	m.record.reason.Replace(m.currentWait(ctx))
	m.record.notifier.Waits(m.state.Status.Wait)
}
