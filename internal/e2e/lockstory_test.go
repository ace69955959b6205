package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// The steps of a node. Steps of locks have the application as a suffix.
const (
	stepRequest  = "request"
	stepInactive = "inactive "
	stepCordon   = "cordon"
	stepEvict    = "evict"
	stepUncordon = "uncordon"
	stepWithdraw = "withdraw"
	stepActive   = "active "
	stepGone     = "gone "
)

// lockStory is the state of a cluster at each moment, and checks its invariants.
type lockStory struct {
	// single are applications that release one node at a time, and hold it again when their pod is ready.
	single []string

	clusterRequests map[string]bool
	// maintenances of the cluster so far.
	maintenances int
	clusterLocks map[string]lcmv1.WorkloadLockStatus
	// requests are the requested nodes, by the name of the request.
	requests map[string]string
	locks    map[string]nodeLock
	nodes    map[string]bool // which are unschedulable
	pods     map[string]podSeen

	// steps are the steps of each node, and of all nodes in order.
	steps    map[string][]string
	all      []nodeStep
	breaches []string
}

type nodeStep struct{ node, step string }

type nodeLock struct {
	application, node string
	state             lcmv1.LockState
}

type podSeen struct {
	node, app      string
	ready, leaving bool
}

func newLockStory(single []string) *lockStory {
	return &lockStory{
		single: single, clusterRequests: map[string]bool{}, clusterLocks: map[string]lcmv1.WorkloadLockStatus{}, requests: map[string]string{},
		locks: map[string]nodeLock{}, nodes: map[string]bool{}, pods: map[string]podSeen{}, steps: map[string][]string{},
	}
}

func (s *lockStory) tell(t *testing.T, c change) {
	t.Helper()
	name := c.object.GetName()
	switch c.object.GetKind() {
	case "Node":
		s.node(name, into[corev1.Node](t, c).Spec.Unschedulable && !c.gone)
	case "Pod":
		s.pod(into[corev1.Pod](t, c), c.gone)
	case "ClusterMaintenanceRequest":
		s.clusterRequest(name, c.gone)
	case "NodeMaintenanceRequest":
		s.request(name, into[lcmv1.NodeMaintenanceRequest](t, c).Spec.NodeName, c.gone)
	case "ClusterWorkloadLock":
		lock := into[lcmv1.ClusterWorkloadLock](t, c)
		s.clusterLock(lock.Spec.ControllerName, lock.Status, c.gone)
	case "NodeWorkloadLock":
		lock := into[lcmv1.NodeWorkloadLock](t, c)
		s.lock(name, nodeLock{lock.Spec.ControllerName, lock.Spec.NodeName, lock.Status.State}, c.gone)
	}
}

func into[T any](t *testing.T, c change) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(c.object.Object, object))
	return object
}

func (s *lockStory) step(node, step string) {
	s.steps[node] = append(s.steps[node], step)
	s.all = append(s.all, nodeStep{node, step})
}

func (s *lockStory) check(holds bool, format string, args ...any) {
	if !holds {
		s.breaches = append(s.breaches, fmt.Sprintf(format, args...))
	}
}

// node: none is cordoned before every lock has released it, and all are returned before the request is withdrawn.
func (s *lockStory) node(name string, unschedulable bool) {
	was := s.nodes[name]
	s.nodes[name] = unschedulable
	switch {
	case unschedulable && !was:
		s.step(name, stepCordon)
		s.check(s.asked(name), "%s is cordoned and nobody was asked", name)
		s.check(len(s.holders(name)) == 0, "%s is cordoned while it is held by %v", name, s.holders(name))
		s.clusterHasLetGo(name, "cordoned")
	case was && !unschedulable:
		s.step(name, stepUncordon)
		s.check(s.asked(name), "%s is uncordoned after the request was withdrawn", name)
	}
}

// pod: none is evicted from a node that is in service.
func (s *lockStory) pod(pod *corev1.Pod, gone bool) {
	key := pod.Namespace + "/" + pod.Name
	was := s.pods[key]
	seen := podSeen{node: pod.Spec.NodeName, app: pod.Labels["app"], ready: podReady(pod), leaving: pod.DeletionTimestamp != nil}
	s.pods[key] = seen
	if gone {
		delete(s.pods, key)
	}
	owner := metav1.GetControllerOf(pod)
	if owner != nil && owner.Kind == "ReplicaSet" && seen.node != "" && (seen.leaving || gone) && !was.leaving {
		s.step(seen.node, stepEvict)
		s.check(s.nodes[seen.node], "%s is evicted from %s, which is in service", key, seen.node)
	}
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// clusterRequest: it is withdrawn when every node is back, and held again.
func (s *lockStory) clusterRequest(name string, gone bool) {
	if !s.clusterRequests[name] {
		s.maintenances++
	}
	s.clusterRequests[name] = true
	if !gone {
		return
	}
	delete(s.clusterRequests, name)
	if len(s.clusterRequests) > 0 {
		return // another request exists
	}
	s.check(len(s.requests) == 0, "the cluster is given back while %v are asked for", s.requests)
	for _, lock := range s.locks {
		s.check(lock.state == lcmv1.LockActive, "the cluster is given back while %s has released %s", lock.application, lock.node)
	}
	for node, unschedulable := range s.nodes {
		s.check(!unschedulable, "the cluster is given back while %s is out of service", node)
	}
}

// clusterLock: it lets go for a request, holds until that is gone, and what it says of the progress of one maintenance does not fall.
func (s *lockStory) clusterLock(application string, status lcmv1.WorkloadLockStatus, gone bool) {
	was := s.clusterLocks[application]
	s.clusterLocks[application] = status
	if gone {
		delete(s.clusterLocks, application)
		return
	}
	if !slices.Contains(s.single, application) {
		return
	}
	asked := len(s.clusterRequests) > 0
	s.check(status.State != lcmv1.LockInactive || was.State == lcmv1.LockInactive || asked, "%s lets go of the cluster unasked", application)
	s.check(status.State == lcmv1.LockInactive || was.State != lcmv1.LockInactive || !asked, "%s takes the cluster back while that is asked for", application)
	if before, now := was.InactivationProgress, status.InactivationProgress; asked && s.maintenances == 1 && before != nil && now != nil {
		s.check(now.Percentage >= before.Percentage, "the progress of %s falls from %d%% to %d%%", application, before.Percentage, now.Percentage)
	}
}

// request: none is made before every lock of the cluster has let go, and none withdrawn while its node is out of service.
func (s *lockStory) request(name, node string, gone bool) {
	_, known := s.requests[name]
	s.requests[name] = node
	switch {
	case gone:
		delete(s.requests, name)
		s.step(node, stepWithdraw)
		s.check(!s.nodes[node], "the request for %s is withdrawn while it is out of service", node)
	case !known:
		s.step(node, stepRequest)
		s.clusterHasLetGo(node, "asked for")
	}
}

func (s *lockStory) clusterHasLetGo(node, what string) {
	for application, lock := range s.clusterLocks {
		s.check(lock.State == lcmv1.LockInactive, "%s is %s while %s holds the cluster", node, what, application)
	}
}

// lock: it lets go when it is asked to, of one node at a time, and holds again when it is not asked any more and its pod is ready.
func (s *lockStory) lock(name string, now nodeLock, gone bool) {
	was := s.locks[name]
	s.locks[name] = now
	ours := slices.Contains(s.single, now.application)
	switch {
	case gone:
		delete(s.locks, name)
		s.step(now.node, stepGone+now.application)
	case now.state == lcmv1.LockInactive && was.state != lcmv1.LockInactive:
		s.step(now.node, stepInactive+now.application)
		s.check(s.asked(now.node), "%s lets go of %s unasked", now.application, now.node)
		s.check(!ours || len(s.letGo(now.application)) == 1, "%s has released %v", now.application, s.letGo(now.application))
	case now.state != lcmv1.LockInactive && was.state == lcmv1.LockInactive:
		s.step(now.node, stepActive+now.application)
		s.check(!ours || !s.asked(now.node), "%s holds %s again while that is asked for", now.application, now.node)
		s.check(!ours || s.ready(now.application, now.node), "%s holds %s again before its pod is ready: %v", now.application, now.node, s.steps[now.node])
	}
}

// asked reports whether a request for the node stands.
func (s *lockStory) asked(node string) bool {
	for _, other := range s.requests {
		if other == node {
			return true
		}
	}
	return false
}

// holders are the applications that hold a node.
func (s *lockStory) holders(node string) (holders []string) {
	for _, lock := range s.locks {
		if lock.node == node && lock.state != lcmv1.LockInactive {
			holders = append(holders, lock.application)
		}
	}
	return holders
}

// letGo are the nodes that an application has released.
func (s *lockStory) letGo(application string) (nodes []string) {
	for _, lock := range s.locks {
		if lock.application == application && lock.state == lcmv1.LockInactive {
			nodes = append(nodes, lock.node)
		}
	}
	return nodes
}

// ready reports whether the application's pod on a node is.
func (s *lockStory) ready(application, node string) bool {
	for _, pod := range s.pods {
		if pod.app == application && pod.node == node && pod.ready && !pod.leaving {
			return true
		}
	}
	return false
}

// over reports whether something was asked for, and nothing is any more.
func (s *lockStory) over() bool {
	if len(s.all) == 0 || len(s.clusterRequests)+len(s.requests) > 0 {
		return false
	}
	for _, lock := range s.locks {
		if lock.state != lcmv1.LockActive {
			return false
		}
	}
	for _, lock := range s.clusterLocks {
		if lock.State != lcmv1.LockActive {
			return false
		}
	}
	return true
}

// requireOrder: a node has gone through these steps, each after the one before.
func (s *lockStory) requireOrder(t *testing.T, node string, steps ...string) {
	t.Helper()
	at := 0
	for _, step := range steps {
		i := slices.Index(s.steps[node][at:], step)
		require.GreaterOrEqual(t, i, 0, "no %q after %v in the story of %s", step, s.steps[node][:at], node)
		at += i + 1
	}
}

// indexOf is where a step of a node is in the story of all.
func (s *lockStory) indexOf(node, step string) int { return slices.Index(s.all, nodeStep{node, step}) }
