package workflows

import (
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// nodeRollout maintains nodes of a cluster as its budgets grant them, each in a NodeMaintenance child.
type nodeRollout struct {
	upgrade *clusterUpgrade

	pending []string
	// running children, in the order they were started.
	running []runningNode
	// granted nodes may start now.
	granted []string
	// asking cancels the outstanding question for grants; nil when there is none.
	asking workflow.CancelFunc
	// failure is the first failure of a node: nothing new starts after it.
	failure error
	// changed wakes the loop.
	changed bool
}

type runningNode struct {
	name  string
	child workflow.ChildWorkflowFuture
}

// maintain maintains the nodes and returns when all are over, or, after a failure or a cancellation, when those at work are. It
// returns a continue-as-new error when the run's history is long enough and no node is at work.
func (r *nodeRollout) maintain(ctx workflow.Context, nodes []string) error {
	r.pending = nodes
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	defer stopWaiting()
	for {
		r.changed = false
		r.startGranted(ctx)
		if over, err := r.over(ctx); over {
			return err
		}
		r.ask(ctx)
		if err := workflow.Await(waiting, func() bool { return r.changed || ctx.Err() != nil && len(r.running) == 0 }); err != nil {
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
		r.stopAsking()
		return true, r.failure
	case ctx.Err() != nil:
		r.stopAsking()
		return true, ctx.Err()
	case len(r.pending) == 0:
		return true, nil
	case r.upgrade.mustContinueAsNew(ctx):
		r.stopAsking()
		return true, r.upgrade.continueAsNew(ctx)
	}
	return false, nil
}

// starts reports whether new nodes may be started.
func (r *nodeRollout) starts(ctx workflow.Context) bool {
	return len(r.pending) > 0 && r.failure == nil && ctx.Err() == nil && !r.upgrade.status.Paused && !r.upgrade.mustContinueAsNew(ctx)
}

// ask asks the cluster's budgets which pending nodes may start. Whenever a node ends, the question is asked anew.
func (r *nodeRollout) ask(ctx workflow.Context) {
	if !r.starts(ctx) || len(r.running) >= nodesAtOnce {
		r.stopAsking()
		return
	}
	if r.asking != nil {
		return
	}
	asking, cancel := workflow.WithCancel(ctx)
	r.asking = cancel
	in := activities.AwaitGrantsInput{Cluster: r.upgrade.in.Cluster, Pending: r.pending}
	for _, n := range r.running {
		in.Running = append(in.Running, n.name)
	}
	r.upgrade.awaited = "AwaitGrants"
	options := wait(asking, r.upgrade.in.TaskQueue, "which node of "+r.upgrade.in.Cluster+" is next", nil)
	options = workflow.WithWaitForCancellation(options, false)
	answer := workflow.ExecuteActivity(options, r.upgrade.cluster.AwaitGrants, in)
	workflow.GoNamed(ctx, "grants", func(ctx workflow.Context) {
		var granted []string
		err := answer.Get(ctx, &granted)
		if asking.Err() != nil {
			return
		}
		r.stopAsking()
		r.granted, r.changed = granted, true
		if err != nil && !sdktemporal.IsCanceledError(err) {
			r.failure = err
		}
	})
}

func (r *nodeRollout) stopAsking() {
	if r.asking != nil {
		r.asking()
		r.asking = nil
		r.upgrade.record.reason.replace(nil)
	}
}

// startGranted starts a NodeMaintenance for every node that was granted.
func (r *nodeRollout) startGranted(ctx workflow.Context) {
	granted := r.granted
	r.granted = nil
	for _, node := range granted {
		if !r.starts(ctx) || len(r.running) >= nodesAtOnce {
			return
		}
		r.start(ctx, node)
	}
}

func (r *nodeRollout) start(ctx workflow.Context, node string) {
	r.pending = without(r.pending, node)
	in := r.upgrade.in
	object := rollout.NodeMaintenanceFor(types.NamespacedName{Namespace: in.Namespace, Name: in.Rollout}, in.Remediation, node)
	maintenance := NodeMaintenanceInput{
		Cluster: in.Cluster, TaskQueue: in.TaskQueue, Object: object, Parent: workflow.GetInfo(ctx).WorkflowExecution.ID,
		// The rollout is the requestor, and has nothing to do beyond its action. An action "none" that is written down
		// hands the node to somebody else, who says done.
		DoneWhenReady: in.Remediation.Action == nil,
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
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
	r.running = append(r.running, runningNode{name: node, child: child})
	r.upgrade.record.nodeStarted(ctx, node)
	workflow.GoNamed(ctx, "node "+node, func(ctx workflow.Context) {
		// The child is waited for even when this run is cancelled: it returns its node first.
		var status maintenancev1.NodeMaintenanceStatus
		err := child.Get(ctx, &status)
		r.ended(ctx, node, status, err)
	})
}

// ended takes in how the maintenance of a node ended. A node that was deleted has nothing left to maintain and fails nobody.
func (r *nodeRollout) ended(ctx workflow.Context, node string, status maintenancev1.NodeMaintenanceStatus, err error) {
	r.running = slices.DeleteFunc(r.running, func(n runningNode) bool { return n.name == node })
	r.changed = true
	r.stopAsking()
	if err != nil {
		status = endOf(ctx, err)
	}
	r.upgrade.record.nodeEnded(node, status)
	switch status.State {
	case maintenancev1.NodeCompleted:
	case maintenancev1.NodeGone:
		r.upgrade.record.note("node " + node + " was deleted meanwhile")
	case maintenancev1.NodeCancelled:
		if r.failure == nil && r.upgrade.withdrawn == nil && ctx.Err() == nil {
			r.fail(sdktemporal.NewApplicationError("the maintenance of node "+node+" was cancelled", "NodeCancelled"))
		}
	default:
		r.fail(temporal.Error(status.Failure.Reason, fmt.Sprintf("node %s: %s", node, status.Failure.Message), nil, status.Failure.Blockers...))
	}
}

func (r *nodeRollout) fail(err error) {
	if r.failure == nil {
		r.failure = err
		r.upgrade.record.failure(err)
	}
}

// progressed takes in what a node at work reports. A node whose work has failed is given up: the rollout is its requestor, and
// a person would not know to release it.
func (r *nodeRollout) progressed(ctx workflow.Context, status ranv1.ClusterNodeStatus) {
	for _, n := range r.running {
		if n.name != status.Name {
			continue
		}
		r.upgrade.record.nodeProgressed(status)
		if status.State == maintenancev1.NodeRequestorFailed {
			n.child.SignalChildWorkflow(ctx, temporal.SignalCancel,
				temporal.SignalRequest{Actor: "rollout " + r.upgrade.in.Namespace + "/" + r.upgrade.in.Rollout, Reason: "the work on the node failed"})
		}
	}
}

// endOf reads the status that a child's error carries. A child that could not even start, or was terminated, carries none.
func endOf(ctx workflow.Context, err error) maintenancev1.NodeMaintenanceStatus {
	var status maintenancev1.NodeMaintenanceStatus
	if detailsOf(err, &status) && status.State != "" {
		return status
	}
	if sdktemporal.IsCanceledError(err) {
		return maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeCancelled}
	}
	return maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeFailed, Failure: failureOf(err)}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
