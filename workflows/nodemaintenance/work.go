package nodemaintenance

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// work hands the node over: to the requestors, or to a Job first. While the cluster is held nobody gets it; a node that nobody works on is returned.
func (m *nodeMaintenance) work(ctx workflow.Context) error {
	if m.byJob() || !m.in.DoneWhenReady {
		if err := m.awaitRelease(ctx); err != nil {
			return err
		}
	}
	m.record.enter(ctx, maintenancev1.NodeReady)
	m.record.stages.Begin(ctx, maintenancev1.StageWorkDone)
	var err error
	switch own := m.requestors.own(); {
	case m.byJob() && own.State.NeedsNode():
		err = m.runJob(ctx)
	case m.in.DoneWhenReady:
		m.requestors.set(own, maintenancev1.RequestorDone, "")
	}
	if err == nil {
		err = m.awaitRequestors(ctx)
	}
	m.record.stages.End(ctx, maintenancev1.StageWorkDone, err, "")
	return err
}

// byJob reports whether a Job does the work.
func (m *nodeMaintenance) byJob() bool {
	return m.spec.Action != nil && m.spec.Action.Type == maintenancev1.ActionJob
}

// runJob does the work with a Job. When it fails, the node stays out of service until somebody decides; a rollout has decided already: it
// does not go on. When the requestor leaves while others need the node, only the Job ends.
func (m *nodeMaintenance) runJob(ctx workflow.Context) error {
	m.jobStarted = true
	in := new(m.jobInput())
	running, stop := workflow.WithCancel(ctx)
	m.stopJob = stop
	defer func() { m.stopJob = nil }()
	err := m.whenReleased(running, func() error {
		return kit.Within(running, func(watching workflow.Context) error {
			if m.in.Parent == "" { // in a rollout, the time of its batch is over before
				workflow.GoNamed(watching, "staleness", m.followStaleness)
			}
			in.Deadline, in.Held, in.Closes = kit.DeadlineIn(ctx, in.Job.TimeoutSeconds), nil, m.holds.Closes(m.in.Cluster)
			retrier := m.retrier()
			retrier.BeforeRound = func() error { return m.lookAfterJob(ctx, in) }
			return m.awaitBy(watching, retrier, "RunJob", "run the job on "+m.node.Node, in.Deadline, temporal.ErrJobFailed, m.jobs.RunJob, in, nil)
		})
	})
	m.jobFinished = err == nil
	own := m.requestors.own()
	switch {
	case err == nil && own.State.NeedsNode():
		m.requestors.set(own, maintenancev1.RequestorDone, "its job is done")
		return nil
	case err == nil:
		return nil
	case ctx.Err() == nil && running.Err() != nil:
		// The others get the node when the job is gone, however long that takes.
		return m.removeJob(ctx, m.retrier())
	case temporal.ErrorType(err) != temporal.ErrJobFailed || m.in.Parent != "":
		return err
	}
	failure := kit.FailureOf(err)
	message := jobs.WithoutLog(failure.Message)
	own.failure = &WorkFailure{Failure: *failure, Said: ": " + message}
	m.requestors.set(own, maintenancev1.RequestorFailed, message)
	m.showFailure()
	// One that somebody has deleted, or whose time is over, may be at work still: nobody has the node before that is over.
	return m.removeJob(ctx, m.retrier())
}

// lookAfterJob stands before a further round of attempts at a job. It may be at work already, though nobody has heard of it: while the cluster is held it is looked
// after all the same, and ended in its time, but not created any more. Errors: Held, when its time is over and nobody could look.
func (m *nodeMaintenance) lookAfterJob(ctx workflow.Context, in *jobs.RunJobInput) error {
	if hold := m.holds.Of(m.in.Cluster); hold != nil && !m.observed {
		in.Held = hold
	}
	if in.Held != nil && in.Deadline != nil && workflow.Now(ctx).After(*in.Deadline) {
		return temporal.Error(temporal.ErrHeld, emergency.Message(*in.Held), nil)
	}
	return nil
}

func (m *nodeMaintenance) jobInput() jobs.RunJobInput {
	return jobs.RunJobInput{NodeRef: m.node, NodeUID: m.nodeUID, Maintenance: m.in.Object.Name, Job: *m.spec.Action.Job}
}

// removeJob ends the job, if it may be at work, and waits until it is gone. One that has failed is kept for its logs.
func (m *nodeMaintenance) removeJob(ctx workflow.Context, retrier kit.Retrier) error {
	m.awaited, m.observed = "RemoveJob", false
	err := retrier.Run(ctx, "remove the job from "+m.node.Node, m.jobs.RemoveJob, m.jobInput(), nil)
	m.awaited, m.observed = "", false
	m.record.reason.Set(ctx, "", "")
	m.jobStarted = err != nil
	return err
}

// awaitRequestors waits until nobody needs the node any more. While the work of one has failed, the node is held.
func (m *nodeMaintenance) awaitRequestors(ctx workflow.Context) error {
	if !m.requestors.needed() {
		return ctx.Err()
	}
	m.status.HandedOver = true
	defer func() { m.status.HandedOver = false }()
	for {
		// How long the job took, or a failure was looked into, is not what those answer for who get the node now.
		m.ready = node.Readiness{}
		err := kit.Within(ctx, func(watching workflow.Context) error {
			workflow.GoNamed(watching, "staleness", m.followStaleness)
			return m.awaitThemAll(ctx)
		})
		if !errors.Is(err, errRecovered) {
			return err
		}
	}
}

// errRecovered ends a wait for requestors: their work goes on after a failure, and they have the node anew.
var errRecovered = errors.New("the work goes on after a failure")

func (m *nodeMaintenance) awaitThemAll(ctx workflow.Context) error {
	var told maintenancev1.NodeState
	for m.requestors.needed() {
		if told == maintenancev1.NodeRequestorFailed && m.requestors.failing() == nil {
			return errRecovered
		}
		if m.collect() {
			continue
		}
		version, ready := m.requestors.version, m.ready
		told = m.sayWhoHasTheNode(ctx, told)
		if err := workflow.Await(ctx, func() bool {
			return m.requestors.version != version || m.ready != ready
		}); err != nil {
			return err
		}
	}
	m.record.reason.Set(ctx, "", "")
	return ctx.Err()
}

// Reasons why a maintenance whose node is handed over waits.
const (
	// ReasonAwaitingRequestor: its requestors have the node.
	ReasonAwaitingRequestor = "AwaitingRequestor"
	// ReasonStale: they have it for longer than its cluster allows.
	ReasonStale = "Stale"
)

// sayWhoHasTheNode keeps the state and its reason, and announces on the node what it was not told yet.
func (m *nodeMaintenance) sayWhoHasTheNode(ctx workflow.Context, told maintenancev1.NodeState) maintenancev1.NodeState {
	who := names(m.requestors.who(needsNode))
	announcement := "the node is ready, and handed over to " + who
	if failing := m.requestors.failing(); failing != nil {
		said := failing.failure.said()
		failed := "the work on the node failed" + said
		announcement = "the work on the node has failed" + said + "; it stays out of service until somebody decides"
		m.record.enter(ctx, maintenancev1.NodeRequestorFailed)
		m.record.reason.Set(ctx, "RequestorFailed", failed+"; the node is held until the failure is cleared (recover), or done or cancel is said")
	} else {
		m.record.enter(ctx, maintenancev1.NodeReady)
		message := "the node is handed over to " + who + "; waiting for done"
		if failed := names(m.requestors.who(hasFailed)); failed != "" {
			message += "; the work of " + failed + " has failed, and waits for recover, done or cancel"
		}
		if m.ready.Uncordoned {
			message += "; the node is no longer cordoned, so pods may come to it"
		}
		if m.ready.Stale {
			m.record.reason.Set(ctx, ReasonStale, fmt.Sprintf("%s for longer than %d s (maxNodeMaintenanceTimeSeconds)", message, m.ready.LimitSeconds))
		} else {
			m.record.reason.Set(ctx, ReasonAwaitingRequestor, message)
		}
	}
	if m.status.State != told {
		m.announce(ctx, m.status.State, announcement)
	}
	return m.status.State
}

// followStaleness looks whether the node has been handed over, or its job at work, for longer than the cluster allows, and whether it stays cordoned, until ctx
// is cancelled.
func (m *nodeMaintenance) followStaleness(ctx workflow.Context) {
	m.ready = node.Readiness{}
	in := node.AwaitStaleInput{Cluster: m.in.Cluster, ReadySince: workflow.Now(ctx)}
	if m.cordons() {
		in.CordonedNode = m.node.Node
	}
	// A cluster that does not answer makes nothing stale; why it does not is not what the requestor is waited for.
	retrier := kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, nil)
	for {
		var found node.Readiness
		if retrier.Wait(ctx, "until the maintenance of "+m.node.Node+" is stale", nil, "", m.clusters.AwaitStale, in, &found) != nil || ctx.Err() != nil {
			return
		}
		if found.Stale && !m.ready.Stale {
			since := in.ReadySince.Add(time.Duration(found.LimitSeconds) * time.Second)
			what := "the node was handed over %d s before, and nobody has said done"
			if !m.status.HandedOver {
				what = "the job began %d s before, and is at work still"
			}
			m.record.note(fmt.Sprintf("stale since %s: "+what+" (maxNodeMaintenanceTimeSeconds)", since.UTC().Format(time.RFC3339), found.LimitSeconds))
			workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"cluster": m.in.Cluster}).Counter("drydock_stale_maintenances").Inc(1)
		}
		if found.Uncordoned && !m.ready.Uncordoned {
			m.record.note("somebody has uncordoned the node: pods may come to it; whoever cordons it (kubectl cordon " + m.node.Node + ") takes that cordon back")
		}
		m.ready, in.Known = found, found
		in.Changes++
	}
}

// collect ends a stale maintenance where its cluster wants that, and reports whether it did.
func (m *nodeMaintenance) collect() (collected bool) {
	if !m.ready.Collect || m.requestors.failing() != nil || !m.requestors.needed() {
		return false
	}
	reason := fmt.Sprintf("collected, as garbageCollect asks: the node was ready for more than %d s (maxNodeMaintenanceTimeSeconds)", m.ready.LimitSeconds)
	m.takeBackAll(temporal.SignalRequest{Reason: reason})
	return true
}
