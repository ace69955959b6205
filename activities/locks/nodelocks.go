package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// cyclePersists is how long a lock cycle must persist before a maintenance yields: an application that is about to release another node looks like one
// that waits.
const cyclePersists = 2 * time.Second

// AwaitNodeLocks waits until every NodeWorkloadLock of the node is inactive. It reads the cache, because the cordon checks the API
// server. Errors: LockTimedOut (with blockers), LockCycle if the request for the node has to be withdrawn (with the requests that go first), LockRefused if
// it is gone, NodeGone.
func (l *Activities) AwaitNodeLocks(ctx context.Context, in NodeLockInput) error {
	cluster, _, err := ServingCluster(ctx, l.Clusters, in.Cluster)
	if err != nil {
		return err
	}
	watched := []client.Object{
		kube.IfServed(&lcmv1.NodeWorkloadLock{}), kube.IfServed(&lcmv1.NodeMaintenanceRequest{}), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.Node}},
	}
	w := &nodeLockWait{cluster: cluster, in: in}
	for {
		until := w.until()
		changed, err := l.Waits.AwaitUntil(ctx, until, cluster, watched, w.decide)
		switch {
		case err != nil || w.gate.Open:
			return err
		case changed:
			// Wait again: a cycle has started or ended.
		case w.since != nil && until != in.Deadline:
			return cycleError(in, w.cycle)
		default:
			return lockTimedOut("node "+in.Node, w.gate)
		}
	}
}

// nodeLockWait is one wait for the locks of a node.
type nodeLockWait struct {
	cluster *kube.Cluster
	in      NodeLockInput
	gate    locks.Gate
	// cycle in which the request for the node must yield, and its start; nil: none.
	cycle []lcmv1.NodeMaintenanceRequest
	since *time.Time
}

// until is the end of the wait: the deadline, or the time at which the cycle has persisted for long enough.
func (w *nodeLockWait) until() *time.Time {
	if w.since == nil {
		return w.in.Deadline
	}
	stood := w.since.Add(cyclePersists)
	if w.in.Deadline != nil && w.in.Deadline.Before(stood) {
		return w.in.Deadline
	}
	return &stood
}

// decide is done if all locks are inactive, or if a cycle began or ended.
func (w *nodeLockWait) decide(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
	if _, err := w.cluster.Node(ctx, w.in.Node); err != nil {
		return temporal.Observation{}, false, activitykit.ExplainNode(w.cluster, w.in.Node, "read", err)
	}
	var found lcmv1.NodeWorkloadLockList
	var requests lcmv1.NodeMaintenanceRequestList
	for _, list := range []client.ObjectList{&found, &requests} {
		if err := activitykit.ListIfServed(ctx, reader, list); err != nil {
			return temporal.Observation{}, false, err
		}
	}
	w.gate = locks.NodeGate(found.Items, w.in.Node, w.in.Release)
	if w.in.Requested && !w.gate.Open {
		if err := stillRequested(ctx, w.cluster, &lcmv1.NodeMaintenanceRequest{ObjectMeta: requestMeta(w.in.Owner, "drydock", w.in.Node)}); err != nil {
			return temporal.Observation{}, false, err
		}
	}
	seen := w.since != nil
	w.cycle = locks.Cycle(w.in.Node, found.Items, requests.Items)
	switch isVictim := w.isVictim(); {
	case !isVictim:
		w.since = nil
	case !seen:
		w.since = new(temporal.Now(ctx))
	}
	return heldObservation("node "+w.in.Node, w.gate), w.gate.Open || seen != (w.since != nil), nil
}

// isVictim reports whether our request is the one to withdraw for the cycle to end.
func (w *nodeLockWait) isVictim() bool {
	victim := locks.Victim(w.cycle, func(r *lcmv1.NodeMaintenanceRequest) bool { return kube.Owner(r) != "" })
	return victim != nil && kube.OwnedBy(victim, w.in.Owner)
}

// cycleError returns ErrLockCycle with the requests that go first.
func cycleError(in NodeLockInput, cycle []lcmv1.NodeMaintenanceRequest) error {
	var first []drydockv1.Blocker
	var nodes []string
	for i := range cycle {
		if kube.OwnedBy(&cycle[i], in.Owner) {
			continue
		}
		node := cycle[i].Spec.NodeName
		first = append(first, drydockv1.Blocker{Kind: "NodeMaintenanceRequest", Name: cycle[i].Name, Reason: ReasonLockCycle, Message: "node " + node + " goes first"})
		nodes = append(nodes, node)
	}
	return temporal.Error(temporal.ErrLockCycle, fmt.Sprintf("the maintenances of %s and %s wait for each other's workload locks; this one yields",
		in.Node, strings.Join(slices.Compact(nodes), ", ")), nil, first...)
}

// RequestsServedInput names the NodeMaintenanceRequests that go first.
type RequestsServedInput struct {
	Cluster  string     `json:"cluster"`
	Requests []string   `json:"requests"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// AwaitRequestsServed waits until each of the requests has been served: every lock of its node is inactive, or the request is gone. Errors: LockTimedOut
// (with blockers).
func (l *Activities) AwaitRequestsServed(ctx context.Context, in RequestsServedInput) error {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	watched := []client.Object{kube.IfServed(&lcmv1.NodeWorkloadLock{}), kube.IfServed(&lcmv1.NodeMaintenanceRequest{})}
	var waiting []drydockv1.Blocker
	served, err := l.Waits.AwaitUntil(ctx, in.Deadline, cluster, watched, func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
		var err error
		waiting, err = stillHeld(ctx, reader, in.Requests)
		return temporal.Observation{Wait: &drydockv1.Wait{
			Reason: ReasonLockCycle, Message: "until the workload locks are inactive for the requests that go first: " + namesOf(waiting), Blockers: waiting,
		}}, len(waiting) == 0, err
	})
	if err != nil || served {
		return err
	}
	return temporal.Error(temporal.ErrLockTimedOut, "the workload locks did not become inactive in time for "+namesOf(waiting)+", which go first", nil, waiting...)
}

// stillHeld returns the requests whose nodes still have active locks.
func stillHeld(ctx context.Context, reader client.Reader, names []string) (waiting []drydockv1.Blocker, err error) {
	var found lcmv1.NodeWorkloadLockList
	var requests lcmv1.NodeMaintenanceRequestList
	for _, list := range []client.ObjectList{&found, &requests} {
		if err := activitykit.ListIfServed(ctx, reader, list); err != nil {
			return nil, err
		}
	}
	for i := range requests.Items {
		r := &requests.Items[i]
		gate := locks.NodeGate(found.Items, r.Spec.NodeName, r.Spec.Release)
		if !slices.Contains(names, r.Name) || gate.Open {
			continue
		}
		waiting = append(waiting, drydockv1.Blocker{
			Kind: "NodeMaintenanceRequest", Name: r.Name, Reason: ReasonWorkloadLocksHeld, Message: fmt.Sprintf("%s to release node %s", controllers(gate.Holders), r.Spec.NodeName),
		})
	}
	return waiting, nil
}

func namesOf(blockers []drydockv1.Blocker) string {
	var names []string
	for _, blocker := range blockers {
		names = append(names, blocker.Name)
	}
	return strings.Join(names, ", ")
}
