// Package node holds the activities that take a node out of service and return it.
package node

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/jobs"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/marks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Activities takes nodes out of service and returns them.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// ReasonNodeBusy is why a maintenance waits for another one of the same node.
const ReasonNodeBusy = "NodeBusy"

// AwaitNodeFreeInput says which node to wait for.
type AwaitNodeFreeInput struct {
	activitykit.NodeRef
	// Of is the id of the maintenance that must have returned the node; empty: everybody else's.
	Of string `json:"of,omitempty"`
}

// AwaitNodeFree waits until the node exists and is under nobody else's maintenance, or not under that one. Errors: NodeGone.
func (n *Activities) AwaitNodeFree(ctx context.Context, in AwaitNodeFreeInput) error {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	watched := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.Node}}}
	return n.Waits.Await(ctx, cluster, watched, func(ctx context.Context) (temporal.Observation, bool, error) {
		node, err := cluster.Node(ctx, in.Node)
		if err != nil {
			return temporal.Observation{}, false, activitykit.ExplainNode(cluster, in.Node, "read", err)
		}
		holder := holder(node, in.Owner)
		if workflow, _ := kube.OwnerWorkflow(holder); holder != "" && (in.Of == "" || in.Of == workflow) {
			return temporal.Observation{Wait: busy(in.Node, holder)}, false, nil
		}
		return temporal.Observation{}, true, nil
	})
}

// PlanMaintenanceInput says which node waits for its turn.
type PlanMaintenanceInput struct {
	activitykit.NodeRef
	Departure drain.Preflight `json:"departure,omitzero"`
}

// PlanMaintenanceResult says what a person may want to change before it is the node's turn.
type PlanMaintenanceResult struct {
	Warning string `json:"warning,omitempty"`
}

// PlanMaintenance marks the node MaintenancePlanned while its maintenance waits for its turn, whoever has the node now. Errors: NodeGone.
func (n *Activities) PlanMaintenance(ctx context.Context, in PlanMaintenanceInput) (PlanMaintenanceResult, error) {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return PlanMaintenanceResult{}, err
	}
	node, err := cluster.Node(ctx, in.Node)
	if err != nil {
		return PlanMaintenanceResult{}, activitykit.ExplainNode(cluster, in.Node, "read", err)
	}
	if err := markPlanned(ctx, cluster, in.NodeRef, node); err != nil {
		return PlanMaintenanceResult{}, err
	}
	warning, err := drain.Warn(ctx, cluster, in.NodeRef, in.Departure)
	if err != nil {
		return PlanMaintenanceResult{}, err
	}
	events.Record(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodePending), Message: "a maintenance of the node waits for its turn"})
	return PlanMaintenanceResult{Warning: warning}, nil
}

// holder is the ownership mark of somebody else's maintenance of the node, or "".
func holder(node *corev1.Node, owner string) string {
	if found := kube.Owner(node); found != owner {
		return found
	}
	return ""
}

func nodeBusy(node, holder string) error {
	workflow, _ := kube.OwnerWorkflow(holder)
	return temporal.Error(temporal.ErrNodeBusy, fmt.Sprintf("node %s is under maintenance by %s", node, workflow), nil)
}

func busy(node, holder string) *drydockv1.Wait {
	workflow, _ := kube.OwnerWorkflow(holder)
	return &drydockv1.Wait{
		Reason:   ReasonNodeBusy,
		Message:  fmt.Sprintf("node %s is under maintenance by %s; it is next when that has returned the node", node, workflow),
		Blockers: []drydockv1.Blocker{{Kind: "Workflow", Name: workflow, Reason: ReasonNodeBusy, Message: "has the node under maintenance"}},
	}
}

// CordonInput says which node to cordon.
type CordonInput struct {
	activitykit.NodeRef
	// Cordon: false only marks the node as ours.
	Cordon bool `json:"cordon"`
	// KeepOnFailure is what becomes of the node when the maintenance fails. The node remembers it, for the case that the maintenance cannot return it itself.
	KeepOnFailure bool `json:"keepOnFailure,omitempty"`
	// Locked: the node's workload locks are looked at once more, right before.
	Locked bool `json:"locked,omitempty"`
	// Departure is looked at once more, too.
	Departure drain.Preflight `json:"departure,omitzero"`
	// Closes is as in TakeNodeInput.
	Closes *time.Time `json:"closes,omitempty"`
}

// CordonResult says what was found and done.
type CordonResult struct {
	CordonedByUs bool `json:"cordonedByUs"`
	// NodeUID tells the node from a later one of its name.
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// Note is set when there is something a person should know, e.g. that someone else had cordoned the node before.
	Note string `json:"note,omitempty"`
	// Warning is what a person may want to change before the drain.
	Warning string `json:"warning,omitempty"`
	// HasLocks: the node has workload locks, which may hold it again.
	HasLocks bool `json:"hasLocks,omitempty"`
	// LockProgress of the applications that hold locks in the cluster, if that could be seen.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// Cordon marks the node as ours, remembers its former state and cordons it, in one patch; then it sets MaintenanceInProgress. Called again,
// it changes nothing more and returns the same.
// Errors: Held, NodeGone, NodeBusy, LockRefused, PodsNotEvictable (with blockers).
func (n *Activities) Cordon(ctx context.Context, in CordonInput) (CordonResult, error) {
	if err := n.Waits.MayBegin(ctx, in.Closes); err != nil {
		return CordonResult{}, err
	}
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return CordonResult{}, err
	}
	return n.cordon(ctx, cluster, in, lockCheck(cluster, in.Node))
}

// cordon looks at the node's locks by that check, if they were asked.
func (n *Activities) cordon(ctx context.Context, cluster *kube.Cluster, in CordonInput, check func(context.Context) error) (CordonResult, error) {
	var result CordonResult
	var ours *corev1.Node
	err := marks.UpdateSeen(ctx, cluster, in.Node, func(node *corev1.Node) (client.Patch, error) {
		ours = node
		if holder := holder(node, in.Owner); holder != "" {
			return nil, nodeBusy(node.Name, holder)
		}
		var change marks.Marks
		change, result = cordonChange(node, in)
		if kube.OwnedBy(node, in.Owner) {
			return change.Patch(node)
		}
		warning, err := drain.Check(ctx, cluster, in.NodeRef, in.Departure)
		if err != nil {
			return nil, err
		}
		result.Warning = warning
		if in.Locked {
			if err := check(ctx); err != nil {
				return nil, err
			}
		}
		return change.Patch(node)
	})
	if err != nil {
		return CordonResult{}, activitykit.ExplainNode(cluster, in.Node, "cordon", err)
	}
	defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeCordon), Message: cordonMessage(in, result)})()
	result.NodeUID = ours.UID
	if in.Locked {
		result.LockProgress, _ = locksactivities.LockProgress(ctx, cluster)
		result.HasLocks = !locksactivities.HasNoLocks(ctx, cluster, in.Node)
	}
	err = cluster.UpdateNodeConditions(ctx, ours, in.Owner, kube.OwnedNode(in.Owner),
		kube.NoNodeCondition(kube.ConditionMaintenancePlanned),
		kube.NodeCondition(kube.ConditionMaintenanceInProgress, corev1.ConditionTrue, "the node is under maintenance"))
	if err != nil {
		return result, activitykit.ExplainNode(cluster, in.Node, "set the conditions of", err)
	}
	return result, nil
}

func cordonMessage(in CordonInput, result CordonResult) string {
	switch {
	case result.Note != "":
		return "the node is under maintenance; " + result.Note
	case !in.Cordon:
		return "the node is under maintenance and stays schedulable, as cordon: false asks"
	}
	return "the node is cordoned for maintenance"
}

// lockCheck reads the locks of the node and of the cluster from the API server: the cache, by which they were found inactive, may be behind.
func lockCheck(cluster *kube.Cluster, node string) func(context.Context) error {
	return func(ctx context.Context) error {
		var ofCluster, gate locks.Gate
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() (err error) {
			ofCluster, err = locksactivities.ClusterGate(ctx, cluster.Client)
			return err
		})
		both.Go(func() (err error) {
			gate, err = locksactivities.NodeGate(ctx, cluster.Client, node)
			return err
		})
		if err := both.Wait(); err != nil {
			return activitykit.Explain(cluster, "list workload locks", err)
		}
		switch {
		case !ofCluster.Open:
			gate = ofCluster
		case gate.Open:
			return nil
		}
		return temporal.Error(temporal.ErrLockRefused,
			fmt.Sprintf("node %s is not cordoned: %s: %s", node, gate.Blockers()[0], gate.Blockers()[0].Message), nil, gate.Blockers()...)
	}
}

// ReturnNodeInput says which node to return, and what goes with it.
type ReturnNodeInput struct {
	activitykit.NodeRef
	// KeepCordoned leaves the node out of service for a person to look at. Where Ended is nil, what the node remembers (KeepOnFailure) does so, too.
	KeepCordoned bool `json:"keepCordoned,omitempty"`
	// FinishedJob did the work on the node; it is removed before.
	FinishedJob *jobs.RunJobInput `json:"finishedJob,omitempty"`
	// Withdraw the request to the node's workload locks after. RequestUID is its, if known.
	Withdraw   bool      `json:"withdraw,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// WithdrawCluster: withdraw the request to the cluster's workload locks, too, if the node's are active again. ClusterRequestUID is its, if known.
	WithdrawCluster   bool      `json:"withdrawCluster,omitempty"`
	ClusterRequestUID types.UID `json:"clusterRequestUID,omitempty"`
	// Slot of the node, which the scheduler of the cluster is told to be free as soon as the node is returned. AwaitLocks: not before the
	// node's workload locks hold it again.
	Slot       *scheduling.HeldSlot `json:"slot,omitempty"`
	AwaitLocks bool                 `json:"awaitLocks,omitempty"`
	// Ended says how the maintenance has ended; nil: it cannot say so itself any more.
	Ended *MaintenanceEnd `json:"ended,omitempty"`
}

// ReturnNodeResult says what was done.
type ReturnNodeResult struct {
	// Uncordoned by this very call.
	Uncordoned bool   `json:"uncordoned"`
	Note       string `json:"note,omitempty"`
	// LeftCordoned: no pod can be scheduled on the node, as before, and no other maintenance has it.
	LeftCordoned bool `json:"leftCordoned,omitempty"`
	// Locks is how the node's workload locks stand, when the request to them was withdrawn. NotWithdrawn: it could not be. The node is back all the same.
	Locks        locksactivities.NodeLocks `json:"locks"`
	NotWithdrawn bool                      `json:"notWithdrawn,omitempty"`
	// ClusterWithdrawn: the request to the cluster's locks was, too.
	ClusterWithdrawn bool `json:"clusterWithdrawn,omitempty"`
	// SlotReturned: the scheduler was told that the slot is free.
	SlotReturned bool `json:"slotReturned,omitempty"`
	// LocksHeld are the node's workload locks that held it again before it was returned, where they were to let go of it.
	LocksHeld []drydockv1.Blocker `json:"locksHeld,omitempty"`
	// LockProgress of the applications that hold locks in the cluster, likewise.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// ReturnNode removes the Job that has finished on the node, uncordons the node if we cordoned it and nobody wants it kept so, removes our marks and
// conditions, and withdraws the requests to its workload locks and the cluster's, in this order. Its slot is given back as soon as the node is. A node that is
// gone, or not ours, is left as it is. Called again, it goes on.
func (n *Activities) ReturnNode(ctx context.Context, in ReturnNodeInput) (ReturnNodeResult, error) {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return ReturnNodeResult{}, err
	}
	if in.Ended != nil {
		defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeCleaningUp), Message: "what was done to the node is taken back"})()
	}
	if in.FinishedJob != nil {
		jobs := jobs.Activities{Clusters: n.Clusters, Waits: n.Waits}
		if err := jobs.RemoveJob(ctx, *in.FinishedJob); err != nil {
			return ReturnNodeResult{}, err
		}
	}
	result, ours, err := returnNode(ctx, cluster, in)
	if err != nil {
		return result, err
	}
	if in.AwaitLocks {
		result.LockProgress, _ = locksactivities.LockProgress(ctx, cluster)
		if ours {
			// Once an attempt has returned the node whose answer was lost, its locks rightly hold it.
			result.LocksHeld = locksactivities.HeldAgain(ctx, cluster, in.Node)
		}
	}
	defer announceEnd(ctx, cluster, in, result)()
	// The next node waits for this one: what is left to do here need not be over when no lock has let go.
	if !in.AwaitLocks || locksactivities.LocksBack(ctx, cluster, in.Node).Active {
		result.SlotReturned = n.returnSlot(ctx, in, result.LeftCordoned)
	}
	if in.Withdraw {
		result.Locks, err = locksactivities.WithdrawNode(ctx, cluster, in.NodeRef, in.RequestUID)
		result.NotWithdrawn = err != nil
	}
	if in.WithdrawCluster && result.Locks.Active {
		result.ClusterWithdrawn = locksactivities.WithdrawCluster(ctx, cluster, in.Owner, in.ClusterRequestUID) == nil
	}
	if !result.SlotReturned && result.Locks.Active {
		result.SlotReturned = n.returnSlot(ctx, in, result.LeftCordoned)
	}
	return result, nil
}

// returnSlot lets the next node go on at once. When it does not succeed, the workflow gives the slot back a little later.
func (n *Activities) returnSlot(ctx context.Context, in ReturnNodeInput, leftOut bool) bool {
	return in.Slot != nil && n.Waits.Temporal != nil &&
		n.Waits.Temporal.SignalWorkflow(ctx, temporal.MaintenanceSchedulerID(in.Cluster), "", temporal.SignalSlotReturn, in.Slot.Return(leftOut)) == nil
}

// returnNode reports also whether the node was out of service for us until then.
func returnNode(ctx context.Context, cluster *kube.Cluster, in ReturnNodeInput) (result ReturnNodeResult, ours bool, err error) {
	err = marks.Update(ctx, cluster, in.Node, func(node *corev1.Node) (client.Patch, error) {
		// Before the mark: as long as that stands, the conditions are found again.
		if err := cluster.RemoveNodeConditions(ctx, node, in.Owner); err != nil {
			return nil, err
		}
		ours = kube.OwnedBy(node, in.Owner)
		var change marks.Marks
		change, result = returnChange(node, in)
		result.LeftCordoned = change.Unschedulable && change.Owner == ""
		return change.Patch(node)
	})
	if apierrors.IsNotFound(err) {
		return ReturnNodeResult{Note: "the node is gone"}, false, nil
	}
	return result, ours, activitykit.Explain(cluster, "return node "+in.Node, err)
}
