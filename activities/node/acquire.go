package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// AcquireNodeInput names the node to take out of service.
type AcquireNodeInput struct {
	activitykit.NodeRef
	// Cordon: false only sets the ownership mark.
	Cordon bool `json:"cordon"`
	// KeepOnFailure is as in CordonInput.
	KeepOnFailure bool `json:"keepOnFailure,omitempty"`
	// TakeOver is as in CordonInput.
	TakeOver bool `json:"takeOver,omitempty"`
	// Scope of the maintenance, for the node's workload locks.
	Scope lcmv1.Scope `json:"scope,omitempty"`
	// Release is as in ClusterLockInput.
	Release string `json:"release,omitempty"`
	// WithCluster: request maintenance of the cluster first. A rollout has done that already for its maintenances.
	WithCluster bool `json:"withCluster,omitempty"`
	// Preflight is checked before the first effect.
	Preflight drain.Preflight `json:"preflight,omitzero"`
	// Job that works on the node; nil: none. It is checked before the first effect, too.
	Job *maintenancev1.JobAction `json:"job,omitempty"`
	// Closes is when the maintenance windows close for work that has not begun; nil: no such time is known.
	Closes *time.Time `json:"closes,omitempty"`
}

// AcquireNodeResult says whether the node is cordoned or waits for locks.
type AcquireNodeResult struct {
	Locks locks.NodeLocks `json:"locks"`
	// Cordon is nil if the node waits for its locks.
	Cordon *CordonResult `json:"cordon,omitempty"`
	// Warning is about a problem to solve before the drain.
	Warning string `json:"warning,omitempty"`
	// LockProgress is as in CordonResult, of a node that waits for its locks.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// AcquireNode checks whether the node can be drained, creates our NodeMaintenanceRequest, and cordons the node if no lock is active. Most nodes have no lock.
// Otherwise it marks the node MaintenancePlanned, and the maintenance waits for the locks. With in.WithCluster it creates our ClusterMaintenanceRequest
// first. While a lock of the cluster is active, the node has no request, and AcquireNode is called again when none is.
// For a node that it has cordoned before, it returns the same, even if a lock is active by now.
// Errors: Held, NodeGone, NodeBusy, LockRefused if locks are active and no maintenance may be requested, PodsNotEvictable (with blockers),
// InvalidSpec (the clusters file of the worker does not allow the Job).
func (n *Activities) AcquireNode(ctx context.Context, in AcquireNodeInput) (_ AcquireNodeResult, err error) {
	defer func() { n.planAgain(ctx, in.NodeRef, err) }()
	if err := n.Waits.MayBegin(ctx, in.Closes); err != nil {
		return AcquireNodeResult{}, err
	}
	cluster, served, err := locks.ServingCluster(ctx, n.Clusters, in.Cluster)
	if err != nil {
		return AcquireNodeResult{}, err
	}
	node, err := free(ctx, cluster, in.NodeRef)
	if err != nil {
		return AcquireNodeResult{}, err
	}
	acquired, err := acquiredBefore(ctx, cluster, in.NodeRef, node)
	if err != nil {
		return AcquireNodeResult{}, err
	}
	if !acquired {
		if err := activitykit.CheckJob(n.Clusters, activitykit.ActionPath(), in.Job); err != nil {
			return AcquireNodeResult{}, err
		}
	}
	if !acquired && served {
		if err := notForeign(ctx, cluster, in.Node); err != nil {
			return AcquireNodeResult{}, err
		}
	}
	look := drain.Check
	if acquired || served && locks.MayTakePodsAway(ctx, cluster, in.Node, in.Release) {
		look = drain.Warn
	}
	result := AcquireNodeResult{Locks: locks.NodeLocks{Inactive: true}}
	if result.Warning, err = look(ctx, cluster, in.NodeRef, in.Preflight); err != nil {
		return AcquireNodeResult{}, err
	}
	check := lockCheck(cluster, in.Node, in.Release)
	// A later attempt does not request beside the check: the request may have failed before.
	beside := served && !acquired && !laterAttempt(ctx) && locks.HasNoLocks(ctx, cluster, in.Node)
	if served {
		if check, err = in.requestLocks(ctx, cluster, node, acquired, beside, check, &result.Locks); err != nil {
			return AcquireNodeResult{}, err
		}
	}
	if acquired || result.Locks.Inactive {
		cordon := CordonInput{NodeRef: in.NodeRef, Cordon: in.Cordon, KeepOnFailure: in.KeepOnFailure, TakeOver: in.TakeOver, Locked: result.Locks.Asked}
		cordoned, err := n.cordon(ctx, cluster, cordon, check)
		switch temporal.ErrorType(err) {
		case temporal.ErrLockRefused: // the cache was behind
			result.Locks.Inactive = false
			if !beside {
				break
			}
			if err := in.withdrawIfClusterHeld(ctx, cluster, &result.Locks); err != nil {
				return AcquireNodeResult{}, err
			}
		default:
			result.Cordon = &cordoned
			return result, err
		}
	}
	defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeScheduled), Message: "the node has its slot; its workload locks are requested"})()
	result.LockProgress, _ = locks.LockProgress(ctx, cluster)
	if node, err = cluster.Node(ctx, in.Node); err != nil {
		return result, activitykit.ExplainNode(cluster, in.Node, "read", err)
	}
	return result, markPlanned(ctx, cluster, in.NodeRef, node)
}

// requestLocks requests maintenance from the workload locks of the cluster and of the node, and sets their state. With beside, the request for the node is made
// by the first call of the returned check, that of the cordon, which then completes the state. The node has no locks: no application has to answer before the
// check.
func (in AcquireNodeInput) requestLocks(
	ctx context.Context, cluster *kube.Cluster, node *corev1.Node, acquired, beside bool, check func(context.Context) error, state *locks.NodeLocks,
) (func(context.Context) error, error) {
	request := locks.NodeRequest{NodeRef: in.NodeRef, Scope: in.Scope, Release: in.Release, WithCluster: in.WithCluster, NoLocks: beside}
	var err error
	*state, err = locks.RequestCluster(ctx, cluster, node, request, acquired)
	clusterRequest := state.ClusterRequestUID
	switch {
	case err != nil, state.Skipped:
		return check, err
	case state.ClusterHeld:
		if laterAttempt(ctx) { // the one before may have requested the node
			_, err = locks.WithdrawNode(ctx, cluster, in.NodeRef, "")
		}
		return check, err
	case !beside:
		*state, err = locks.RequestNode(ctx, cluster, request, clusterRequest)
		return check, err
	}
	state.Asked, state.Inactive = true, true // so the cordon checks
	return firstBeside(func(ctx context.Context) error {
		found, err := locks.RequestNode(ctx, cluster, request, clusterRequest)
		if err == nil {
			found.Inactive = true // if a lock is active, the check fails
			*state = found
		}
		return err
	}, check), nil
}

// withdrawIfClusterHeld withdraws a request for the node that was made beside the check, if the check was refused by a lock of the cluster.
func (in AcquireNodeInput) withdrawIfClusterHeld(ctx context.Context, cluster *kube.Cluster, state *locks.NodeLocks) error {
	gate, err := locks.ClusterGate(ctx, cluster.Client, in.Release)
	if err != nil || gate.Open {
		return activitykit.Explain(cluster, "list workload locks", err)
	}
	if _, err := locks.WithdrawNode(ctx, cluster, in.NodeRef, state.RequestUID); err != nil {
		return err
	}
	*state = locks.NodeLocks{Asked: true, ClusterHeld: true, ClusterRequestUID: state.ClusterRequestUID}
	return nil
}

// laterAttempt reports whether an earlier attempt of the activity may have done a part.
func laterAttempt(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt > 1
}

// acquiredBefore reports whether this maintenance has the node already, because the result of an earlier attempt was lost. A later attempt asks the API
// server: the cache may be older than the earlier attempt.
func acquiredBefore(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, seen *corev1.Node) (bool, error) {
	if kube.OwnedBy(seen, ref.Owner) || !laterAttempt(ctx) {
		return kube.OwnedBy(seen, ref.Owner), nil
	}
	node := &corev1.Node{}
	err := cluster.Client.Get(ctx, client.ObjectKey{Name: ref.Node}, node)
	return kube.OwnedBy(node, ref.Owner), activitykit.ExplainNode(cluster, ref.Node, "read", err)
}

// firstBeside returns a check whose first call runs the request beside it, and returns when both are over. Later calls only check.
func firstBeside(request, check func(context.Context) error) func(context.Context) error {
	requested := false
	return func(ctx context.Context) error {
		if requested {
			return check(ctx)
		}
		var both errgroup.Group
		both.Go(func() error { return check(ctx) })
		err := request(ctx)
		requested = err == nil
		return cmp.Or(err, both.Wait())
	}
}

// free returns the node from the cache if no other maintenance has it. Errors: NodeGone, NodeBusy.
func free(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef) (*corev1.Node, error) {
	node, err := cluster.Node(ctx, ref.Node)
	if err != nil {
		return nil, activitykit.ExplainNode(cluster, ref.Node, "read", err)
	}
	if holder := holder(node, ref.Owner); holder != "" {
		return nil, nodeBusy(node.Name, holder)
	}
	return node, nil
}

// notForeign checks that no other program maintains the cluster or the node. Errors: NodeBusy.
func notForeign(ctx context.Context, cluster *kube.Cluster, node string) error {
	request, err := locks.ForeignRequest(ctx, cluster, node)
	if err != nil || request == nil {
		return err
	}
	return temporal.Error(temporal.ErrNodeBusy, fmt.Sprintf("node %s: %s", node, request.Message), nil, *request)
}

// markPlanned sets the condition MaintenancePlanned, beside those of other maintenances that wait for the node, in place of our MaintenanceInProgress
// without a cordon. Errors: NodeGone.
func markPlanned(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, node *corev1.Node) error {
	uid, seen := node.UID, true
	err := kube.RetryOnConflict(func() error {
		if !seen {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			if node.UID != uid {
				return apierrors.NewNotFound(corev1.Resource("nodes"), node.Name)
			}
		}
		seen = false
		return cluster.SetConditionsOfSeen(ctx, node, ref.Owner, plan(node, ref.Owner)...)
	})
	return activitykit.ExplainNode(cluster, ref.Node, "mark", err)
}

// plan returns the changes of the conditions of a node for which a maintenance waits.
func plan(node *corev1.Node, owner string) (changes []corev1.NodeCondition) {
	if kube.OwnedBy(node, owner) {
		return nil
	}
	if !isPlanned(node, owner) {
		changes = append(changes, kube.NodeCondition(kube.ConditionMaintenancePlanned, corev1.ConditionTrue, "a maintenance of the node waits for its slot"))
	}
	if notCordoned(node, owner) {
		changes = append(changes, kube.NoNodeCondition(kube.ConditionMaintenanceInProgress))
	}
	return changes
}

func isPlanned(node *corev1.Node, owner string) bool {
	condition := kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned)
	return condition != nil && kube.ConditionOwnedBy(*condition, owner)
}
