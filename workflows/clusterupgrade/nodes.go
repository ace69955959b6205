package clusterupgrade

import (
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
)

// nodeRollout maintains nodes of a cluster as its scheduler grants them slots, each in a NodeMaintenance child.
type nodeRollout struct {
	upgrade *clusterUpgrade
	slots   *slots.Client

	pending []string
	// running children, in the order they were started.
	running []string
	// left are nodes that their maintenances may not have returned: the sweeper does.
	left []string
	// takeBack cancels the maintenance of a running node; takenBack are those that were cancelled because their window has closed.
	takeBack  map[string]workflow.CancelFunc
	takenBack map[string]bool
	// failure is the first failure of a node: nothing new starts after it.
	failure error
	// changed wakes the loop.
	changed bool
}

func newNodeRollout(ctx workflow.Context, upgrade *clusterUpgrade) *nodeRollout {
	return &nodeRollout{
		upgrade: upgrade, slots: slots.NewClient(ctx, upgrade.in.Cluster, upgrade.in.Namespace, requestorOf(upgrade.in)),
		takeBack: map[string]workflow.CancelFunc{}, takenBack: map[string]bool{},
	}
}

// maintain maintains the nodes and returns when all are over, or, after a failure or a cancellation, when the running ones are. It
// returns a continue-as-new error when the run's history is long enough and no node is running.
func (r *nodeRollout) maintain(ctx workflow.Context, nodes []string) error {
	r.pending = nodes
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	for {
		r.changed = false
		r.endGone(ctx)
		if r.startGranted(ctx) == ChildrenAtOnce { // the rest wait for another workflow task
			if err := workflow.Sleep(waiting, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if over, err := r.over(ctx); over {
			r.pending = nil
			return err
		}
		r.requestSlots(ctx)
		r.upgrade.record.show()
		idle := func() bool { return len(r.running) == 0 && (ctx.Err() != nil || r.upgrade.mustContinueAsNew(ctx)) }
		if err := workflow.Await(waiting, func() bool { return r.changed || idle() }); err != nil {
			return err
		}
	}
}

// over reports whether there is nothing left to wait for, and how it ended.
func (r *nodeRollout) over(ctx workflow.Context) (bool, error) {
	if len(r.running) > 0 {
		return false, nil
	}
	switch {
	case r.failure != nil:
		r.withdrawRequests()
		return true, r.failure
	case ctx.Err() != nil:
		r.withdrawRequests()
		return true, ctx.Err()
	case len(r.pending) == 0:
		return true, nil
	case r.upgrade.mustContinueAsNew(ctx):
		r.withdrawRequests()
		return true, r.upgrade.continueAsNew(ctx)
	}
	return false, nil
}

// starts reports whether new nodes may be started.
func (r *nodeRollout) starts(ctx workflow.Context) bool {
	return len(r.pending) > 0 && r.failure == nil && ctx.Err() == nil && !r.upgrade.status.Paused && r.held() == nil &&
		!r.upgrade.mustContinueAsNew(ctx)
}

// held is what keeps new nodes from being started, by the clock: it need not have been told.
func (r *nodeRollout) held() *drydockv1.Hold { return r.upgrade.holds.Of(r.upgrade.in.Cluster) }

// requestSlots requests slots for the pending nodes, as many as may be running; or withdraws the requests, while none may start.
func (r *nodeRollout) requestSlots(ctx workflow.Context) {
	if !r.starts(ctx) {
		r.withdrawRequests()
		return
	}
	limit := nodesAtOnce - len(r.running)
	if len(r.pending) > limit && 2*r.slots.Waiting() > limit {
		return // every set lists all requests: a few large sets are better than one for each node
	}
	for i, node := range r.pending[:min(len(r.pending), limit)] {
		// All are as old as the upgrade of the cluster; among themselves they keep their order.
		r.slots.Request(r.nameOf(node), node, r.upgrade.status.StartedAt.Add(time.Duration(i)*time.Microsecond))
	}
}

// withdrawRequests withdraws the requests for nodes that are not started, and releases their slots.
func (r *nodeRollout) withdrawRequests() {
	for _, node := range r.pending {
		r.slots.Release(r.nameOf(node), scheduling.Release{})
	}
	r.upgrade.record.show()
}

func (r *nodeRollout) nameOf(node string) string {
	return rollout.NodeMaintenanceName(r.upgrade.in.Rollout, node)
}

func requestorOf(in Input) string {
	return rollout.RequestorID(types.NamespacedName{Namespace: in.Namespace, Name: in.Rollout})
}

func (r *nodeRollout) objectFor(node string) maintenancev1.NodeMaintenance {
	in := r.upgrade.in
	return rollout.NodeMaintenanceFor(types.NamespacedName{Namespace: in.Namespace, Name: in.Rollout}, in.Remediation, node)
}

// idle is what does not begin while the cluster is held or the rollout paused; "": nodes are running, or none is left.
func (r *nodeRollout) idle() string {
	if len(r.running) > 0 || len(r.pending) == 0 {
		return ""
	}
	return "no node is started"
}

// waitForSlots is what the nodes wait for that are left; nil: nothing.
func (r *nodeRollout) waitForSlots() *drydockv1.Wait {
	switch {
	case len(r.running)+len(r.pending) == 0:
		return nil
	case r.slots.Trouble != nil:
		return r.slots.Trouble
	}
	return r.slots.Wait
}

// endGone ends what was to be done on nodes that were deleted before they had a slot.
func (r *nodeRollout) endGone(ctx workflow.Context) {
	for _, slot := range r.slots.TakeNodesGone() {
		if !slices.Contains(r.pending, slot.Node) {
			continue
		}
		r.pending = kit.Without(r.pending, slot.Node)
		r.ended(ctx, slot.Node, maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeGone, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}, nil)
	}
}

// startGranted starts a NodeMaintenance for every pending node that has a slot, as far as one task can, and returns how many.
func (r *nodeRollout) startGranted(ctx workflow.Context) int {
	if !r.starts(ctx) {
		return 0
	}
	var granted []string
	for _, slot := range r.slots.State.Slots {
		if slot.Granted && len(granted) < ChildrenAtOnce && slices.Contains(r.pending, slot.Node) {
			granted = append(granted, slot.Node)
		}
	}
	atWork := len(r.running) + len(granted)
	for _, node := range granted {
		r.start(ctx, node, atWork)
	}
	return len(granted)
}

// ChildrenAtOnce is how many children are started in one workflow task: all its commands together must stay under 4 MB.
const ChildrenAtOnce = 50

// NodeReportingTime is how long all running nodes may report progress before the run's signals are used up; longer than most maintenances take.
const NodeReportingTime = 4 * time.Hour

// start starts the maintenance of a node, which is one of that many running.
func (r *nodeRollout) start(ctx workflow.Context, node string, atWork int) {
	r.pending = kit.Without(r.pending, node)
	working, takeBack := workflow.WithCancel(ctx)
	r.takeBack[node] = takeBack
	delete(r.takenBack, node) // in an opening before this one
	in, object := r.upgrade.in, r.objectFor(node)
	maintenance := nodemaintenance.Input{
		Cluster: in.Cluster, TaskQueue: in.TaskQueue, Object: object, Parent: workflow.GetInfo(ctx).WorkflowExecution.ID,
		// The rollout is the requestor, and has nothing to do beyond its action. An action "none" that is written down
		// leaves the node to another requestor, which sends done.
		DoneWhenReady: in.Remediation.Action == nil,
		ProgressLimit: kit.ProgressLimit(atWork, NodeReportingTime),
		LockTimeLeft:  r.upgrade.record.lockTimeLeftOf(node),
		Held:          r.upgrade.holds.State.About(in.Cluster),
		Slot:          r.slots.Held(object.Name),
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(working, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.NodeMaintenanceID(in.Cluster, object.Namespace, object.Name),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       "maintain " + in.Cluster + "/" + node,
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(in.Namespace+"/"+in.Rollout),
			temporal.AttributeCluster.ValueSet(in.Cluster),
			temporal.AttributeNode.ValueSet(node),
			temporal.AttributeRequestor.ValueSet(object.Spec.RequestorID),
			temporal.AttributeBatch.ValueSet(int64(in.Batch)),
		),
	}), temporal.NodeMaintenance, maintenance)
	r.running = append(r.running, node)
	r.upgrade.record.nodeStarted(ctx, node)
	workflow.GoNamed(ctx, "hold "+node, func(ctx workflow.Context) {
		about := func() emergency.State { return r.upgrade.holds.State.About(in.Cluster) }
		r.upgrade.holds.Forward(ctx, about, maintenance.Held, child, func() bool { return !slices.Contains(r.running, node) })
	})
	workflow.GoNamed(ctx, "node "+node, func(ctx workflow.Context) {
		// The child is waited for even when this run is cancelled: it returns its node first.
		var status maintenancev1.NodeMaintenanceStatus
		err := child.Get(ctx, &status)
		sweeper.WakeIfTerminated(ctx, err, in.Cluster)
		r.ended(ctx, node, status, err)
	})
}

// ended takes in how the maintenance of a node ended. A node that was deleted has nothing left to maintain and is no failure.
func (r *nodeRollout) ended(ctx workflow.Context, node string, status maintenancev1.NodeMaintenanceStatus, err error) {
	r.running = kit.Without(r.running, node)
	r.changed = true
	if err != nil {
		status = endOf(ctx, err)
	}
	if r.gaveWay(node, status) {
		return
	}
	r.release(node, status)
	if r.waitsForWindow(node, status) {
		return
	}
	r.upgrade.record.nodeEnded(node, status)
	switch status.State {
	case maintenancev1.NodeCompleted:
	case maintenancev1.NodeGone:
		r.upgrade.record.note("node " + node + " was deleted meanwhile")
	case maintenancev1.NodeCancelled:
		if r.failure == nil && r.upgrade.withdrawn == nil && ctx.Err() == nil {
			r.fail(temporal.Error(temporal.ErrNodeCancelled, "the maintenance of node "+node+" was cancelled", nil))
		}
	default:
		r.fail(temporal.Error(status.Failure.Reason, fmt.Sprintf("node %s: %s", node, status.Failure.Message), nil, status.Failure.Blockers...))
	}
}

// gaveWay takes in that a node waits for a slot again, if that is how its maintenance ended: it has given its own back for those that go first.
func (r *nodeRollout) gaveWay(node string, status maintenancev1.NodeMaintenanceStatus) bool {
	if status.State != maintenancev1.NodePending {
		return false
	}
	r.release(node, status)
	r.upgrade.record.notesOf(node, status)
	r.upgrade.record.nodeWaits(node, status.LockTimeLeft)
	r.pending = append(r.pending, node)
	return true
}

// release returns the slot of a node. A maintenance that has completed, or waits again, has done so itself. How a maintenance that did not begin
// or was terminated left its node is unknown.
func (r *nodeRollout) release(node string, status maintenancev1.NodeMaintenanceStatus) {
	release := scheduling.Release{
		Unclean: status.CompletedAt == nil || status.NotReturned, LeftOut: status.LeftCordoned,
	}
	if release.Unclean {
		r.left = append(r.left, node)
	}
	if status.State == maintenancev1.NodeCompleted || status.State == maintenancev1.NodePending {
		r.slots.Returned(r.nameOf(node))
	} else {
		r.slots.Release(r.nameOf(node), release)
	}
}

func (r *nodeRollout) fail(err error) {
	if r.failure == nil {
		r.failure = err
		r.upgrade.record.failure(err)
	}
}

// progressed takes in what a running node reports. What arrives after its end is stale.
func (r *nodeRollout) progressed(status ranv1.ClusterNodeStatus) {
	if slices.Contains(r.running, status.Name) {
		r.upgrade.record.nodeProgressed(status)
	}
}

// endOf reads the status that a child's error carries. A child that could not even start, or was terminated, carries none.
func endOf(ctx workflow.Context, err error) maintenancev1.NodeMaintenanceStatus {
	var status maintenancev1.NodeMaintenanceStatus
	if kit.DetailsOf(err, &status) && status.State != "" {
		return status
	}
	if sdktemporal.IsCanceledError(err) {
		return maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeCancelled}
	}
	return maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeFailed, Failure: kit.FailureOf(err)}
}
