// Package nodemaintenance holds the workflow that takes one node out of service, has it worked on, and returns it to service.
package nodemaintenance

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
)

const (
	// cleanUpLimit is how long cleanup is retried before it reports what it could not take back.
	cleanUpLimit = 30 * time.Minute
	// locksActiveLimit is how long clean-up waits for the node's workload locks to be active again before it reports those that are not.
	locksActiveLimit = 10 * time.Minute
	// LockRefusedPause is the least pause before locks are waited for again that were held in the last moment; it doubles up to
	// lockRefusedPauseLimit.
	LockRefusedPause      = time.Second
	LockRefusedPauseLimit = time.Minute
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
	status maintenancev1.NodeMaintenanceStatus
	record *nodeRecord
	holds  gates.Holds
	slots  *slots.Client

	// awaited is the activity whose observations count now. observed: it has observed something, and so it is at work.
	awaited  string
	observed bool
	// draining is the input of the drain; every attempt goes on from what was observed of those before.
	draining *drain.Input
	// lockState is what is known of the workload locks that were asked to let go.
	lockState lockState
	// mayBeHeldAgain: the node has locks, which have let go of it. heldAgain are those that have taken that back since.
	mayBeHeldAgain bool
	heldAgain      []string
	// jobStarted: a Job may exist on the node. jobFinished: it has done its work.
	jobStarted, jobFinished bool
	// marked: the node may carry our marks. cordoned: it may be out of service.
	marked, cordoned bool
	// nodeUID is that of the node that was taken.
	nodeUID types.UID

	// slotReturned: the scheduler knows that the parent's slot is free. gaveWay: others had to go first, or the window closed, and the parent waits for another.
	slotReturned, gaveWay bool

	// announced counts the states that were announced on the node.
	announced int32
	// requestors need the node. returning: the node is on its way back, whoever needs it.
	requestors *requestorKeeper
	returning  bool
	// stopJob ends the Job that is at work.
	stopJob workflow.CancelFunc
	// ready is how it stands with the node while it is handed over, or its Job at work: for too long, or uncordoned by somebody.
	ready node.Readiness
	// withdraw cancels the work; withdrawn says on whose word.
	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest

	nodes     *node.Activities
	drains    *drain.Activities
	jobs      *jobs.Activities
	health    *health.Activities
	locks     *locks.Activities
	hub       *rollouts.Activities
	clusters  *node.Activities
	scheduler *scheduler.Activities
}

func newNodeMaintenance(ctx workflow.Context, in Input) (*nodeMaintenance, error) {
	m := &nodeMaintenance{
		in:   in,
		spec: in.Object.Spec,
		node: activitykit.NodeRef{Cluster: in.Cluster, Node: in.Object.Spec.NodeName, Owner: kit.Owner(ctx)},
	}
	if left := in.LockTimeLeft; left != nil {
		m.lockState.NodeClock, m.lockState.ClusterClock, m.status.LockTimeLeft = lockClockOf(left.NodeSeconds), lockClockOf(left.ClusterSeconds), left
	}
	m.record = newNodeRecord(ctx, &m.status, m.node, in.Object.Spec.RequestorID)
	m.slots = slots.NewClient(ctx, in.Cluster, in.Object.Namespace, in.Object.Spec.RequestorID)
	m.requestors = newRequestorKeeper(in.Object.Spec, &m.status, m.record.show)
	if in.Carried != nil {
		m.restore(*in.Carried)
	}
	m.holds.State, m.status.Held = in.Held, in.Held.Of(in.Cluster)
	return m, errors.Join(m.listenForJoins(ctx), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (maintenancev1.NodeMaintenanceStatus, error) { return m.status, nil },
		workflow.QueryHandlerOptions{Description: "The status of the maintenance."}))
}

// run does the work, and takes everything back however the work ended. To be cancelled is a word of the requestor's: others may need the node.
func (m *nodeMaintenance) run(ctx workflow.Context) (maintenancev1.NodeMaintenanceStatus, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	work, withdraw := workflow.WithCancel(listening)
	m.withdraw = withdraw
	m.listen(listening)
	kit.OnCancellation(ctx, listening, func() { m.takeBack(temporal.SignalRequest{}) })
	if m.in.Parent == "" {
		m.holds.Follow(work, m.in.Cluster)
		m.holds.Windows.Follow(work, gates.QualifiedNames(m.in.Object.Namespace, m.spec.MaintenanceWindows), func() []string { return []string{m.in.Cluster} })
	}

	err := m.maintain(work)
	if workflow.IsContinueAsNewError(err) {
		return m.status, err
	}
	m.stopLockClocks(ctx)
	m.record.failure(err)
	m.returning = true
	clean, _ := workflow.NewDisconnectedContext(ctx)
	m.leaveQueue()
	m.cleanUp(clean, err)
	m.releaseSlot(clean, err)
	m.holds.Leave(clean)
	status, err := m.finish(clean, err)
	m.record.attributes.Flush()
	return status, err
}

// maintain is the way of a node through its maintenance.
func (m *nodeMaintenance) maintain(ctx workflow.Context) error {
	if m.in.Carried == nil {
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
		m.checkHealth,
	}
	return kit.Within(ctx, func(following workflow.Context) error {
		workflow.GoNamed(following, "locks", m.followLocks)
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare checks the request and finds who works on its cluster, before anything is touched; whoever takes it back if we
// cannot is woken. A rollout has done all that already.
func (m *nodeMaintenance) prepare(ctx workflow.Context) error {
	m.record.enter(ctx, maintenancev1.NodePending)
	if err := m.checkID(ctx); err != nil || m.in.Parent != "" {
		return err
	}
	hub := kit.HubRetrier(m.record.reason.Set)
	if err := hub.Run(ctx, "check the request", m.hub.CheckNodeMaintenance, m.in.Written, nil); err != nil {
		return err
	}
	awake := sweeper.Wake(ctx, m.record.reason.Set, m.in.Cluster, "a maintenance of "+m.node.Node+" begins")
	if err := kit.Locate(ctx, hub, m.in.Cluster, &m.in.TaskQueue); err != nil {
		return err
	}
	if err := awake.Get(ctx, nil); err != nil {
		return err
	}
	return m.plan(ctx)
}

// plan marks the node as one whose maintenance waits for its turn.
func (m *nodeMaintenance) plan(ctx workflow.Context) error {
	m.marked = true
	in := node.PlanMaintenanceInput{NodeRef: m.node, Departure: m.departure()}
	var result node.PlanMaintenanceResult
	err := m.retrier().Run(ctx, "mark "+m.node.Node+" as planned", m.nodes.PlanMaintenance, in, &result)
	m.record.note(result.Warning)
	return err
}

// checkID refuses a maintenance under an id by which neither the scheduler nor the sweeper would find it.
func (m *nodeMaintenance) checkID(ctx workflow.Context) error {
	want := temporal.NodeMaintenanceID(m.in.Cluster, m.in.Object.Namespace, m.in.Object.Name)
	if id := workflow.GetInfo(ctx).WorkflowExecution.ID; id != want {
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("the id of the workflow must be %s, not %s: start it under that id", want, id), nil)
	}
	return nil
}

// awaitNode waits until the maintenance may have the node for itself.
func (m *nodeMaintenance) awaitNode(ctx workflow.Context) error {
	for {
		if err := m.awaitOpening(ctx); err != nil {
			return err
		}
		if err := m.awaitSlot(ctx); err != nil {
			return err
		}
		if m.closed() == nil {
			return nil
		}
		m.giveSlotBack()
	}
}

// awaitSlot waits until the scheduler of the cluster grants a slot. A rollout has waited already.
func (m *nodeMaintenance) awaitSlot(ctx workflow.Context) error {
	if m.in.Slot != nil {
		return nil
	}
	m.slots.Request(m.in.Object.Name, m.node.Node, m.status.StartedAt.Time)
	for m.slots.Waits() && !m.rests(ctx) {
		m.record.reason.Replace(m.slotWait())
		wait, trouble := m.slots.Wait, m.slots.Trouble
		if err := workflow.Await(ctx, func() bool {
			return !m.slots.Waits() || m.slots.Wait != wait || m.slots.Trouble != trouble || m.rests(ctx)
		}); err != nil {
			return err
		}
	}
	m.record.reason.Replace(nil)
	if len(m.slots.TakeNodesGone()) > 0 {
		return activitykit.NodeGone(m.in.Cluster, m.node.Node)
	}
	return nil
}

// slotWait is why the maintenance has no slot yet. A node that another maintenance has can be shared.
func (m *nodeMaintenance) slotWait() *drydockv1.Wait {
	wait := cmp.Or(m.slots.Trouble, m.slots.Wait)
	if wait == nil || wait.Reason != string(scheduling.NodeBusy) {
		return wait
	}
	told := *wait
	told.Message += "; to share the node, join that maintenance (drydock node join)"
	return &told
}

// giveSlotBack gives the slot back, or the request for it, of a node that was not cordoned.
func (m *nodeMaintenance) giveSlotBack() {
	m.slots.Release(m.in.Object.Name, scheduling.Release{})
}

// awaitRelease stands before every step that disrupts: while the cluster is held, none begins. Locks that have let go are not asked meanwhile, and keep what
// is left of their time.
func (m *nodeMaintenance) awaitRelease(ctx workflow.Context) error {
	if m.holds.Of(m.in.Cluster) != nil {
		m.stopLockClocks(ctx)
	}
	return m.holds.AwaitRelease(ctx, m.in.Cluster, m.record.reason)
}

// whenReleased takes a step that disrupts, and takes it anew when the cluster was held before the step had begun.
func (m *nodeMaintenance) whenReleased(ctx workflow.Context, step func() error) error {
	for {
		if err := m.awaitRelease(ctx); err != nil {
			return err
		}
		if err := step(); temporal.ErrorType(err) != temporal.ErrHeld {
			return err
		}
	}
}

// checkHealth waits until the node, its DaemonSet pods and the declared checks are well.
func (m *nodeMaintenance) checkHealth(ctx workflow.Context) error {
	m.returning = true
	m.record.enter(ctx, maintenancev1.NodeHealthChecks)
	in := health.AwaitNodeHealthyInput{NodeRef: m.node, Since: workflow.Now(ctx), Checks: m.spec.HealthChecks, NoWork: m.in.DoneWhenReady && !m.byJob()}
	in.Deadline = kit.DeadlineIn(ctx, kit.HealthTimeout(m.spec.HealthTimeoutSeconds))
	return m.await(ctx, "AwaitNodeHealthy", "check the health of "+m.node.Node, kit.LastDeadline(ctx, in.Deadline, in.Checks), temporal.ErrHealthGateFailed,
		m.health.AwaitNodeHealthy, in, nil)
}

// retrier returns the retrier of this maintenance: its status says why an activity does not succeed.
func (m *nodeMaintenance) retrier() kit.Retrier {
	return kit.ClusterRetrier(m.in.Cluster, &m.in.TaskQueue, m.record.reason.Set)
}

// retrierUntilHeld is that of a step that disrupts: what has not begun yet when the cluster is held ends as Held. So do attempts within a round.
func (m *nodeMaintenance) retrierUntilHeld() kit.Retrier {
	retrier := m.retrier()
	retrier.BeforeRound = func() error {
		if hold := m.holds.Of(m.in.Cluster); hold != nil && !m.observed {
			return temporal.Error(temporal.ErrHeld, emergency.Message(*hold), nil)
		}
		return nil
	}
	return retrier
}

// await runs a waiting activity whose observations become the status.
func (m *nodeMaintenance) await(ctx workflow.Context, name, summary string, deadline *time.Time, timedOut string, activity, input, result any) error {
	return m.awaitBy(ctx, m.retrier(), name, summary, deadline, timedOut, activity, input, result)
}

func (m *nodeMaintenance) awaitBy(
	ctx workflow.Context, retrier kit.Retrier, name, summary string, deadline *time.Time, timedOut string, activity, input, result any,
) error {
	m.awaited, m.observed = name, false
	err := retrier.Wait(ctx, summary, deadline, timedOut, activity, input, result)
	m.awaited, m.observed = "", false
	m.record.reason.Set(ctx, "", "")
	return err
}
