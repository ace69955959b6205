package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/jobs"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/marks"
	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// ReturnNodeInput names the node to return to service, and what else to clean up.
type ReturnNodeInput struct {
	activitykit.NodeRef
	// KeepCordoned leaves the node cordoned for a person to examine. If Ended is nil, the annotation of KeepOnFailure does so too.
	KeepCordoned bool `json:"keepCordoned,omitempty"`
	// FinishedJob did the work on the node. It is removed first.
	FinishedJob *jobs.RunJobInput `json:"finishedJob,omitempty"`
	// Withdraw the NodeMaintenanceRequest last. RequestUID is its UID, if known.
	Withdraw   bool      `json:"withdraw,omitempty"`
	RequestUID types.UID `json:"requestUID,omitempty"`
	// WithdrawCluster: withdraw the ClusterMaintenanceRequest too, if the locks of the node are active again. ClusterRequestUID is its UID, if known.
	WithdrawCluster   bool      `json:"withdrawCluster,omitempty"`
	ClusterRequestUID types.UID `json:"clusterRequestUID,omitempty"`
	// Slot is released as soon as the node is uncordoned. AwaitLocks: only after the workload locks of the node are active again.
	Slot       *scheduling.HeldSlot `json:"slot,omitempty"`
	AwaitLocks bool                 `json:"awaitLocks,omitempty"`
	// Unsubscribe ends the subscription of the maintenance to the emergency stop; nil: it has none of its own.
	Unsubscribe *temporal.Subscription `json:"unsubscribe,omitempty"`
	// Release is the object that requested the maintenance. It is released if it is being deleted and all else is done; nil: the workflow writes its end to it.
	Release *temporal.Object `json:"release,omitempty"`
	// Ended describes the end of the maintenance; nil: unknown, because its workflow was closed.
	Ended *MaintenanceEnd `json:"ended,omitempty"`
}

// ReturnNodeResult is the result of ReturnNode.
type ReturnNodeResult struct {
	// Uncordoned by this call.
	Uncordoned bool   `json:"uncordoned"`
	Note       string `json:"note,omitempty"`
	// LeftCordoned: no pod can be scheduled on the node, as before, and no other maintenance has it.
	LeftCordoned bool `json:"leftCordoned,omitempty"`
	// Locks is the state of the workload locks after the request was withdrawn. NotWithdrawn: it could not be; the node is still in service.
	Locks        locksactivities.NodeLocks `json:"locks"`
	NotWithdrawn bool                      `json:"notWithdrawn,omitempty"`
	// ClusterWithdrawn: the ClusterMaintenanceRequest was withdrawn, too.
	ClusterWithdrawn bool `json:"clusterWithdrawn,omitempty"`
	// SlotReturned: the scheduler has received the return of the slot.
	SlotReturned bool `json:"slotReturned,omitempty"`
	// Unsubscribed: the emergency stop has received the end of the subscription.
	Unsubscribed bool `json:"unsubscribed,omitempty"`
	// Released: the object is gone.
	Released bool `json:"released,omitempty"`
	// LocksHeld are the workload locks that became active again while the node was in maintenance.
	LocksHeld []drydockv1.Blocker `json:"locksHeld,omitempty"`
	// LockProgress of the applications that hold locks in the cluster, if it could be read.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// announceCleanup records an Event for a return that takes more than one attempt. Most are over at once, and have only the Event for the end.
func announceCleanup(ctx context.Context, cluster *kube.Cluster, in ReturnNodeInput) {
	if in.Ended != nil {
		events.Record(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeCleaningUp), Message: "cleaning up what the maintenance did to the node"})
	}
}

// ReturnNode removes the finished Job, uncordons the node if Drydock cordoned it and no setting keeps it cordoned, removes our marks and
// conditions, and withdraws the requests to the workload locks of the node and of the cluster, in this order. It releases the slot as soon as the node is
// uncordoned. A node that is gone, or that another maintenance has, stays as it is. A second call continues where the first one stopped.
func (n *Activities) ReturnNode(ctx context.Context, in ReturnNodeInput) (ReturnNodeResult, error) {
	return ReturnSeen(ctx, n, in, nil)
}

// ReturnSeen is ReturnNode for a node that was just read from the API server, with its managed fields; nil: it was not. It is no activity: a node must not
// come from a task.
func ReturnSeen(ctx context.Context, n *Activities, in ReturnNodeInput, seen *corev1.Node) (ReturnNodeResult, error) {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return ReturnNodeResult{}, err
	}
	if in.FinishedJob != nil {
		jobs := jobs.Activities{Clusters: n.Clusters, Waits: n.Waits}
		if err := jobs.RemoveJob(ctx, *in.FinishedJob); err != nil {
			announceCleanup(ctx, cluster, in)
			return ReturnNodeResult{}, err
		}
	}
	result, ours, err := returnNode(ctx, cluster, in, seen)
	if err != nil {
		announceCleanup(ctx, cluster, in)
		return result, err
	}
	if in.AwaitLocks {
		result.LockProgress, _ = locksactivities.LockProgress(ctx, cluster)
		if ours {
			// An earlier attempt may have returned the node. Then its locks may be active.
			result.LocksHeld = locksactivities.HeldAgain(ctx, cluster, in.Node)
		}
	}
	in.Logger(ctx).Info("Node returned to service", "uncordoned", result.Uncordoned, "leftCordoned", result.LeftCordoned, "note", result.Note)
	defer announceEnd(ctx, cluster, in, result)()
	// Release the slot first, because the next node waits only for it.
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
	if in.Unsubscribe != nil {
		result.Unsubscribed = n.signal(ctx, temporal.EmergencyStopID, temporal.SignalUnsubscribeHolds, *in.Unsubscribe)
	}
	allDone := !result.NotWithdrawn && result.ClusterWithdrawn == in.WithdrawCluster && result.SlotReturned == (in.Slot != nil)
	if in.Release != nil && allDone {
		if result.Released, err = objects.ReleaseLast(ctx, cluster, *in.Release); err != nil {
			in.Logger(ctx).Warn("The object is not released yet", "error", err)
		}
	}
	return result, nil
}

// returnSlot releases the slot immediately. If that fails, the workflow releases it later.
func (n *Activities) returnSlot(ctx context.Context, in ReturnNodeInput, leftOut bool) bool {
	return in.Slot != nil && n.signal(ctx, temporal.MaintenanceSchedulerID(in.Cluster), temporal.SignalSlotReturn, in.Slot.Return(leftOut))
}

// signal reports whether a workflow has received a signal. The worker may have no right to signal workflows.
func (n *Activities) signal(ctx context.Context, workflowID, signal string, payload any) bool {
	return n.Waits.Temporal != nil && n.Waits.Temporal.SignalWorkflow(ctx, workflowID, "", signal, payload) == nil
}

// returnNode also reports whether this maintenance had the node. It does not start with the cached node, which has no managed fields.
func returnNode(ctx context.Context, cluster *kube.Cluster, in ReturnNodeInput, seen *corev1.Node) (result ReturnNodeResult, ours bool, err error) {
	workOut := func(node *corev1.Node) (client.Patch, error) {
		// Remove the conditions before the mark, by which a later attempt finds them.
		if err := cluster.RemoveNodeConditions(ctx, node, in.Owner); err != nil {
			return nil, err
		}
		ours = kube.OwnedBy(node, in.Owner)
		var change marks.Marks
		change, result = returnChange(node, in)
		result.LeftCordoned = change.Unschedulable && change.Owner == ""
		return change.Patch(node)
	}
	if seen != nil {
		err = marks.UpdateFrom(ctx, cluster, seen, workOut)
	} else {
		err = marks.Update(ctx, cluster, in.Node, workOut)
	}
	if apierrors.IsNotFound(err) {
		return ReturnNodeResult{Note: "the node is gone"}, false, nil
	}
	return result, ours, activitykit.Explain(cluster, "return node "+in.Node, err)
}

// returnChange decides which marks to remove and whether to uncordon. Only a node with our mark is changed.
func returnChange(node *corev1.Node, in ReturnNodeInput) (marks.Marks, ReturnNodeResult) {
	if !kube.OwnedBy(node, in.Owner) {
		change := marks.Of(node)
		if change.Label == kube.MaintenanceLabel(in.Owner) {
			change.Label = "" // only our annotation was removed, and a late Job must not find the label
		}
		return change, ReturnNodeResult{Note: notOurs(node)}
	}
	change := marks.Marks{Unschedulable: node.Spec.Unschedulable}
	former := kube.FormerStateOf(node)
	switch {
	case former == "":
		return change, ReturnNodeResult{}
	case !node.Spec.Unschedulable:
		return change, ReturnNodeResult{Note: "someone else had uncordoned the node meanwhile"}
	case former == kube.FormerUnschedulable:
		return change, ReturnNodeResult{Note: "left cordoned: someone else had cordoned it before"}
	case former != kube.FormerSchedulable:
		return change, ReturnNodeResult{Note: fmt.Sprintf("left cordoned: annotation %s says %q, which Drydock does not write", kube.AnnotationFormerState, former)}
	case recordoned(node):
		return change, ReturnNodeResult{Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again"}
	case kube.KeepCordoned(node):
		return change, ReturnNodeResult{Note: fmt.Sprintf("left cordoned: annotation %s asks for it; return it with kubectl uncordon %s",
			kube.AnnotationKeepCordoned, node.Name)}
	case in.KeepCordoned:
		return change, ReturnNodeResult{Note: "left cordoned after the failure, as onFailure requires; return it with kubectl uncordon " + node.Name}
	case in.Ended == nil && kube.KeptOnFailure(node):
		return change, ReturnNodeResult{Note: "left cordoned, as onFailure requires: its workflow was closed and may have failed; " +
			"return it with kubectl uncordon " + node.Name}
	}
	change.Unschedulable = false
	return change, ReturnNodeResult{Uncordoned: true}
}

// recordoned reports whether another writer uncordoned the node and cordoned it again. The managed fields show that: the writer that sets a field after
// its removal is its only manager. A cordon of a cordoned node changes nothing.
func recordoned(node *corev1.Node) bool {
	byOthers := false
	for _, entry := range node.ManagedFields {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, manages := fields.Spec["f:unschedulable"]; !manages {
			continue
		}
		if entry.Manager == kube.FieldManager {
			return false
		}
		byOthers = true
	}
	return byOthers
}

// notOurs returns why a node without our mark stays unchanged; empty: it was never marked.
func notOurs(node *corev1.Node) string {
	if holder := kube.Owner(node); holder != "" {
		workflow, _ := kube.OwnerWorkflow(holder)
		return "the node is left as it is: it is under maintenance by " + workflow
	}
	if kube.FormerStateOf(node) != "" {
		return fmt.Sprintf("the node is left as it is: someone has removed our mark, annotation %s", kube.AnnotationOwner)
	}
	return ""
}
