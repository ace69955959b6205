package locks_test

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

// t0 is when a test starts.
var t0 = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

const controller = "tf"

// world is a cluster in memory: the input of a decision, and the result of applying it.
type world struct {
	t        require.TestingT
	policy   drydockv1.WorkloadLockPolicySpec
	now      time.Time
	snapshot locks.Snapshot
	requests int
}

// newWorld has these nodes, each enabled and with a ready pod, and no locks yet.
func newWorld(t require.TestingT, nodes ...string) *world {
	w := &world{t: t, now: t0, policy: drydockv1.WorkloadLockPolicySpec{
		ControllerName:  controller,
		NodeSelector:    metav1.LabelSelector{MatchLabels: map[string]string{"tf": "enabled"}},
		Namespace:       "tf",
		NodePodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "vrouter"}},
	}}
	for _, name := range nodes {
		w.addNode(name)
		w.addPod(name, true)
	}
	return w
}

func (w *world) addNode(name string) {
	w.snapshot.Nodes = append(w.snapshot.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tf": "enabled"}}})
}

func (w *world) removeNode(name string) {
	w.snapshot.Nodes = slices.DeleteFunc(w.snapshot.Nodes, func(n corev1.Node) bool { return n.Name == name })
	w.removePod(name)
}

func (w *world) node(name string) *corev1.Node {
	i := slices.IndexFunc(w.snapshot.Nodes, func(n corev1.Node) bool { return n.Name == name })
	return &w.snapshot.Nodes[i]
}

func (w *world) addPod(node string, ready bool) {
	w.snapshot.Pods = append(w.snapshot.Pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tf", Name: "vrouter-" + node, Labels: map[string]string{"app": "vrouter"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "agent"}, {Name: "nodemgr"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "agent", Ready: ready}, {Name: "nodemgr", Ready: true},
		}},
	})
}

func (w *world) removePod(node string) {
	w.snapshot.Pods = slices.DeleteFunc(w.snapshot.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
}

// setPod sets the node's pod ready or not ready, and creates it if needed.
func (w *world) setPod(node string, ready bool) {
	w.removePod(node)
	w.addPod(node, ready)
}

func (w *world) uid() types.UID {
	w.requests++
	return types.UID("uid-" + strconv.Itoa(w.requests))
}

// request requests the maintenance of a node, created now by the world's clock.
func (w *world) request(node string) {
	w.snapshot.NodeRequests = append(w.snapshot.NodeRequests, lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: w.uid(), CreationTimestamp: metav1.NewTime(w.now)},
		Spec:       lcmv1.NodeMaintenanceRequestSpec{NodeName: node},
	})
}

func (w *world) withdraw(node string) {
	w.snapshot.NodeRequests = slices.DeleteFunc(w.snapshot.NodeRequests, func(r lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName == node })
}

// requestDeletion announces that a node will be deleted.
func (w *world) requestDeletion(node string) {
	w.snapshot.DeletionRequests = append(w.snapshot.DeletionRequests, lcmv1.NodeDeletionRequest{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: w.uid(), CreationTimestamp: metav1.NewTime(w.now)},
		Spec:       lcmv1.NodeNameSpec{NodeName: node},
	})
}

func (w *world) withdrawDeletion(node string) {
	w.snapshot.DeletionRequests = slices.DeleteFunc(w.snapshot.DeletionRequests, func(r lcmv1.NodeDeletionRequest) bool { return r.Spec.NodeName == node })
}

// disable announces that a node is out of the cluster for a while.
func (w *world) disable(node string) {
	w.snapshot.Disabled = append(w.snapshot.Disabled, lcmv1.NodeDisableNotification{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: w.uid()}, Spec: lcmv1.NodeNameSpec{NodeName: node},
	})
}

func (w *world) enable(node string) {
	w.snapshot.Disabled = slices.DeleteFunc(w.snapshot.Disabled, func(d lcmv1.NodeDisableNotification) bool { return d.Spec.NodeName == node })
}

func (w *world) requestCluster() types.UID {
	uid := w.uid()
	w.snapshot.ClusterRequests = append(w.snapshot.ClusterRequests, lcmv1.ClusterMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid, CreationTimestamp: metav1.NewTime(w.now)},
	})
	return uid
}

func (w *world) withdrawCluster() { w.snapshot.ClusterRequests = nil }

func (w *world) lock(node string) *lcmv1.NodeWorkloadLock {
	for i := range w.snapshot.NodeLocks {
		if lock := &w.snapshot.NodeLocks[i]; lock.Spec.ControllerName == controller && lock.Spec.NodeName == node {
			return lock
		}
	}
	return nil
}

// unlock deletes a node's lock, as a person may.
func (w *world) unlock(node string) {
	w.snapshot.NodeLocks = slices.DeleteFunc(w.snapshot.NodeLocks, func(l lcmv1.NodeWorkloadLock) bool { return l.Spec.NodeName == node })
}

func (w *world) clusterLock() *lcmv1.ClusterWorkloadLock {
	for i := range w.snapshot.ClusterLocks {
		if lock := &w.snapshot.ClusterLocks[i]; lock.Spec.ControllerName == controller {
			return lock
		}
	}
	return nil
}

func (w *world) state(node string) lcmv1.LockState { return w.lock(node).Status.State }

// inactive are the nodes whose lock is inactive, by name.
func (w *world) inactive() []string {
	var nodes []string
	for _, lock := range w.snapshot.NodeLocks {
		if lock.Spec.ControllerName == controller && lock.Status.State == lcmv1.LockInactive {
			nodes = append(nodes, lock.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (w *world) decide() locks.Decision {
	decision, err := locks.Decide(w.policy, w.snapshot, w.now)
	require.NoError(w.t, err)
	return decision
}

// settle decides and applies the decision, as the controller does, and checks that it is stable: only the cluster's progress report may follow.
func (w *world) settle() locks.Decision {
	decision := w.decide()
	w.carryOut(decision, len(decision.Changes()))
	left := w.decide()
	for _, change := range left.Changes() {
		require.Equal(w.t, locks.ClusterLockKind, change.Kind, "deciding again after applying %+v", decision.Changes())
		require.Equal(w.t, w.clusterLock().Status.State, change.To)
		require.Equal(w.t, w.clusterLock().Status.ErrorMessage, change.Message)
	}
	w.carryOut(left, len(left.Changes()))
	require.True(w.t, w.decide().Settled(), "deciding again after applying %+v", left.Changes())
	require.Equal(w.t, decision.Progress, w.decide().Progress)
	return decision
}

// carryOut applies the first changes of a decision: locks that are held again, then the record of permits, then releases. Applying only some
// simulates a controller that crashed.
func (w *world) carryOut(decision locks.Decision, count int) {
	changes := decision.Changes()
	slices.SortStableFunc(changes, func(a, b locks.LockDecision) int { return cmp.Compare(released(a), released(b)) })
	recorded := false
	for _, change := range changes[:count] {
		if change.Releases() && !recorded {
			w.record(decision.Permits)
			recorded = true
		}
		w.make(change)
	}
	if count == len(changes) && decision.RecordPermits {
		w.record(decision.Permits)
	}
}

func released(change locks.LockDecision) int {
	if change.Releases() {
		return 1
	}
	return 0
}

func (w *world) record(permits locks.Permits) {
	lock := w.clusterLock()
	if lock == nil {
		return
	}
	text, err := permits.Annotation(lock.ResourceVersion)
	require.NoError(w.t, err)
	lock.Annotations = map[string]string{locks.AnnotationPermits: text}
}

func (w *world) make(change locks.LockDecision) {
	status := lcmv1.WorkloadLockStatus{State: change.To, ErrorMessage: change.Message, Release: change.Release, InactivationProgress: &change.Progress}
	cluster := change.Kind == locks.ClusterLockKind
	switch {
	case change.Action == locks.Delete && cluster:
		w.snapshot.ClusterLocks = slices.DeleteFunc(w.snapshot.ClusterLocks, func(l lcmv1.ClusterWorkloadLock) bool { return l.Name == change.Name })
	case change.Action == locks.Delete:
		w.snapshot.NodeLocks = slices.DeleteFunc(w.snapshot.NodeLocks, func(l lcmv1.NodeWorkloadLock) bool { return l.Name == change.Name })
	case change.Action == locks.Create && cluster:
		created := clusterLock(controller, change.To)
		created.Name, created.Status = change.Name, status
		w.snapshot.ClusterLocks = append(w.snapshot.ClusterLocks, created)
	case cluster:
		w.clusterLock().Status = status
	default:
		if change.Action == locks.Create {
			w.snapshot.NodeLocks = append(w.snapshot.NodeLocks, nodeLock(change.Name, controller, change.Node, ""))
		}
		lock := w.lock(change.Node)
		lock.Status = status
		if change.UpdatedFor != "" {
			lock.Annotations = map[string]string{lcmv1.AnnotationUpdatedFor: change.UpdatedFor}
		}
	}
}

// of returns the decision about a node's lock.
func of(decision locks.Decision, node string) locks.LockDecision {
	i := slices.IndexFunc(decision.Locks, func(d locks.LockDecision) bool { return d.Node == node })
	if i < 0 {
		return locks.LockDecision{}
	}
	return decision.Locks[i]
}

// ofCluster returns the decision about the cluster's lock.
func ofCluster(decision locks.Decision) locks.LockDecision { return decision.Locks[0] }
