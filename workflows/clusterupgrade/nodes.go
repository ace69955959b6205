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

// nodeRollout maintains nodes of a cluster. When the scheduler grants a slot, it starts a NodeMaintenance child.
type nodeRollout struct {
	upgrade *clusterUpgrade
	slots   *slots.Client

	pending []string
	// running are the nodes of running children, in the order of their starts.
	running []string
	// unreturned are nodes that their maintenances may have left out of service. The sweeper returns them.
	unreturned []string
	// cancelNode has the cancel function of each running node. windowClosed has the nodes that were cancelled because their window closed.
	cancelNode   map[string]workflow.CancelFunc
	windowClosed map[string]bool
	// failure is the first failure of a node. No further node starts after it.
	failure error
	// changed wakes the loop.
	changed bool
}

func newNodeRollout(ctx workflow.Context, upgrade *clusterUpgrade) *nodeRollout {
	return &nodeRollout{
		upgrade: upgrade, slots: slots.NewClient(ctx, upgrade.in.Cluster, upgrade.in.Namespace, requestorOf(upgrade.in)),
		cancelNode: map[string]workflow.CancelFunc{}, windowClosed: map[string]bool{},
	}
}

// maintain maintains the nodes and returns when all have ended. After a failure or a cancellation it only waits for the running nodes. If the history
// is long and no node is running, it returns a continue-as-new error.
func (r *nodeRollout) maintain(ctx workflow.Context, nodes []string) error {
	r.pending = nodes
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	for {
		r.changed = false
		r.endDeleted(ctx)
		if r.startGranted(ctx) == MaxStartsPerTask { // the next workflow task starts the rest
			if err := workflow.Sleep(waiting, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if done, err := r.finished(ctx); done {
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

// finished reports whether maintain is done, and with which error.
func (r *nodeRollout) finished(ctx workflow.Context) (bool, error) {
	if len(r.running) > 0 {
		return false, nil
	}
	switch {
	case r.failure != nil:
		r.cancelRequests()
		return true, r.failure
	case ctx.Err() != nil:
		r.cancelRequests()
		return true, ctx.Err()
	case len(r.pending) == 0:
		return true, nil
	case r.upgrade.mustContinueAsNew(ctx):
		r.cancelRequests()
		return true, r.upgrade.continueAsNew(ctx)
	}
	return false, nil
}

// mayStart reports whether new nodes may be started.
func (r *nodeRollout) mayStart(ctx workflow.Context) bool {
	return len(r.pending) > 0 && r.failure == nil && ctx.Err() == nil && !r.upgrade.state.Status.Paused && r.hold() == nil &&
		!r.upgrade.mustContinueAsNew(ctx)
}

// hold returns the hold that prevents new nodes at this time. A window may have closed without a notification.
func (r *nodeRollout) hold() *drydockv1.Hold { return r.upgrade.holds.Of(r.upgrade.in.Cluster) }

// requestSlots requests slots for the pending nodes, up to the limit of running nodes. While none may start, it cancels the requests.
func (r *nodeRollout) requestSlots(ctx workflow.Context) {
	if !r.mayStart(ctx) {
		r.cancelRequests()
		return
	}
	limit := maxRunningNodes - len(r.running)
	if len(r.pending) > limit && 2*r.slots.Waiting() > limit {
		return // each message lists all requests, so a few large steps are cheaper than one message per node
	}
	for i, node := range r.pending[:min(len(r.pending), limit)] {
		// All requests are as old as the upgrade of the cluster. The microseconds keep their order.
		r.slots.Request(r.nameOf(node), node, r.upgrade.state.Status.StartedAt.Add(time.Duration(i)*time.Microsecond))
	}
}

// cancelRequests cancels the requests for nodes that are not started, and releases their slots.
func (r *nodeRollout) cancelRequests() {
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

// idle describes the work that a hold or a pause prevents; "": nodes are running, or none is left.
func (r *nodeRollout) idle() string {
	if len(r.running) > 0 || len(r.pending) == 0 {
		return ""
	}
	return "no node is started"
}

// waitForSlots returns why the pending nodes have no slots; nil: no node is left, or none waits.
func (r *nodeRollout) waitForSlots() *drydockv1.Wait {
	switch {
	case len(r.running)+len(r.pending) == 0:
		return nil
	case r.slots.Trouble != nil:
		return r.slots.Trouble
	}
	return r.slots.Wait
}

// endDeleted records the end of pending nodes that were deleted before they had a slot.
func (r *nodeRollout) endDeleted(ctx workflow.Context) {
	for _, slot := range r.slots.PopNodesGone() {
		if !slices.Contains(r.pending, slot.Node) {
			continue
		}
		r.pending = kit.Without(r.pending, slot.Node)
		r.ended(ctx, slot.Node, maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeGone, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}, nil)
	}
}

// startGranted starts a NodeMaintenance for pending nodes with a slot, up to the limit of one task. It returns the number of started nodes.
func (r *nodeRollout) startGranted(ctx workflow.Context) int {
	if !r.mayStart(ctx) {
		return 0
	}
	var granted []string
	for _, slot := range r.slots.State.Slots {
		if slot.Granted && len(granted) < MaxStartsPerTask && slices.Contains(r.pending, slot.Node) {
			granted = append(granted, slot.Node)
		}
	}
	running := len(r.running) + len(granted)
	for _, node := range granted {
		r.start(ctx, node, running)
	}
	return len(granted)
}

// MaxStartsPerTask limits the children that one workflow task starts: all its commands together must stay under 4 MB.
const MaxStartsPerTask = 50

// NodeReportingTime is the time in which the progress reports of all running nodes stay within the budget of signals. Most maintenances are shorter.
const NodeReportingTime = 4 * time.Hour

// start starts the maintenance of a node. running is the number of running nodes, this one included.
func (r *nodeRollout) start(ctx workflow.Context, node string, running int) {
	r.pending = kit.Without(r.pending, node)
	working, cancel := workflow.WithCancel(ctx)
	r.cancelNode[node] = cancel
	delete(r.windowClosed, node) // of an earlier opening
	in, object := r.upgrade.in, r.objectFor(node)
	maintenance := nodemaintenance.Input{
		Cluster: in.Cluster, TaskQueue: in.TaskQueue, Object: object, Parent: workflow.GetInfo(ctx).WorkflowExecution.ID,
		// The rollout is the requestor, and its only work is its action. An explicit action "none" leaves the node to another requestor, which sends
		// done.
		DoneWhenReady: in.Remediation.Action == nil,
		ProgressLimit: kit.ProgressLimit(running, NodeReportingTime),
		LockTimeLeft:  r.upgrade.record.lockTimeLeftOf(node),
		Held:          r.upgrade.holds.State.ForCluster(in.Cluster),
		Slot:          r.slots.Held(object.Name),
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(working, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.NodeMaintenanceID(in.Cluster, object.Namespace, object.Name),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       "maintain " + in.Cluster + "/" + node,
		StaticDetails:       temporal.RolloutNodeDetails(in.Cluster, node, in.Namespace+"/"+in.Rollout),
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
		current := func() emergency.State { return r.upgrade.holds.State.ForCluster(in.Cluster) }
		r.upgrade.holds.Forward(ctx, current, maintenance.Held, child, func() bool { return !slices.Contains(r.running, node) })
	})
	workflow.GoNamed(ctx, "node "+node, func(ctx workflow.Context) {
		// Wait for the child even if this run is cancelled: the child returns its node first.
		var status maintenancev1.NodeMaintenanceStatus
		err := child.Get(ctx, &status)
		sweeper.WakeIfTerminated(ctx, err, in.Cluster)
		r.ended(ctx, node, status, err)
	})
}

// ended records the end of the maintenance of a node. A deleted node is no failure.
func (r *nodeRollout) ended(ctx workflow.Context, node string, status maintenancev1.NodeMaintenanceStatus, err error) {
	r.running = kit.Without(r.running, node)
	r.changed = true
	if err != nil {
		status = endOf(ctx, err)
	}
	if r.requeued(node, status) {
		return
	}
	r.release(node, status)
	if r.requeuedForWindow(node, status) {
		return
	}
	r.upgrade.record.nodeEnded(node, status)
	switch status.State {
	case maintenancev1.NodeCompleted:
	case maintenancev1.NodeGone:
		r.upgrade.record.note("node " + node + " was deleted during the rollout")
	case maintenancev1.NodeCancelled:
		if r.failure == nil && r.upgrade.cancelled == nil && ctx.Err() == nil {
			r.fail(temporal.Error(temporal.ErrNodeCancelled, "the maintenance of node "+node+" was cancelled", nil))
		}
	default:
		r.fail(temporal.Error(status.Failure.Reason, fmt.Sprintf("node %s: %s", node, status.Failure.Message), nil, status.Failure.Blockers...))
	}
}

// requeued handles a maintenance that ended Pending: it released its slot to requests of higher rank. The node waits for a slot again.
func (r *nodeRollout) requeued(node string, status maintenancev1.NodeMaintenanceStatus) bool {
	if status.State != maintenancev1.NodePending {
		return false
	}
	r.release(node, status)
	r.upgrade.record.notesOf(node, status)
	r.upgrade.record.nodeWaits(node, status.LockTimeLeft)
	r.pending = append(r.pending, node)
	return true
}

// release releases the slot of a node. A maintenance that ended Completed or Pending has returned it itself. If a maintenance did not start or was
// terminated, the state of its node is unknown.
func (r *nodeRollout) release(node string, status maintenancev1.NodeMaintenanceStatus) {
	release := scheduling.Release{
		Unclean: status.CompletedAt == nil || status.NotReturned, LeftOut: status.LeftCordoned,
	}
	if release.Unclean {
		r.unreturned = append(r.unreturned, node)
	}
	if status.State == maintenancev1.NodeCompleted || status.State == maintenancev1.NodePending {
		r.slots.MarkReturned(r.nameOf(node))
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

// recordProgress records the report of a running node. A report that arrives after the end is stale.
func (r *nodeRollout) recordProgress(status ranv1.ClusterNodeStatus) {
	if slices.Contains(r.running, status.Name) {
		r.upgrade.record.nodeProgressed(status)
	}
}

// endOf returns the status in the details of a child's error. A child that did not start or was terminated has none.
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
