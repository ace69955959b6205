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

// lockChecker replays the changes of a cluster and checks the invariants of its locks.
type lockChecker struct {
	// managed are applications that release one node at a time, and hold it again when their pod is ready.
	managed []string

	clusterRequests map[string]bool
	// maintenances is how many requests the cluster has had so far.
	maintenances int
	clusterLocks map[string]lcmv1.WorkloadLockStatus
	// requests are the requested nodes, by name of the request.
	requests map[string]string
	locks    map[string]nodeLock
	nodes    map[string]bool // which are unschedulable
	pods     map[string]podState

	// steps are the steps of each node, and of all nodes in order.
	steps      map[string][]string
	all        []nodeStep
	violations []string
}

type nodeStep struct{ node, step string }

type nodeLock struct {
	application, node string
	state             lcmv1.LockState
}

type podState struct {
	node, app          string
	ready, terminating bool
}

func newLockChecker(managed []string) *lockChecker {
	return &lockChecker{
		managed: managed, clusterRequests: map[string]bool{}, clusterLocks: map[string]lcmv1.WorkloadLockStatus{}, requests: map[string]string{},
		locks: map[string]nodeLock{}, nodes: map[string]bool{}, pods: map[string]podState{}, steps: map[string][]string{},
	}
}

func (s *lockChecker) apply(t *testing.T, c change) {
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

func (s *lockChecker) step(node, step string) {
	s.steps[node] = append(s.steps[node], step)
	s.all = append(s.all, nodeStep{node, step})
}

func (s *lockChecker) require(ok bool, format string, args ...any) {
	if !ok {
		s.violations = append(s.violations, fmt.Sprintf(format, args...))
	}
}

// node requires that a node is cordoned only after every lock has released it, and uncordoned before its request is withdrawn.
func (s *lockChecker) node(name string, unschedulable bool) {
	before := s.nodes[name]
	s.nodes[name] = unschedulable
	switch {
	case unschedulable && !before:
		s.step(name, stepCordon)
		s.require(s.requested(name), "%s is cordoned without a request", name)
		s.require(len(s.holders(name)) == 0, "%s is cordoned while it is held by %v", name, s.holders(name))
		s.requireClusterReleased(name, "cordoned")
	case before && !unschedulable:
		s.step(name, stepUncordon)
		s.require(s.requested(name), "%s is uncordoned after the request was withdrawn", name)
	}
}

// pod requires that no pod is evicted from a node in service.
func (s *lockChecker) pod(pod *corev1.Pod, gone bool) {
	key := pod.Namespace + "/" + pod.Name
	before := s.pods[key]
	now := podState{node: pod.Spec.NodeName, app: pod.Labels["app"], ready: podReady(pod), terminating: pod.DeletionTimestamp != nil}
	s.pods[key] = now
	if gone {
		delete(s.pods, key)
	}
	owner := metav1.GetControllerOf(pod)
	if owner != nil && owner.Kind == "ReplicaSet" && now.node != "" && (now.terminating || gone) && !before.terminating {
		s.step(now.node, stepEvict)
		s.require(s.nodes[now.node], "%s is evicted from %s, which is in service", key, now.node)
	}
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// clusterRequest requires that the last request for the cluster is withdrawn only when every node is in service and held again.
func (s *lockChecker) clusterRequest(name string, gone bool) {
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
	s.require(len(s.requests) == 0, "the request for the cluster is withdrawn while %v are requested", s.requests)
	for _, lock := range s.locks {
		s.require(lock.state == lcmv1.LockActive, "the request for the cluster is withdrawn while %s has released %s", lock.application, lock.node)
	}
	for node, unschedulable := range s.nodes {
		s.require(!unschedulable, "the request for the cluster is withdrawn while %s is out of service", node)
	}
}

// clusterLock requires that an application releases the cluster only during a request, until its end, and that its reported progress does not fall.
func (s *lockChecker) clusterLock(application string, status lcmv1.WorkloadLockStatus, gone bool) {
	before := s.clusterLocks[application]
	s.clusterLocks[application] = status
	if gone {
		delete(s.clusterLocks, application)
		return
	}
	if !slices.Contains(s.managed, application) {
		return
	}
	requested := len(s.clusterRequests) > 0
	s.require(status.State != lcmv1.LockInactive || before.State == lcmv1.LockInactive || requested, "%s releases the cluster without a request", application)
	s.require(status.State == lcmv1.LockInactive || before.State != lcmv1.LockInactive || !requested, "%s holds the cluster again while it is requested", application)
	if old, now := before.InactivationProgress, status.InactivationProgress; requested && s.maintenances == 1 && old != nil && now != nil {
		s.require(now.Percentage >= old.Percentage, "the progress of %s falls from %d%% to %d%%", application, old.Percentage, now.Percentage)
	}
}

// request requires that a node is requested only after every lock of the cluster is released, and that its request stays while it is out of service.
func (s *lockChecker) request(name, node string, gone bool) {
	_, known := s.requests[name]
	s.requests[name] = node
	switch {
	case gone:
		delete(s.requests, name)
		s.step(node, stepWithdraw)
		s.require(!s.nodes[node], "the request for %s is withdrawn while it is out of service", node)
	case !known:
		s.step(node, stepRequest)
		s.requireClusterReleased(node, "requested")
	}
}

func (s *lockChecker) requireClusterReleased(node, what string) {
	for application, lock := range s.clusterLocks {
		s.require(lock.State == lcmv1.LockInactive, "%s is %s while %s holds the cluster", node, what, application)
	}
}

// lock requires that an application releases one node at a time, on request, and holds it again after the request when its pod is ready.
func (s *lockChecker) lock(name string, now nodeLock, gone bool) {
	before := s.locks[name]
	s.locks[name] = now
	managed := slices.Contains(s.managed, now.application)
	switch {
	case gone:
		delete(s.locks, name)
		s.step(now.node, stepGone+now.application)
	case now.state == lcmv1.LockInactive && before.state != lcmv1.LockInactive:
		s.step(now.node, stepInactive+now.application)
		s.require(s.requested(now.node), "%s releases %s without a request", now.application, now.node)
		s.require(!managed || len(s.released(now.application)) == 1, "%s has released %v", now.application, s.released(now.application))
	case now.state != lcmv1.LockInactive && before.state == lcmv1.LockInactive:
		s.step(now.node, stepActive+now.application)
		s.require(!managed || !s.requested(now.node), "%s holds %s again while it is requested", now.application, now.node)
		s.require(!managed || s.ready(now.application, now.node), "%s holds %s again before its pod is ready: %v", now.application, now.node, s.steps[now.node])
	}
}

// requested reports whether a request for the node exists.
func (s *lockChecker) requested(node string) bool {
	for _, other := range s.requests {
		if other == node {
			return true
		}
	}
	return false
}

// holders are the applications that hold a node.
func (s *lockChecker) holders(node string) (holders []string) {
	for _, lock := range s.locks {
		if lock.node == node && lock.state != lcmv1.LockInactive {
			holders = append(holders, lock.application)
		}
	}
	return holders
}

// released are the nodes that an application has released.
func (s *lockChecker) released(application string) (nodes []string) {
	for _, lock := range s.locks {
		if lock.application == application && lock.state == lcmv1.LockInactive {
			nodes = append(nodes, lock.node)
		}
	}
	return nodes
}

// ready reports whether the pod of an application on a node is ready.
func (s *lockChecker) ready(application, node string) bool {
	for _, pod := range s.pods {
		if pod.app == application && pod.node == node && pod.ready && !pod.terminating {
			return true
		}
	}
	return false
}

// done reports whether all requests are withdrawn and all locks are active, after at least one step.
func (s *lockChecker) done() bool {
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

// requireOrder requires that a node has had these steps in this order.
func (s *lockChecker) requireOrder(t *testing.T, node string, steps ...string) {
	t.Helper()
	at := 0
	for _, step := range steps {
		i := slices.Index(s.steps[node][at:], step)
		require.GreaterOrEqual(t, i, 0, "no %q after %v in the steps of %s", step, s.steps[node][:at], node)
		at += i + 1
	}
}

// indexOf is the position of a step of a node in the steps of all nodes.
func (s *lockChecker) indexOf(node, step string) int {
	return slices.Index(s.all, nodeStep{node, step})
}
