// Package nodemaintenance holds the workflow that takes one node out of service for work, and returns it to service.
package nodemaintenance

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/requests"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/slots"
)

// NodeMaintenance takes a node out of service, works on it and returns it. It ends with the status of the maintenance; a maintenance that
// did not complete ends in a typed error that carries the status as its details.
func NodeMaintenance(ctx workflow.Context, in Input) (maintenancev1.NodeMaintenanceStatus, error) {
	m, err := newNodeMaintenance(ctx, in)
	if err != nil {
		return maintenancev1.NodeMaintenanceStatus{}, err
	}
	return m.run(ctx)
}

// nodeMaintenance is one run of the workflow.
type nodeMaintenance struct {
	in     Input
	spec   maintenancev1.NodeMaintenanceSpec
	node   activitykit.NodeRef
	state  *State
	record *nodeRecord
	holds  gates.Holds
	slots  *slots.Client
	// waits has the current waits, retries the activities that are being retried. awaited is the activity that the workflow waits for.
	waits   waits
	retries kit.Retries
	awaited awaited
	// returned is the result of the return of the node to service by the activity that found it healthy; nil: it has not returned it.
	returned *node.ReturnNodeResult
	// edits counts the edits of the request in this run.
	edits int
	// stopWork cancels the work, and stopJob the Job in progress; nil: there is none.
	stopWork, stopJob workflow.CancelFunc

	clients
}

// clients name the activities of the workflow.
type clients struct {
	nodes     *node.Activities
	drains    *drain.Activities
	jobs      *jobs.Activities
	health    *health.Activities
	locks     *locks.Activities
	hub       *rollouts.Activities
	scheduler *scheduler.Activities
	objects   *objects.Activities
	requests  *requests.Activities
}

func newNodeMaintenance(ctx workflow.Context, in Input) (*nodeMaintenance, error) {
	m := &nodeMaintenance{
		in:   in,
		spec: in.Object.Spec,
		node: activitykit.NodeRef{
			Cluster: in.Cluster, Node: in.Object.Spec.NodeName, Owner: kit.Owner(ctx),
			Requestor: in.Object.Spec.RequestorID, Rollout: temporal.RolloutOf(in.Parent),
		},
		state: newState(in),
		slots: slots.NewClient(ctx, in.Cluster, in.Object.Namespace, in.Object.Spec.RequestorID),
	}
	if in.Carried != nil {
		m.restore(in.Carried)
	}
	m.in.Carried = nil
	m.holds.State = m.state.Held
	m.state.Status.Held = m.holds.State.Of(in.Cluster)
	m.record = newNodeRecord(ctx, &m.state.Status, m.node, in)
	m.record.publisher = kit.Publisher{Object: in.Source, Current: m.objectStatus, Lasts: m.record.lasts, Progress: onlyProgress, Local: true, Retrier: m.quietRetrier()}
	m.record.notifier = kit.Notifier{
		Kind: "maintenance", Name: in.Cluster + "/" + in.Object.Namespace + "/" + in.Object.Name, Planned: []string{ReasonAwaitingRequestor},
		Receivers: func() []drydockv1.Notification { return m.spec.Notify },
	}
	if in.Carried != nil {
		m.record.publisher.State, m.record.notifier.State = m.state.Publisher, m.state.Notifier
		m.record.publisher.Open()
	}
	m.retries.Show = func() { m.showWait(ctx) }
	m.showRequestors()
	return m, errors.Join(m.listenForJoins(ctx), m.listenForEdits(ctx), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (maintenancev1.NodeMaintenanceStatus, error) { return m.state.Status, nil },
		workflow.QueryHandlerOptions{Description: "The status of the maintenance."}))
}

// run does the work, and cleans up after success, failure and cancellation alike. A cancellation affects only the first requestor, because others may
// need the node.
func (m *nodeMaintenance) run(ctx workflow.Context) (maintenancev1.NodeMaintenanceStatus, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	work, stopWork := workflow.WithCancel(listening)
	m.stopWork = stopWork
	m.listen(listening)
	workflow.GoNamed(listening, "notify", m.record.notifier.Run)
	kit.OnCancellation(ctx, listening, func() { m.cancelFor(temporal.SignalRequest{}) })
	if m.in.Parent == "" {
		m.subscribe(work)
		m.holds.Windows.Subscribe(work, gates.QualifiedNames(m.in.Object.Namespace, m.spec.MaintenanceWindows), func() []string { return []string{m.in.Cluster} })
	}

	err := m.maintain(work)
	if workflow.IsContinueAsNewError(err) {
		return m.state.Status, err
	}
	m.stopLockClocks(ctx)
	m.record.failure(err)
	m.state.Return.Begun = Yes
	clean, _ := workflow.NewDisconnectedContext(ctx)
	m.leaveQueue()
	m.cleanUp(clean, err)
	m.releaseSlot(clean, err)
	m.holds.Unsubscribe(clean)
	status, err := m.finish(clean, err)
	m.record.attributes.Flush()
	m.record.publisher.Retrier = m.retrier() // from now on, the workflow waits for the object
	m.record.publisher.Finish(clean)
	// Answer every update, and start every notification.
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) && m.record.notifier.Idle() })
	return status, err
}

// subscribe subscribes to the emergency stop. In the first run, the activity that accepts the request does that.
func (m *nodeMaintenance) subscribe(ctx workflow.Context) {
	if m.state.Status.State == stateNone {
		m.holds.Expect(ctx, m.in.Cluster)
		return
	}
	m.holds.Subscribe(ctx, m.in.Cluster)
}

// maintain runs the steps of the maintenance.
func (m *nodeMaintenance) maintain(ctx workflow.Context) error {
	if m.state.Status.State == stateNone {
		if err := m.prepare(ctx); err != nil {
			return err
		}
	}
	if acquired, err := m.acquire(ctx); !acquired || err != nil {
		return err
	}
	steps := []func(workflow.Context) error{
		m.awaitPodCompletion,
		m.drain,
		m.work,
	}
	return kit.Within(ctx, func(following workflow.Context) error {
		workflow.GoNamed(following, "locks", m.followLocks)
		for _, step := range steps {
			if ctx.Err() == nil && !m.state.needed() {
				break // all requestors left during the drain
			}
			if err := step(ctx); err != nil {
				return err
			}
		}
		return m.checkHealth(ctx)
	})
}
