// Package locks holds the activities that request maintenance from the workload locks of a cluster and its nodes, and wait for them.
package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// Activities requests maintenance of clusters and nodes from their workload locks. It writes requests, never locks.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// Reasons why a maintenance waits for workload locks.
const (
	// ReasonWorkloadLocksHeld: locks of applications are still active.
	ReasonWorkloadLocksHeld = "WorkloadLocksHeld"
	// ReasonWorkloadLocksFailed: a lock is in state failed; a person has to act.
	ReasonWorkloadLocksFailed = "WorkloadLocksFailed"
	// ReasonWorkloadLocksNotBack: the maintenance is over, and locks of the node are not active yet.
	ReasonWorkloadLocksNotBack = "WorkloadLocksNotBack"
	// ReasonLockCycle: maintenances waited for each other's locks, and this one waits for the older ones.
	ReasonLockCycle = "LockCycle"
)

// ClusterLockInput names a cluster and the owner of the request.
type ClusterLockInput struct {
	Cluster string      `json:"cluster"`
	Owner   string      `json:"owner"`
	Scope   lcmv1.Scope `json:"scope,omitempty"`
	// Release that is requested. A lock of another release holds. "": none.
	Release  string     `json:"release,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Requested: end the wait if our request is gone, because the locks become inactive only for a request.
	Requested bool `json:"requested,omitempty"`
	// Closes is as in AcquireNodeInput. Only RequestClusterMaintenance reads it.
	Closes *time.Time `json:"closes,omitempty"`
}

// NodeLockInput names a node and the owner of the request.
type NodeLockInput struct {
	activitykit.NodeRef
	Scope lcmv1.Scope `json:"scope,omitempty"`
	// Release is as in ClusterLockInput.
	Release  string     `json:"release,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Requested: end the wait if our request is gone, because the locks become inactive only for a request.
	Requested bool `json:"requested,omitempty"`
}

// RequestClusterMaintenance creates our ClusterMaintenanceRequest. It returns false if the cluster does not serve workload locks. Errors: Held.
func (l *Activities) RequestClusterMaintenance(ctx context.Context, in ClusterLockInput) (bool, error) {
	cluster, served, err := ServingCluster(ctx, l.Clusters, in.Cluster)
	if err != nil || !served {
		return false, err
	}
	if err := l.Waits.MayBegin(ctx, in.Closes); err != nil {
		return false, err
	}
	_, err = requestCluster(ctx, cluster, in.Owner, in.Scope, in.Release)
	return true, err
}

// requestCluster creates the ClusterMaintenanceRequest of an owner, if it does not exist, and returns its UID.
func requestCluster(ctx context.Context, cluster *kube.Cluster, owner string, scope lcmv1.Scope, release string) (types.UID, error) {
	ours := &lcmv1.ClusterMaintenanceRequest{
		ObjectMeta: requestMeta(owner, "drydock"),
		Spec:       lcmv1.ClusterMaintenanceRequestSpec{Scope: scope, Release: release},
	}
	err := request(ctx, cluster, activitykit.OwnerLogger(ctx, cluster.Name, owner), ours)
	return ours.UID, err
}

// AwaitClusterLocks waits until every ClusterWorkloadLock is inactive. Errors: LockTimedOut (with blockers), LockRefused if our request is gone.
func (l *Activities) AwaitClusterLocks(ctx context.Context, in ClusterLockInput) error {
	cluster, _, err := ServingCluster(ctx, l.Clusters, in.Cluster)
	if err != nil {
		return err
	}
	what, watched := "cluster "+in.Cluster, []client.Object{kube.IfServed(&lcmv1.ClusterWorkloadLock{}), kube.IfServed(&lcmv1.ClusterMaintenanceRequest{})}
	var gate locks.Gate
	open, err := l.Waits.AwaitUntil(ctx, in.Deadline, cluster, watched, func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
		var err error
		if gate, err = ClusterGate(ctx, reader, in.Release); err == nil && gate.Open {
			// There is no further check before the first node, and the cache may be behind.
			gate, err = ClusterGate(ctx, cluster.Client, in.Release)
		}
		if err == nil && !gate.Open && in.Requested {
			err = stillRequested(ctx, cluster, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: requestMeta(in.Owner, "drydock")})
		}
		return heldObservation(what, gate), gate.Open && err == nil, err
	})
	if err != nil || open {
		return err
	}
	return lockTimedOut(what, gate)
}

// WithdrawClusterMaintenance deletes our ClusterMaintenanceRequest, if there is one.
func (l *Activities) WithdrawClusterMaintenance(ctx context.Context, in ClusterLockInput) error {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	return WithdrawCluster(ctx, cluster, in.Owner, "")
}

func WithdrawCluster(ctx context.Context, cluster *kube.Cluster, owner string, uid types.UID) error {
	ours := &lcmv1.ClusterMaintenanceRequest{ObjectMeta: requestMeta(owner, "drydock")}
	ours.UID = uid
	return withdraw(ctx, cluster, ours)
}

// NodeLocks is the state of the workload locks of a node.
type NodeLocks struct {
	// Asked: there is a request. There is none if the cluster does not serve workload locks, or if the node has no locks and an annotation forbids
	// requests.
	Asked bool `json:"asked,omitempty"`
	// Skipped: an annotation of the node forbids requests.
	Skipped bool `json:"skipped,omitempty"`
	// Inactive: all locks of the node are inactive, or it has none. Active: all are active, or it has none. If both are false, a wait is needed.
	Inactive bool `json:"inactive,omitempty"`
	Active   bool `json:"active,omitempty"`
	// RequestUID is the UID of the request, if there is one.
	RequestUID types.UID `json:"requestUID,omitempty"`
	// ClusterHeld: a lock of the cluster is active, so there is no request for the node yet.
	ClusterHeld bool `json:"clusterHeld,omitempty"`
	// ClusterRequestUID is the UID of the ClusterMaintenanceRequest, if this maintenance created one.
	ClusterRequestUID types.UID `json:"clusterRequestUID,omitempty"`
}

// NodeRequest is what a maintenance requests for a node.
type NodeRequest struct {
	activitykit.NodeRef
	Scope   lcmv1.Scope
	Release string
	// WithCluster: request maintenance of the cluster first.
	WithCluster bool
	// NoLocks: the node has no lock that must answer, and the cordon checks the locks of the cluster after the request. The cache is enough until then.
	NoLocks bool
}

// RequestCluster makes way for the request for a node: it creates our ClusterMaintenanceRequest if in.WithCluster is set. If the result has ClusterHeld or Skipped,
// RequestNode must not follow: locks of the cluster are active, or the node has no active lock and an annotation that forbids requests. If the node was
// cordoned before, its locks and those of the cluster were inactive then, and locks that became active since then are ignored.
// Errors: LockRefused if the annotation forbids a request that active locks need.
func RequestCluster(ctx context.Context, cluster *kube.Cluster, node *corev1.Node, in NodeRequest, acquired bool) (NodeLocks, error) {
	_, skip := node.Annotations[lcmv1.AnnotationSkipMaintenance]
	if skip && !acquired {
		if err := refuseSkipped(ctx, cluster, in.Node, in.Release); err != nil {
			return NodeLocks{}, err
		}
	}
	uid, held, err := requestClusterFirst(ctx, cluster, in, skip)
	held = held && !acquired
	if err != nil || held {
		return NodeLocks{Asked: true, ClusterHeld: held, ClusterRequestUID: uid}, err
	}
	return NodeLocks{Skipped: skip, Inactive: skip, ClusterRequestUID: uid}, nil
}

// RequestNode creates our NodeMaintenanceRequest after RequestCluster, and returns the state of the locks of the node.
func RequestNode(ctx context.Context, cluster *kube.Cluster, in NodeRequest, clusterRequest types.UID) (NodeLocks, error) {
	ours := &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: requestMeta(in.Owner, "drydock", in.Node),
		Spec:       lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node, Scope: in.Scope, Release: in.Release},
	}
	if err := request(ctx, cluster, in.Logger(ctx), ours); err != nil {
		return NodeLocks{}, err
	}
	found := readNodeLocks(ctx, cluster.Cache, in.Node, in.Release)
	found.RequestUID, found.ClusterRequestUID = ours.UID, clusterRequest
	return found, nil
}

// requestClusterFirst creates our ClusterMaintenanceRequest if in.WithCluster is set, and reports whether a lock of the cluster is active. The API server
// confirms that none is for a node that is skipped, because its cordon does not check, and before locks of the node must answer, unless a rollout has asked
// before its first node.
func requestClusterFirst(ctx context.Context, cluster *kube.Cluster, in NodeRequest, skip bool) (uid types.UID, held bool, err error) {
	if in.WithCluster {
		if uid, err = requestCluster(ctx, cluster, in.Owner, in.Scope, in.Release); err != nil {
			return "", false, err
		}
	}
	gate, err := heldClusterGate(ctx, cluster, in.Release)
	if err == nil && gate.Open && (skip || in.WithCluster && !in.NoLocks) {
		gate, err = ClusterGate(ctx, cluster.Client, in.Release)
	}
	return uid, !gate.Open, activitykit.Explain(cluster, "list workload locks", err)
}

// MayTakePodsAway reports whether locks of the node or of the cluster are active: their applications may remove pods from the node before it is cordoned.
func MayTakePodsAway(ctx context.Context, cluster *kube.Cluster, node, release string) bool {
	if !readNodeLocks(ctx, cluster.Cache, node, release).Inactive {
		return true
	}
	gate, err := heldClusterGate(ctx, cluster, release)
	return err != nil || !gate.Open
}

// readNodeLocks reads the state of the locks of a node for which there is a request. Most nodes have no lock, and the result saves the workflow an activity
// that would wait for nothing.
func readNodeLocks(ctx context.Context, reader client.Reader, node, release string) NodeLocks {
	var found lcmv1.NodeWorkloadLockList
	if err := activitykit.ListIfServed(ctx, reader, &found); err != nil {
		return NodeLocks{Asked: true}
	}
	return NodeLocks{
		Asked: true, Inactive: locks.NodeGate(found.Items, node, release).Open, Active: len(locks.NotActive(found.Items, node)) == 0,
	}
}

// refuseSkipped returns an error if an annotation forbids requests for a node that has active locks: without a request they stay active.
func refuseSkipped(ctx context.Context, cluster *kube.Cluster, node, release string) error {
	gate, err := NodeGate(ctx, cluster.Client, node, release)
	if err != nil || gate.Open {
		return activitykit.Explain(cluster, "list workload locks", err)
	}
	return temporal.Error(temporal.ErrLockRefused, fmt.Sprintf("node %s is held by %s and annotation %s forbids a request: remove the annotation or leave the node out",
		node, controllers(gate.Holders), lcmv1.AnnotationSkipMaintenance), nil, gate.Blockers()...)
}

// WithdrawNodeMaintenance deletes our NodeMaintenanceRequest, if there is one, and returns the state of the locks of the node.
func (l *Activities) WithdrawNodeMaintenance(ctx context.Context, in NodeLockInput) (NodeLocks, error) {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return NodeLocks{}, err
	}
	return WithdrawNode(ctx, cluster, in.NodeRef, "")
}

func WithdrawNode(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, uid types.UID) (NodeLocks, error) {
	ours := &lcmv1.NodeMaintenanceRequest{ObjectMeta: requestMeta(ref.Owner, "drydock", ref.Node)}
	ours.UID = uid
	err := withdraw(ctx, cluster, ours)
	if err != nil {
		return NodeLocks{}, err
	}
	return LocksBack(ctx, cluster, ref.Node), nil
}

// LocksBack returns the state of the locks of a node after its maintenance. The API server confirms that they are active: the cache may not yet have that they
// became inactive.
func LocksBack(ctx context.Context, cluster *kube.Cluster, node string) NodeLocks {
	found := readNodeLocks(ctx, cluster.Cache, node, "")
	if found.Active && !HasNoLocks(ctx, cluster, node) {
		return readNodeLocks(ctx, cluster.Client, node, "")
	}
	return found
}

// AwaitNodeLocksActive waits until every NodeWorkloadLock of the node is active again, or until the deadline, and returns those that
// are not. It does not wait while there is another request for the node.
func (l *Activities) AwaitNodeLocksActive(ctx context.Context, in NodeLockInput) ([]drydockv1.Blocker, error) {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	watched := []client.Object{kube.IfServed(&lcmv1.NodeWorkloadLock{}), kube.IfServed(&lcmv1.NodeMaintenanceRequest{})}
	var missing []locks.Holder
	_, err = l.Waits.AwaitUntil(ctx, in.Deadline, cluster, watched, func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
		var err error
		if missing, err = notBack(ctx, reader, in); err == nil && len(missing) == 0 && !HasNoLocks(ctx, cluster, in.Node) {
			missing, err = notBack(ctx, cluster.Client, in) // as in LocksBack
		}
		if err != nil {
			return temporal.Observation{}, false, err
		}
		return temporal.Observation{Wait: &drydockv1.Wait{
			Reason:   ReasonWorkloadLocksNotBack,
			Message:  fmt.Sprintf("%s to hold node %s again", controllers(missing), in.Node),
			Blockers: locks.Blockers(missing),
		}}, len(missing) == 0, nil
	})
	return locks.Blockers(missing), err
}

// notBack returns the locks of a node that should be active again and are not; none while there is another request for the node.
func notBack(ctx context.Context, reader client.Reader, in NodeLockInput) ([]locks.Holder, error) {
	wanted, err := requestedByOthers(ctx, reader, in)
	if err != nil || wanted {
		return nil, err
	}
	var found lcmv1.NodeWorkloadLockList
	err = activitykit.ListIfServed(ctx, reader, &found)
	return locks.NotActive(found.Items, in.Node), err
}

// lockTimedOut returns the error with the locks that are active at the deadline.
func lockTimedOut(what string, gate locks.Gate) error {
	return temporal.Error(temporal.ErrLockTimedOut,
		fmt.Sprintf("%s did not release %s in time: %s", controllers(gate.Holders), what, gate.Blockers()[0].Message), nil, gate.Blockers()...)
}

// heldObservation names the active locks. Failed ones come first and are reported immediately, because waiting does not help.
func heldObservation(what string, gate locks.Gate) temporal.Observation {
	if failed := gate.Failed(); len(failed) > 0 {
		return temporal.Observation{Urgent: true, Wait: &drydockv1.Wait{
			Reason:   ReasonWorkloadLocksFailed,
			Message:  fmt.Sprintf("%s: %s; correct it, or delete the lock to do without", what, failed[0].Blocker().Message),
			Blockers: gate.Blockers(),
		}}
	}
	return temporal.Observation{Wait: &drydockv1.Wait{
		Reason:   ReasonWorkloadLocksHeld,
		Message:  fmt.Sprintf("%s to release %s", controllers(gate.Holders), what),
		Blockers: gate.Blockers(),
	}}
}

func controllers(holders []locks.Holder) string {
	var names []string
	for _, holder := range holders {
		if len(names) == 0 || names[len(names)-1] != holder.Controller {
			names = append(names, holder.Controller)
		}
	}
	return strings.Join(names, ", ")
}

func ClusterGate(ctx context.Context, reader client.Reader, release string) (locks.Gate, error) {
	var found lcmv1.ClusterWorkloadLockList
	err := activitykit.ListIfServed(ctx, reader, &found)
	return locks.ClusterGate(found.Items, release), err
}

// heldClusterGate returns the gate of a cluster according to the cache if that is open, or to the API server otherwise.
func heldClusterGate(ctx context.Context, cluster *kube.Cluster, release string) (locks.Gate, error) {
	gate, err := ClusterGate(ctx, cluster.Cache, release)
	if err != nil || gate.Open {
		return gate, err
	}
	return ClusterGate(ctx, cluster.Client, release)
}

func NodeGate(ctx context.Context, reader client.Reader, node, release string) (locks.Gate, error) {
	var found lcmv1.NodeWorkloadLockList
	err := activitykit.ListIfServed(ctx, reader, &found)
	return locks.NodeGate(found.Items, node, release), err
}

// requestedByOthers reports whether there is another request for the node: then its locks stay inactive for that one.
func requestedByOthers(ctx context.Context, reader client.Reader, in NodeLockInput) (bool, error) {
	var found lcmv1.NodeMaintenanceRequestList
	if err := activitykit.ListIfServed(ctx, reader, &found); err != nil {
		return false, err
	}
	for i := range found.Items {
		if r := &found.Items[i]; r.Spec.NodeName == in.Node && !kube.OwnedBy(r, in.Owner) {
			return true, nil
		}
	}
	return false, nil
}

// HasNoLocks reports whether the node has no workload lock at all, according to the cache.
func HasNoLocks(ctx context.Context, cluster *kube.Cluster, node string) bool {
	var found lcmv1.NodeWorkloadLockList
	err := activitykit.ListIfServed(ctx, cluster.Cache, &found)
	return err == nil && !slices.ContainsFunc(found.Items, func(lock lcmv1.NodeWorkloadLock) bool { return lock.Spec.NodeName == node })
}
