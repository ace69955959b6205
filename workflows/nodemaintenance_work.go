package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// work hands the node over: to the requestor, or to a Job. While the cluster is held nobody gets it; a node that nobody works on is returned.
func (m *nodeMaintenance) work(ctx workflow.Context) error {
	job := m.spec.Action != nil && m.spec.Action.Type == maintenancev1.ActionJob
	if job || !m.in.DoneWhenReady {
		if err := m.awaitRelease(ctx); err != nil {
			return err
		}
	}
	m.record.enter(ctx, maintenancev1.NodeReady)
	m.record.stages.begin(ctx, maintenancev1.StageWorkDone)
	var err error
	switch {
	case job:
		err = m.runJob(ctx)
	case !m.in.DoneWhenReady:
		err = m.awaitRequestor(ctx)
	}
	m.record.stages.end(ctx, maintenancev1.StageWorkDone, err, "")
	return err
}

// runJob does the work with a Job. When it fails, the node stays out of service until somebody decides; a rollout has decided already: it
// does not go on.
func (m *nodeMaintenance) runJob(ctx workflow.Context) error {
	m.jobStarted = true
	in := m.jobInput()
	in.Deadline = deadlineIn(ctx, in.Job.TimeoutSeconds)
	err := m.await(ctx, "RunJob", "run the job on "+m.node.Node, in.Deadline, temporal.ErrJobFailed, m.jobs.RunJob, in, nil)
	m.jobFinished = err == nil
	if temporal.ErrorType(err) != temporal.ErrJobFailed || m.in.Parent != "" {
		return err
	}
	m.record.failure(err)
	m.failed = &temporal.SignalRequest{Reason: temporal.ErrorMessage(err)}
	return m.awaitRequestor(ctx)
}

func (m *nodeMaintenance) jobInput() activities.RunJobInput {
	return activities.RunJobInput{NodeRef: m.node, Maintenance: m.in.Object.Name, Job: *m.spec.Action.Job}
}

// awaitRequestor waits until the requestor says done. While its work has failed, the node is held.
func (m *nodeMaintenance) awaitRequestor(ctx workflow.Context) error {
	m.handedOver = true
	defer func() { m.handedOver = false }()
	for m.done == nil {
		failed := m.failed
		if failed != nil {
			m.record.enter(ctx, maintenancev1.NodeRequestorFailed)
			m.record.reason.set(ctx, "RequestorFailed", "the work on the node failed"+byWhom(*failed)+"; the node is held until the failure is cleared (recover), or done or cancel is said")
			m.announce(ctx, "the work on the node has failed"+byWhom(*failed)+"; it stays out of service until somebody decides")
		} else {
			m.record.enter(ctx, maintenancev1.NodeReady)
			m.record.reason.set(ctx, "AwaitingRequestor", "the node is handed over to "+m.spec.RequestorID+"; waiting for done")
			m.announce(ctx, "the node is ready, and handed over to "+m.spec.RequestorID)
		}
		if err := workflow.Await(ctx, func() bool { return m.done != nil || m.failed != failed }); err != nil {
			return err
		}
	}
	m.record.note("done was said" + byWhom(*m.done))
	m.failed, m.status.Failure = nil, nil
	m.record.reason.set(ctx, "", "")
	return nil
}
