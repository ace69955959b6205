package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

const (
	active   = lcmv1.LockActive
	inactive = lcmv1.LockInactive
	failed   = lcmv1.LockFailed
	none     = lcmv1.LockState("")
)

// rule is one rule of the design: a situation, and the decision about one lock.
type rule struct {
	name string
	// setup changes a world of n1, n2 and n3 whose locks are all active.
	setup func(w *world)
	// node whose lock is checked; empty: the cluster's lock.
	node     string
	from, to lcmv1.LockState
	action   locks.Action
	reason   locks.Reason
	message  string
}

func (r rule) run(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	w.settle()
	r.setup(w)
	decision := w.decide()
	got := ofCluster(decision)
	if r.node != "" {
		got = of(decision, r.node)
	}
	require.Equal(t, r.from, got.From)
	require.Equal(t, r.to, got.To)
	require.Equal(t, r.reason, got.Reason)
	require.Equal(t, r.message, got.Message)
	if r.action != "" {
		require.Equal(t, r.action, got.Action)
	}
	w.settle()
}

func TestAnApplicationHasOneLockForTheClusterAndOneForEachEnabledNode(t *testing.T) {
	for _, rule := range []rule{
		{
			name: "a node that becomes enabled gets a lock, and it is active", setup: func(w *world) { w.addNode("n4") },
			node: "n4", from: none, to: active, action: locks.Create, reason: locks.NoRequest,
		},
		{
			name: "a node without the role gets none", setup: func(w *world) { w.addNode("n4"); w.node("n4").Labels = nil },
			node: "n4",
		},
		{
			name: "the lock of a node that lost the role is removed", setup: func(w *world) { w.node("n1").Labels = nil },
			node: "n1", from: active, to: none, action: locks.Delete, reason: locks.NodeNotEnabled,
		},
		{
			name: "the lock of a deleted node is removed", setup: func(w *world) { w.removeNode("n1") },
			node: "n1", from: active, to: none, action: locks.Delete, reason: locks.NodeGone,
		},
		{
			name: "the inactive lock of a deleted node is removed",
			setup: func(w *world) {
				w.request("n1")
				w.settle()
				w.removeNode("n1")
			},
			node: "n1", from: inactive, to: none, action: locks.Delete, reason: locks.NodeGone,
		},
		{
			name: "a lock that a finalizer keeps from being deleted is not deleted again",
			setup: func(w *world) {
				w.lock("n1").DeletionTimestamp = &metav1.Time{Time: t0}
				w.removeNode("n1")
			},
			node: "n1", from: active, to: none, action: locks.Keep, reason: locks.NodeGone,
		},
		{
			name: "the cluster's lock is created again after its deletion", setup: func(w *world) { w.snapshot.ClusterLocks = nil },
			from: none, to: active, action: locks.Create, reason: locks.NoRequest,
		},
		{
			name: "a lock that was created and has no status yet is made active", setup: func(w *world) { w.lock("n1").Status = lcmv1.WorkloadLockStatus{} },
			node: "n1", from: none, to: active, action: locks.Update, reason: locks.NoRequest,
		},
		{
			name: "an unknown state is corrected", setup: func(w *world) { w.lock("n1").Status.State = "paused" },
			node: "n1", from: "paused", to: active, action: locks.Update, reason: locks.NoRequest,
		},
		{
			name: "a lock of the application with another name is used",
			setup: func(w *world) {
				w.lock("n1").Name = "made-by-its-former-operator"
			},
			node: "n1", from: active, to: active, action: locks.Keep, reason: locks.NoRequest,
		},
		{
			name: "the younger of two locks for a node is removed",
			setup: func(w *world) {
				second := nodeLock("second", controller, "n1", inactive)
				second.CreationTimestamp = metav1.NewTime(t0.Add(time.Hour))
				w.lock("n1").Name = "z-older"
				w.snapshot.NodeLocks = slices.Insert(w.snapshot.NodeLocks, 0, second)
			},
			node: "n1", from: active, to: active, action: locks.Keep, reason: locks.NoRequest,
		},
		{
			name: "locks of other applications are not touched",
			setup: func(w *world) {
				w.snapshot.NodeLocks = append(w.snapshot.NodeLocks, nodeLock("ceph-n9", "ceph", "n9", inactive))
			},
			node: "n9",
		},
	} {
		t.Run(rule.name, rule.run)
	}
}

// A client that reads the extra lock would wait for it forever.
func TestASecondLockForTheSameObjectIsRemoved(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.settle()
	ofNode, ofWhole := nodeLock("second", controller, "n1", active), clusterLock(controller, active)
	ofWhole.Name = "second"
	ofNode.CreationTimestamp, ofWhole.CreationTimestamp = metav1.NewTime(t0.Add(time.Hour)), metav1.NewTime(t0.Add(time.Hour))
	w.snapshot.NodeLocks = append(w.snapshot.NodeLocks, ofNode)
	w.snapshot.ClusterLocks = append(w.snapshot.ClusterLocks, ofWhole)
	for _, change := range w.decide().Changes() {
		require.Equal(t, "second", change.Name)
		require.Equal(t, locks.Delete, change.Action)
		require.Equal(t, locks.Duplicate, change.Reason)
	}
	w.settle()
	require.Len(t, w.snapshot.NodeLocks, 2)
	require.Len(t, w.snapshot.ClusterLocks, 1)
}

func TestANewLockNeverTakesTheNameOfAnotherApplicationsLock(t *testing.T) {
	w := newWorld(t, "b-c")
	w.snapshot.NodeLocks = []lcmv1.NodeWorkloadLock{nodeLock("tf-b-c", "tf-b", "c", active)}
	w.snapshot.ClusterLocks = []lcmv1.ClusterWorkloadLock{{ObjectMeta: metav1.ObjectMeta{Name: controller}}}
	decision := w.settle()
	require.Equal(t, "tf-b-c-2", of(decision, "b-c").Name)
	require.NotEqual(t, controller, ofCluster(decision).Name)
}

func TestTheClusterLockIsReleasedWhenTheApplicationIsHealthy(t *testing.T) {
	checks := func(w *world, results ...locks.CheckResult) {
		w.policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "control"}, {Name: "analytics"}}
		w.snapshot.Health = results
	}
	well := []locks.CheckResult{{Check: "control", Healthy: true}, {Check: "analytics", Healthy: true}}
	for _, rule := range []rule{
		{
			name: "without a request it is active", setup: func(w *world) { checks(w, well...) },
			from: active, to: active, action: locks.Keep, reason: locks.NoRequest,
		},
		{
			name: "with a request it is released if every check passes", setup: func(w *world) { checks(w, well...); w.requestCluster() },
			from: active, to: inactive, reason: locks.ClusterHealthy,
		},
		{
			name: "with a request and no checks it is released", setup: func(w *world) { w.requestCluster() },
			from: active, to: inactive, reason: locks.ClusterHealthy,
		},
		{
			name: "while a check fails it stays active, and its message names the check",
			setup: func(w *world) {
				checks(w, locks.CheckResult{Check: "analytics", Message: "1 of 3 available"}, locks.CheckResult{Check: "control", Healthy: true})
				w.requestCluster()
			},
			from: active, to: active, action: locks.Update, reason: locks.ClusterNotHealthy, message: "analytics: 1 of 3 available",
		},
		{
			name: "a check that was not evaluated counts as failed", setup: func(w *world) { checks(w, well[0]); w.requestCluster() },
			from: active, to: active, reason: locks.ClusterNotHealthy, message: "analytics: not evaluated",
		},
		{
			name: "it is decided again when the health changes",
			setup: func(w *world) {
				checks(w)
				w.requestCluster()
				w.settle()
				checks(w, well...)
			},
			from: active, to: inactive, reason: locks.ClusterHealthy,
		},
		{
			name: "once inactive it stays inactive until the request is deleted, healthy or not",
			setup: func(w *world) {
				w.requestCluster()
				w.settle()
				checks(w)
			},
			from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "when the request is deleted it becomes active without a check",
			setup: func(w *world) {
				w.requestCluster()
				w.settle()
				checks(w)
				w.withdrawCluster()
			},
			from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "the second of two requests keeps it inactive",
			setup: func(w *world) {
				w.requestCluster()
				w.requestCluster()
				w.settle()
				checks(w)
				w.snapshot.ClusterRequests = w.snapshot.ClusterRequests[1:]
			},
			from: inactive, to: inactive, reason: locks.RequestStands,
		},
		{
			name: "a request that was created later keeps it inactive too",
			setup: func(w *world) {
				w.requestCluster()
				w.settle()
				w.requestCluster()
				w.settle()
				checks(w)
				w.snapshot.ClusterRequests = w.snapshot.ClusterRequests[1:]
			},
			from: inactive, to: inactive, reason: locks.RequestStands,
		},
		{
			name: "a request that was deleted and created again is a new one: the checks run",
			setup: func(w *world) {
				w.requestCluster()
				w.settle()
				checks(w, well[0])
				w.withdrawCluster()
				w.requestCluster()
			},
			from: inactive, to: active, reason: locks.ClusterNotHealthy, message: "analytics: not evaluated",
		},
		{
			name:  "after a person marked it failed, it is treated as active: the checks run",
			setup: func(w *world) { w.clusterLock().Status.State = failed; w.requestCluster() },
			from:  failed, to: inactive, reason: locks.ClusterHealthy,
		},
		{
			name: "after a person marked it failed, it keeps the message until the checks pass",
			setup: func(w *world) {
				checks(w)
				w.clusterLock().Status.State, w.clusterLock().Status.ErrorMessage = failed, "database migration"
				w.requestCluster()
			},
			from: failed, to: failed, action: locks.Keep, reason: locks.MarkedFailed, message: "database migration",
		},
		{
			name: "marked failed and not requested, it becomes active", setup: func(w *world) { w.clusterLock().Status.State = failed },
			from: failed, to: active, reason: locks.NoRequest,
		},
		{
			name:  "if another client made it inactive, it counts as released for the current requests",
			setup: func(w *world) { checks(w); w.requestCluster(); w.clusterLock().Status.State = inactive },
			from:  inactive, to: inactive, reason: locks.RequestStands,
		},
	} {
		t.Run(rule.name, rule.run)
	}
}
