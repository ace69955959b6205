package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/jobs"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// byJob reports whether a Job does the work.
func (m *nodeMaintenance) byJob() bool {
	return m.spec.Action != nil && m.spec.Action.Type == maintenancev1.ActionJob
}

// job is the Job that does the work; nil: none does.
func (m *nodeMaintenance) job() *maintenancev1.JobAction {
	if !m.byJob() {
		return nil
	}
	return m.spec.Action.Job
}

func (m *nodeMaintenance) jobInput() jobs.RunJobInput {
	return jobs.RunJobInput{NodeRef: m.node, NodeUID: m.state.Node.UID, Maintenance: m.in.Object.Name, Job: *m.spec.Action.Job}
}

// runJob runs the Job. If it fails, the node stays out of service until a person or the requestor decides; in a rollout, the maintenance fails. If the
// requestor leaves while others need the node, only the Job ends.
func (m *nodeMaintenance) runJob(ctx workflow.Context) error {
	m.setJob(JobStarted)
	running, stop := workflow.WithCancel(ctx)
	m.stopJob = stop
	defer func() { m.stopJob = nil }()
	err := m.awaitJob(ctx, running)
	first := m.state.first()
	switch {
	case err == nil:
		m.setJob(JobFinished)
		if first.State.NeedsNode() {
			m.setRequestor(first, maintenancev1.RequestorDone, "its job is done")
		}
		return nil
	case ctx.Err() == nil && running.Err() != nil:
		// The node is ready for the others only after the Job is removed, even if that takes long.
		return m.removeJob(ctx, m.retrier())
	case temporal.ErrorType(err) != temporal.ErrJobFailed || m.in.Parent != "":
		return err
	}
	failure := kit.FailureOf(err)
	message := jobs.WithoutLog(failure.Message)
	first.Failure = &WorkFailure{Failure: *failure, Report: ": " + message}
	m.setRequestor(first, maintenancev1.RequestorFailed, message)
	m.showFailure()
	// A deleted or timed-out Job may still run. The node is not ready for a requestor before the Job ends.
	return m.removeJob(ctx, m.retrier())
}

// awaitJob runs the Job. The context running is cancelled if only the Job must end.
func (m *nodeMaintenance) awaitJob(ctx, running workflow.Context) error {
	in := new(m.jobInput())
	return m.whenReleased(running, func() error {
		return kit.Within(running, func(watching workflow.Context) error {
			if m.in.Parent == "" { // in a rollout, the batch times out first
				workflow.GoNamed(watching, "staleness", func(ctx workflow.Context) { m.followStaleness(ctx, nil) })
			}
			in.Deadline, in.Held, in.Closes = kit.DeadlineIn(ctx, in.Job.TimeoutSeconds), nil, m.holds.Closes(m.in.Cluster)
			retrier := m.retrier()
			retrier.BeforeRound = func() error { return m.checkJobHold(ctx, in) }
			return m.awaitWith(watching, retrier, "RunJob", "run the job on "+m.node.Node, in.Deadline, temporal.ErrJobFailed, m.jobs.RunJob, in, nil)
		})
	})
}

// checkJobHold runs before each further round of attempts. A Job may be running although no attempt was answered. While the cluster is held, the activity
// watches that Job and enforces its timeout, but creates none. Errors: Held if the timeout has passed and no worker could check.
func (m *nodeMaintenance) checkJobHold(ctx workflow.Context, in *jobs.RunJobInput) error {
	if hold := m.holds.Of(m.in.Cluster); hold != nil && m.awaited.started == No {
		in.Held = hold
	}
	if in.Held != nil && in.Deadline != nil && workflow.Now(ctx).After(*in.Deadline) {
		return temporal.Error(temporal.ErrHeld, emergency.Message(*in.Held), nil)
	}
	return nil
}

// removeJob stops the Job if it may be running, and waits until it is removed. A failed Job is kept for its logs.
func (m *nodeMaintenance) removeJob(ctx workflow.Context, retrier kit.Retrier) error {
	err := m.observing(ctx, "RemoveJob", retrier.Report, func() error {
		return retrier.Run(ctx, "remove the job from "+m.node.Node, m.jobs.RemoveJob, m.jobInput(), nil)
	})
	if err == nil {
		m.setJob(JobNone)
	}
	return err
}

func (m *nodeMaintenance) setJob(state JobState) {
	m.state.Job = state
	m.record.log.Info("Job changed state", "job", string(state))
}
