package locks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// ErrInvalid: a policy is invalid, regardless of the cluster; the message names the field.
var ErrInvalid = errors.New("invalid policy")

// Decide returns the desired locks of the policy's application. It is stable: after the decision is applied, deciding again changes nothing
// until the cluster changes, except that the cluster's lock then reports the new progress. Errors: ErrInvalid, and an unreadable record of permits.
func Decide(policy drydockv1.WorkloadLockPolicySpec, snapshot Snapshot, now time.Time) (Decision, error) {
	a, err := view(policy, snapshot, now)
	if err != nil {
		return Decision{}, err
	}
	a.decideCluster()
	for _, n := range a.nodes {
		a.settle(n)
	}
	a.grant()
	return a.decision(), nil
}

// application is a snapshot from the view of one application, and the decision so far.
type application struct {
	policy drydockv1.WorkloadLockPolicySpec
	now    time.Time
	health []CheckResult

	lock     *lcmv1.ClusterWorkloadLock
	requests []request
	nodes    []*node
	// surplus are locks to remove.
	surplus []LockDecision

	before, after Permits
	cluster       LockDecision
	waiting       []string
	recheckAt     *time.Time
}

// node is an enabled node of the application.
type node struct {
	name     string
	lock     *lcmv1.NodeWorkloadLock
	requests []request
	presence presence
	// permit is the recorded permit; nil: none.
	permit *Permit
	// keeps is the permit after the decision.
	keeps *Permit
	// wants: only the limit of inactive nodes may keep it from releasing.
	wants bool
	// disabled: it is gone or no longer enabled, and a NodeDisableNotification keeps its lock.
	disabled bool

	decided LockDecision
}

// deleting reports whether the node will be deleted.
func (n *node) deleting() bool {
	return !n.disabled && slices.ContainsFunc(n.requests, func(r request) bool { return r.deletion })
}

func view(policy drydockv1.WorkloadLockPolicySpec, snapshot Snapshot, now time.Time) (*application, error) {
	a := &application{policy: policy, now: now, health: snapshot.Health, after: Permits{Nodes: map[string]Permit{}}}
	for _, r := range snapshot.ClusterRequests {
		request := requestOf(r.ObjectMeta)
		request.release = r.Spec.Release
		a.requests = append(a.requests, request)
	}
	slices.SortFunc(a.requests, byAge)
	a.viewClusterLock(snapshot)
	if err := a.viewNodes(snapshot); err != nil {
		return nil, err
	}
	if a.lock != nil {
		permits, err := ReadPermits(a.lock)
		if err != nil {
			return nil, err
		}
		a.before = permits
	}
	for _, n := range a.nodes {
		if permit, ok := a.before.Nodes[n.name]; ok {
			n.permit = &permit
		} else if n.lock != nil && n.lock.Status.State == lcmv1.LockInactive {
			// Another client made it inactive for the requests of that time. It counts like any other.
			n.permit = &Permit{Requests: served(n.requests)}
		}
	}
	return a, nil
}

func (a *application) viewClusterLock(snapshot Snapshot) {
	var own []*lcmv1.ClusterWorkloadLock
	for i := range snapshot.ClusterLocks {
		if lock := &snapshot.ClusterLocks[i]; lock.Spec.ControllerName == a.policy.ControllerName {
			own = append(own, lock)
		}
	}
	slices.SortFunc(own, func(x, y *lcmv1.ClusterWorkloadLock) int {
		return byAge(requestOf(x.ObjectMeta), requestOf(y.ObjectMeta))
	})
	for i, lock := range own {
		if i == 0 {
			a.lock = lock
			continue
		}
		a.remove(ClusterLockKind, "", lock.ObjectMeta, lock.Status, Duplicate)
	}
	a.cluster = LockDecision{Kind: ClusterLockKind, Name: clusterLockName(a.policy.ControllerName, snapshot.ClusterLocks)}
	if a.lock != nil {
		a.cluster.Name, a.cluster.From, a.cluster.Message = a.lock.Name, a.lock.Status.State, a.lock.Status.ErrorMessage
	}
}

func (a *application) viewNodes(snapshot Snapshot) error {
	enabled, err := selector("nodeSelector", a.policy.NodeSelector)
	if err != nil {
		return err
	}
	ofApplication, err := selector("nodePodSelector", a.policy.NodePodSelector)
	if err != nil {
		return err
	}
	pods := map[string][]corev1.Pod{}
	for _, pod := range snapshot.Pods {
		if pod.Namespace == a.policy.Namespace && ofApplication.Matches(labels.Set(pod.Labels)) {
			pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
		}
	}
	requests := map[string][]request{}
	for _, r := range snapshot.NodeRequests {
		request := requestOf(r.ObjectMeta)
		request.release = r.Spec.Release
		requests[r.Spec.NodeName] = append(requests[r.Spec.NodeName], request)
	}
	for _, r := range snapshot.DeletionRequests {
		deletion := requestOf(r.ObjectMeta)
		deletion.deletion = true
		requests[r.Spec.NodeName] = append(requests[r.Spec.NodeName], deletion)
	}
	exists, byName := map[string]bool{}, map[string]*node{}
	for _, object := range snapshot.Nodes {
		exists[object.Name] = true
		if !enabled.Matches(labels.Set(object.Labels)) {
			continue
		}
		n := &node{name: object.Name, requests: requests[object.Name], presence: presenceOf(pods[object.Name])}
		slices.SortFunc(n.requests, byAge)
		byName[n.name] = n
		a.nodes = append(a.nodes, n)
	}
	a.viewDisabled(snapshot, requests, byName)
	slices.SortFunc(a.nodes, func(x, y *node) int { return cmp.Compare(x.name, y.name) })
	a.viewNodeLocks(snapshot, exists, byName)
	return nil
}

// viewDisabled adds the nodes that are gone or no longer enabled, and whose locks stay because the nodes are announced to be disabled.
func (a *application) viewDisabled(snapshot Snapshot, requests map[string][]request, byName map[string]*node) {
	for _, lock := range snapshot.NodeLocks {
		name := lock.Spec.NodeName
		announced := slices.ContainsFunc(snapshot.Disabled, func(d lcmv1.NodeDisableNotification) bool { return d.Spec.NodeName == name })
		if lock.Spec.ControllerName != a.policy.ControllerName || byName[name] != nil || !announced {
			continue
		}
		byName[name] = &node{name: name, requests: requests[name], disabled: true}
		slices.SortFunc(byName[name].requests, byAge)
		a.nodes = append(a.nodes, byName[name])
	}
}

// viewNodeLocks assigns each enabled node its lock, the oldest if there are several, and removes all other locks of the application.
func (a *application) viewNodeLocks(snapshot Snapshot, exists map[string]bool, byName map[string]*node) {
	var own []*lcmv1.NodeWorkloadLock
	for i := range snapshot.NodeLocks {
		if lock := &snapshot.NodeLocks[i]; lock.Spec.ControllerName == a.policy.ControllerName {
			own = append(own, lock)
		}
	}
	slices.SortFunc(own, func(x, y *lcmv1.NodeWorkloadLock) int { return byAge(requestOf(x.ObjectMeta), requestOf(y.ObjectMeta)) })
	for _, lock := range own {
		n := byName[lock.Spec.NodeName]
		switch {
		case n == nil && !exists[lock.Spec.NodeName]:
			a.remove(NodeLockKind, lock.Spec.NodeName, lock.ObjectMeta, lock.Status, NodeGone)
		case n == nil:
			a.remove(NodeLockKind, lock.Spec.NodeName, lock.ObjectMeta, lock.Status, NodeNotEnabled)
		case n.lock != nil:
			a.remove(NodeLockKind, lock.Spec.NodeName, lock.ObjectMeta, lock.Status, Duplicate)
		default:
			n.lock = lock
		}
	}
	taken := takenNames(snapshot.NodeLocks)
	for _, n := range a.nodes {
		n.decided = LockDecision{Kind: NodeLockKind, Node: n.name}
		if n.lock == nil {
			n.decided.Name = nodeLockName(a.policy.ControllerName, n.name, taken)
			continue
		}
		n.decided.Name, n.decided.From, n.decided.Message = n.lock.Name, n.lock.Status.State, n.lock.Status.ErrorMessage
	}
}

// remove deletes a lock, unless it is being deleted already and waits for a finalizer.
func (a *application) remove(kind, node string, lock metav1.ObjectMeta, status lcmv1.WorkloadLockStatus, reason Reason) {
	decision := LockDecision{Kind: kind, Name: lock.Name, Node: node, Action: Delete, From: status.State, Reason: reason}
	if lock.DeletionTimestamp != nil {
		decision.Action = Keep
	}
	a.surplus = append(a.surplus, decision)
}

func selector(field string, s metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, fmt.Errorf("%w: spec.%s: %w", ErrInvalid, field, err)
	}
	return selector, nil
}
