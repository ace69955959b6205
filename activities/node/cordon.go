package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/marks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// CordonInput names the node to cordon.
type CordonInput struct {
	activitykit.NodeRef
	// Cordon: false only sets the ownership mark.
	Cordon bool `json:"cordon"`
	// KeepOnFailure keeps the node cordoned if the maintenance fails. An annotation of the node records it, in case the workflow is terminated.
	KeepOnFailure bool `json:"keepOnFailure,omitempty"`
	// TakeOver: the original operator cordoned the node for the same request. The node is uncordoned afterwards.
	TakeOver bool `json:"takeOver,omitempty"`
	// Locked: the workload locks of the node are checked again right before the cordon.
	Locked bool `json:"locked,omitempty"`
	// Release is that of the lock requests.
	Release string `json:"release,omitempty"`
	// Preflight is checked again, too.
	Preflight drain.Preflight `json:"preflight,omitzero"`
	// Closes is as in AcquireNodeInput.
	Closes *time.Time `json:"closes,omitempty"`
}

// CordonResult is the result of a cordon.
type CordonResult struct {
	CordonedByUs bool `json:"cordonedByUs"`
	// NodeUID distinguishes the node from a later one of the same name.
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// Note is a message for people, for example that another client had cordoned the node before.
	Note string `json:"note,omitempty"`
	// Warning is about a problem to solve before the drain.
	Warning string `json:"warning,omitempty"`
	// HasLocks: the node has workload locks, which may become active again.
	HasLocks bool `json:"hasLocks,omitempty"`
	// LockProgress of the applications that hold locks in the cluster, if it could be read.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// Cordon sets MaintenanceInProgress; then it sets the ownership mark, saves the former state and cordons the node, in one patch. A second call changes
// nothing and returns the same.
// Errors: Held, NodeGone, NodeBusy, LockRefused, PodsNotEvictable (with blockers).
func (n *Activities) Cordon(ctx context.Context, in CordonInput) (_ CordonResult, err error) {
	defer func() { n.planAgain(ctx, in.NodeRef, err) }()
	if err := n.Waits.MayBegin(ctx, in.Closes); err != nil {
		return CordonResult{}, err
	}
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return CordonResult{}, err
	}
	return n.cordon(ctx, cluster, in, lockCheck(cluster, in.Node, in.Release))
}

// cordon is Cordon with a check of the locks, which runs if in.Locked is set.
func (n *Activities) cordon(ctx context.Context, cluster *kube.Cluster, in CordonInput, check func(context.Context) error) (CordonResult, error) {
	var result CordonResult
	var ours *corev1.Node
	var refused error // by the check
	wasPlanned := false
	err := marks.UpdateSeen(ctx, cluster, in.Node, func(node *corev1.Node) (client.Patch, error) {
		ours, refused = node, nil
		if holder := holder(node, in.Owner); holder != "" {
			return nil, nodeBusy(node.Name, holder)
		}
		var change marks.Marks
		change, result = cordonChange(node, in)
		if kube.OwnedBy(node, in.Owner) {
			return inProgress(ctx, cluster, node, in.Owner, change)
		}
		warning, err := drain.Check(ctx, cluster, in.NodeRef, in.Preflight)
		if err != nil {
			return nil, err
		}
		result.Warning = warning
		wasPlanned = wasPlanned || isPlanned(node, in.Owner)
		var checked errgroup.Group
		if in.Locked {
			checked.Go(func() error { return check(ctx) })
		}
		if in.TakeOver && in.Cordon && node.Spec.Unschedulable {
			if refused = checked.Wait(); refused != nil {
				return nil, refused
			}
			if err := ownCordon(ctx, cluster, node); err != nil {
				return nil, err
			}
		}
		patch, err := inProgress(ctx, cluster, node, in.Owner, change)
		refused = checked.Wait()
		return patch, cmp.Or(refused, err)
	})
	if err != nil {
		if wasPlanned && temporal.Final(err) { // another maintenance was faster, and has replaced our conditions
			if node, reading := cluster.CachedNode(ctx, in.Node); reading == nil {
				_ = markPlanned(ctx, cluster, in.NodeRef, node)
			}
		}
		if refused != nil {
			return CordonResult{}, refused // it is not about the node, even if what it asked for was not found
		}
		return CordonResult{}, activitykit.ExplainNode(cluster, in.Node, "cordon", err)
	}
	in.Logger(ctx).Info("Node cordoned", "cordonedByUs", result.CordonedByUs, "note", result.Note)
	defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeCordon), Message: cordonMessage(in, result)})()
	result.NodeUID = ours.UID
	if in.Locked {
		result.LockProgress, _ = locksactivities.LockProgress(ctx, cluster)
		result.HasLocks = !locksactivities.HasNoLocks(ctx, cluster, in.Node)
	}
	return result, nil
}

// inProgress sets the condition MaintenanceInProgress, and returns the patch that cordons the node. The condition comes first: after the cordon,
// kube-controller-manager adds a taint, and a condition that is based on the node without it would be a conflict.
func inProgress(ctx context.Context, cluster *kube.Cluster, node *corev1.Node, owner string, change marks.Marks) (client.Patch, error) {
	err := cluster.SetConditionsOfSeen(ctx, node, owner, kube.NoNodeCondition(kube.ConditionMaintenancePlanned),
		kube.NodeCondition(kube.ConditionMaintenanceInProgress, corev1.ConditionTrue, "the node is under maintenance"))
	if err != nil {
		return nil, err
	}
	return change.Patch(node)
}

// planTimeout limits planAgain: the error of the attempt must not be lost.
const planTimeout = 3 * time.Second

// planAgain is called at the end of an attempt to cordon a node. If it failed, and the node has our MaintenanceInProgress without a cordon, the maintenance is
// planned again: the condition was set, by this attempt or by an earlier one whose worker stopped, and then the cordon was refused. If that fails, the return of the
// node removes the condition.
func (n *Activities) planAgain(ctx context.Context, ref activitykit.NodeRef, failed error) {
	if failed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	cluster, err := n.Clusters.Cluster(ctx, ref.Cluster)
	if err != nil {
		return
	}
	if node, err := cluster.CachedNode(ctx, ref.Node); err == nil && notCordoned(node, ref.Owner) {
		_ = markPlanned(ctx, cluster, ref, node)
	}
}

// notCordoned reports whether the node has our MaintenanceInProgress, but not our mark.
func notCordoned(node *corev1.Node, owner string) bool {
	condition := kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress)
	return condition != nil && kube.ConditionOwnedBy(*condition, owner) && !kube.OwnedBy(node, owner)
}

// ownCordon makes Drydock a manager of the cordon that it takes over. A patch of an unchanged field would not, and the cordon would count as one that another
// client has repeated. The node is the changed one afterwards.
func ownCordon(ctx context.Context, cluster *kube.Cluster, node *corev1.Node) error {
	owned := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"unschedulable": true}}}
	owned.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	owned.SetName(node.Name)
	owned.SetUID(node.UID)
	owned.SetResourceVersion(node.ResourceVersion)
	if err := cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(owned), client.ForceOwnership); err != nil {
		return err
	}
	node.ResourceVersion = owned.GetResourceVersion()
	return nil
}

func cordonMessage(in CordonInput, result CordonResult) string {
	switch {
	case result.Note != "":
		return "the node is under maintenance; " + result.Note
	case !in.Cordon:
		return "the node is under maintenance and stays schedulable, as cordon: false requires"
	}
	return "the node is cordoned for maintenance"
}

// lockCheck reads the locks of the node and of the cluster from the API server, because the cache may be behind. It also checks that no other program
// maintains them: it may have begun while this maintenance waited.
func lockCheck(cluster *kube.Cluster, node, release string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := notForeign(ctx, cluster, node); err != nil {
			return err
		}
		var ofCluster, gate locks.Gate
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() (err error) {
			ofCluster, err = locksactivities.ClusterGate(ctx, cluster.Client, release)
			return err
		})
		both.Go(func() (err error) {
			gate, err = locksactivities.NodeGate(ctx, cluster.Client, node, release)
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

// cordonChange decides how to cordon a node that no other maintenance has. If the node has our mark, its former state is in the mark, because a
// repeated call finds its own cordon.
func cordonChange(node *corev1.Node, in CordonInput) (marks.Marks, CordonResult) {
	change := marks.Marks{Owner: in.Owner, Label: kube.MaintenanceLabel(in.Owner), Unschedulable: node.Spec.Unschedulable || in.Cordon}
	if !in.Cordon {
		return change, CordonResult{}
	}
	change.KeepOnFailure = in.KeepOnFailure
	marked := kube.OwnedBy(node, in.Owner) && kube.FormerStateOf(node) == kube.FormerSchedulable
	switch {
	case marked || !node.Spec.Unschedulable || in.TakeOver:
		change.Former = kube.FormerSchedulable
		return change, CordonResult{CordonedByUs: true}
	default:
		change.Former = kube.FormerUnschedulable
		return change, CordonResult{Note: fmt.Sprintf("node %s was cordoned by someone else before; it stays so afterwards", node.Name)}
	}
}
