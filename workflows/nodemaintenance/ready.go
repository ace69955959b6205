package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// work runs the Job, if any, and then waits for the requestors. While the cluster is held no work starts, but a node without work is returned.
func (m *nodeMaintenance) work(ctx workflow.Context) error {
	if m.byJob() || !m.in.DoneWhenReady {
		if err := m.awaitReleaseOfWork(ctx); err != nil {
			return err
		}
	}
	m.enter(ctx, becomeReady)
	m.settleDone(true)
	m.record.publisher.Annotate(maintenancev1.AnnotationReadyTime, workflow.Now(ctx).UTC().Format(time.RFC3339))
	m.record.stages.Begin(ctx, maintenancev1.StageWorkDone)
	var err error
	switch first := m.state.first(); {
	case m.byJob() && first.State.NeedsNode():
		err = m.runJob(ctx)
	case m.in.DoneWhenReady && first.State.NeedsNode():
		m.setRequestor(first, maintenancev1.RequestorDone, "")
	}
	if err == nil {
		err = m.awaitRequestors(ctx)
	}
	m.record.stages.End(ctx, maintenancev1.StageWorkDone, err, "")
	return err
}

// awaitReleaseOfWork waits until the cluster is not held, or no requestor wants to work on the node.
func (m *nodeMaintenance) awaitReleaseOfWork(ctx workflow.Context) error {
	_, err, unwanted := unless(ctx, "until no requestor wants the node", m.awaitReleaseStep, func(ctx workflow.Context) error {
		return workflow.Await(ctx, func() bool { return !m.state.wanted() })
	})
	if unwanted {
		return nil
	}
	return err
}

// awaitRequestors waits until no requestor needs the node. If the work of one fails, the node is kept until the failure is cleared.
func (m *nodeMaintenance) awaitRequestors(ctx workflow.Context) error {
	if !m.state.needed() {
		return ctx.Err()
	}
	m.state.Status.ReadyForRequestors = true
	defer func() { m.state.Status.ReadyForRequestors = false }()
	for m.state.needed() {
		// The staleness of the requestors' work excludes the time of a Job or of a failure.
		m.state.Readiness = node.Readiness{}
		err := kit.Within(ctx, func(watching workflow.Context) error {
			var ready *node.AnnounceStateInput
			if m.state.failing() == nil {
				ready = m.announceReady(ctx)
			}
			workflow.GoNamed(watching, "staleness", func(ctx workflow.Context) { m.followStaleness(ctx, ready) })
			return m.awaitDoneOrRecovered(ctx)
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// awaitDoneOrRecovered waits until no requestor needs the node, or until the work continues after a failure.
func (m *nodeMaintenance) awaitDoneOrRecovered(ctx workflow.Context) error {
	for m.state.needed() {
		failed := m.state.Status.State == maintenancev1.NodeRequestorFailed
		switch {
		case failed && m.state.failing() == nil:
			m.enter(ctx, recoverWork)
			return nil
		case !failed && m.state.failing() != nil:
			m.enter(ctx, fail)
			m.announceFailure(ctx)
		case m.collects():
			m.collect()
			continue
		}
		if err := m.awaitGate(ctx, gateRequestors, m.readyChanged); err != nil {
			return err
		}
	}
	return nil
}

// readyChanged reports whether the state of a ready node must change.
func (m *nodeMaintenance) readyChanged() bool {
	failed := m.state.Status.State == maintenancev1.NodeRequestorFailed
	return !m.state.needed() || failed != (m.state.failing() != nil) || m.collects()
}

func (m *nodeMaintenance) announceFailure(ctx workflow.Context) {
	message := "the work on the node has failed" + m.state.failing().Failure.report() + "; it stays out of service until the failure is cleared (recover), or done or cancel is sent"
	m.announce(ctx, maintenancev1.NodeRequestorFailed, message)
}
