package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/locks"
)

var names = []string{"n1", "n2", "n3", "n4"}

// applyEvent applies a random event of the cluster, or a part or all of the controller's decision.
func applyEvent(t *rapid.T, w *world) {
	applyOneOf(t, w, "request", "withdraw", "pod", "noPod", "node", "noNode", "role", "cluster", "noCluster", "failed", "unlocked", "late", "crash", "settle",
		"deletion", "noDeletion", "disable", "enable")
}

// applyOneOf is applyEvent with these events only.
func applyOneOf(t *rapid.T, w *world, events ...string) {
	node := rapid.SampledFrom(names).Draw(t, "node")
	switch rapid.SampledFrom(events).Draw(t, "event") {
	case "request":
		w.request(node)
	case "withdraw":
		w.withdraw(node)
	case "deletion":
		w.requestDeletion(node)
	case "noDeletion":
		w.withdrawDeletion(node)
	case "disable":
		w.disable(node)
	case "enable":
		w.enable(node)
	case "pod":
		w.setPod(node, rapid.Bool().Draw(t, "ready"))
	case "noPod":
		w.removePod(node)
	case "node":
		w.removeNode(node)
		w.addNode(node)
		w.addPod(node, true)
	case "noNode":
		w.removeNode(node)
	case "role":
		for i := range w.snapshot.Nodes {
			w.snapshot.Nodes[i].Labels = map[string]string{"tf": rapid.SampledFrom([]string{"enabled", "disabled"}).Draw(t, "role")}
		}
	case "cluster":
		w.requestCluster()
	case "noCluster":
		w.withdrawCluster()
	case "failed":
		if lock := w.lock(node); lock != nil {
			lock.Status.State = failed
		}
	case "unlocked":
		if len(w.snapshot.NodeLocks) > 0 {
			w.snapshot.NodeLocks = w.snapshot.NodeLocks[1:]
		}
	case "late":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
	case "crash":
		decision := w.decide()
		w.carryOut(decision, rapid.IntRange(0, len(decision.Changes())).Draw(t, "changes"))
	case "settle":
		w.settle()
	}
}

func TestNeverMoreThanMaxInactiveNodesAreInactive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		limit := rapid.IntRange(1, 3).Draw(t, "maxInactiveNodes")
		w.policy.MaxInactiveNodes = ptr.To(int32(limit))
		if rapid.Bool().Draw(t, "deadline") {
			w.policy.NodePodDeadlineSeconds = ptr.To[int32](60)
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			applyEvent(t, w)
			require.LessOrEqual(t, len(w.inactive()), limit)
			decided := slices.DeleteFunc(w.decide().Locks, func(d locks.LockDecision) bool { return d.Kind != locks.NodeLockKind || d.To != inactive })
			require.LessOrEqual(t, len(decided), limit)
		}
		w.settle()
		require.LessOrEqual(t, len(w.inactive()), limit)
	})
}

// users are requests whose owners have found every lock inactive and have taken the node out of service.
type users map[types.UID]bool

// readLocks makes the owners of requests read the locks, and checks that a lock in use is not held again. If another client marks a lock failed or
// removes the role from a node, that client decides about the node.
func (u users) readLocks(t *rapid.T, w *world) {
	for _, r := range w.snapshot.NodeRequests {
		lock := w.lock(r.Spec.NodeName)
		inactive := lock != nil && lock.Status.State == inactive
		if u[r.UID] && lock != nil {
			require.NotEqual(t, active, lock.Status.State, "the lock of %s is held again during %s", r.Spec.NodeName, r.UID)
		}
		u[r.UID] = u[r.UID] || inactive
	}
}

func TestARequestThatFindsALockInactiveKeepsItUntilWithdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		w.policy.MaxInactiveNodes = ptr.To(int32(rapid.IntRange(1, 3).Draw(t, "maxInactiveNodes")))
		if rapid.Bool().Draw(t, "deadline") {
			w.policy.NodePodDeadlineSeconds = ptr.To[int32](60)
		}
		u := users{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			applyOneOf(t, w, "request", "withdraw", "pod", "noPod", "cluster", "noCluster", "unlocked", "late", "crash", "settle")
			u.readLocks(t, w)
			out := map[string]bool{}
			for _, r := range w.snapshot.NodeRequests {
				if u[r.UID] {
					out[r.Spec.NodeName] = true
				}
			}
			require.LessOrEqual(t, len(out), int(*w.policy.MaxInactiveNodes), "out of service together: %v", out)
		}
	})
}

func TestEveryLockIsActiveAfterAllRequestsAreGoneAndAllPodsReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		w.policy.NodePodDeadlineSeconds = ptr.To[int32](60)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			applyEvent(t, w)
		}
		w.withdrawCluster()
		for _, name := range names {
			w.withdraw(name)
			w.withdrawDeletion(name)
			w.enable(name)
			w.setPod(name, true)
		}
		w.settle()
		require.Equal(t, active, w.clusterLock().Status.State)
		for _, node := range w.snapshot.Nodes {
			if node.Labels["tf"] == "enabled" {
				require.Equal(t, active, w.state(node.Name))
				require.Empty(t, w.lock(node.Name).Status.ErrorMessage)
			}
		}
	})
}

func TestEveryRequestIsEventuallyServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			applyEvent(t, w)
		}
		for _, name := range names {
			w.withdraw(name)
			w.withdrawDeletion(name)
			w.enable(name)
			w.removeNode(name)
			w.addNode(name)
			w.addPod(name, true)
			w.request(name)
		}
		var served []string
		for range names {
			w.settle()
			inactive := w.inactive()
			require.Len(t, inactive, 1)
			served = append(served, inactive...)
			w.withdraw(inactive[0])
		}
		slices.Sort(served)
		require.Equal(t, names, served)
	})
}

func TestReorderedAndRepeatedEventsGiveTheSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Requests and pod changes, each at its own time. Watch events may arrive in any order.
		ready := rapid.SliceOfN(rapid.Bool(), len(names), len(names)).Draw(t, "ready")
		age := rapid.SliceOfN(rapid.IntRange(0, 2), len(names), len(names)).Draw(t, "age")
		asked := rapid.SliceOfN(rapid.Bool(), len(names), len(names)).Draw(t, "asked")
		events := []func(w *world){func(w *world) {
			w.withdrawCluster()
			w.requestCluster()
			w.snapshot.ClusterRequests[0].Name, w.snapshot.ClusterRequests[0].UID = "maintenance", "maintenance" // the same one again
			w.snapshot.ClusterRequests[0].CreationTimestamp = metav1.NewTime(t0)
		}}
		for i, name := range names {
			events = append(events, func(w *world) { w.setPod(name, ready[i]) })
			if asked[i] {
				events = append(events, func(w *world) {
					w.withdraw(name)
					w.now = t0.Add(time.Duration(age[i]) * time.Second)
					w.request(name)
					w.snapshot.NodeRequests[len(w.snapshot.NodeRequests)-1].UID = types.UID("request for " + name) // the same one again
				})
			}
		}
		end := func(order []func(w *world)) locks.Decision {
			w := newWorld(t, names...)
			w.settle()
			for _, event := range order {
				event(w)
			}
			w.settle()
			return w.decide()
		}
		want := end(events)
		again := append(slices.Clone(events), rapid.SliceOf(rapid.SampledFrom(events)).Draw(t, "repeated")...)
		require.Equal(t, want, end(rapid.Permutation(again).Draw(t, "order")))
	})
}
