package drain

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// app is a pod of an application other than web.
func app(name string) func(*corev1.Pod) { return labelled("app", name) }

func on(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

// unschedulable is a pod that the scheduler found no node for.
func unschedulable(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

// unscheduled is a pod that the scheduler has not handled yet.
func unscheduled(pod *corev1.Pod) { unschedulable(pod); pod.Status.Conditions = nil }

func onlyFor(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

func unreadySince(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ago))
	}
}

// budgetOf guards the pods of an application and needs one more healthy pod.
func budgetOf(app string, expected int32, changes ...func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	budget := webBudget(0, expected-1, expected-1, expected, named(app))
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	for _, change := range changes {
		change(&budget)
	}
	return budget
}

func plainNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{
		Unschedulable: true, Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}},
	}}
}

func tainted(name string) *corev1.Node {
	node := plainNode(name)
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule})
	return node
}

func TestDeadlocksAreFound(t *testing.T) {
	const a, b, c = "node-a", "node-b", "node-c"
	webOnA, webUnschedulable := webPod("web-a", on(a)), webPod("web-x", unschedulable)
	dbOnB, dbUnschedulable := webPod("db-b", app("db"), on(b)), webPod("db-x", app("db"), unschedulable)
	webAndDB := []policyv1.PodDisruptionBudget{budgetOf("web", 2), budgetOf("db", 2)}
	cases := []struct {
		name     string
		draining []*corev1.Node
		away     []*corev1.Node
		pods     []corev1.Pod
		budgets  []policyv1.PodDisruptionBudget
		// want is the deadlock of node-a's budget web; nil: there is none.
		want *deadlock
	}{
		{
			name: "each node's pods wait for a budget whose pods only one of the two nodes could run",
			pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "each node's pods fit only on the other node",
			pods: []corev1.Pod{webOnA, webPod("web-x", unschedulable, onlyFor(b)), dbOnB, webPod("db-x", app("db"), unschedulable, onlyFor(a))}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "both nodes wait for one budget",
			pods: []corev1.Pod{webOnA, webPod("web-b", on(b)), webUnschedulable}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3)},
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/web"}}},
		},
		{
			name: "three nodes wait for each other", draining: []*corev1.Node{plainNode(a), plainNode(b), plainNode(c)},
			pods: []corev1.Pod{
				webOnA, webPod("web-x", unschedulable, onlyFor(b)), dbOnB, webPod("db-x", app("db"), unschedulable, onlyFor(c)),
				webPod("mq-c", app("mq"), on(c)), webPod("mq-x", app("mq"), unschedulable, onlyFor(a)),
			},
			budgets: append(slices.Clone(webAndDB), budgetOf("mq", 2)),
			want:    &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "a drain waits for itself, because no other node can run its pods", draining: []*corev1.Node{plainNode(a)},
			pods: []corev1.Pod{webOnA, webPod("web-x", unschedulable, onlyFor(a))}, budgets: webAndDB[:1],
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a}, waits: map[string][]string{}},
		},
		{
			name: "pods on both nodes do not become ready, and their budgets keep them",
			pods: []corev1.Pod{
				webOnA, webPod("web-b", on(b), unreadySince(time.Hour)), webPod("web-c", on(b), unreadySince(time.Hour)),
				dbOnB, webPod("db-a", app("db"), on(a), unreadySince(time.Hour)), webPod("db-c", app("db"), on(a), unreadySince(time.Hour)),
			},
			budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3, needing(1, 2)), budgetOf("db", 3, needing(1, 2))},
			want:    &deadlock{lacks: []string{"shop/web-b", "shop/web-c"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db", "shop/web"}}},
		},
		{name: "none: the other drain can end", pods: []corev1.Pod{webOnA, webUnschedulable}, budgets: webAndDB[:1], want: nil, draining: []*corev1.Node{plainNode(a), plainNode(b)}},
		{name: "none: the scheduler has not evaluated the pod", pods: []corev1.Pod{webOnA, webPod("web-x", unscheduled), dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: the scheduler has not evaluated the pod of the other budget", pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, webPod("db-x", app("db"), unscheduled)}, budgets: webAndDB},
		{name: "none: a pod is starting elsewhere", pods: []corev1.Pod{webOnA, webPod("web-x", on(c), unreadySince(time.Hour)), dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: a pod of the budget terminates", pods: []corev1.Pod{webOnA, webUnschedulable, webPod("web-y", on(c), terminatingSince(0)), dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: a pod has not been created yet", pods: []corev1.Pod{webOnA, dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: an eviction is in progress", pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: []policyv1.PodDisruptionBudget{
			budgetOf("web", 2, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{"web-y": {Time: now}}
			}), budgetOf("db", 2),
		}},
		{name: "none: the budget's status is outdated", pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: []policyv1.PodDisruptionBudget{
			budgetOf("web", 2, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }), budgetOf("db", 2),
		}},
		{name: "none: no drained node could run the pod", pods: []corev1.Pod{webOnA, webPod("web-x", unschedulable, onlyFor(c)), dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: another node that could run the pod is expected to return", away: []*corev1.Node{plainNode(c)}, pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: webAndDB},
		{
			name: "a node out of service that could not run the pod does not matter", away: []*corev1.Node{tainted(c)},
			pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{name: "none: the taints of the drained nodes repel the pod", draining: []*corev1.Node{tainted(a), tainted(b)}, pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: webAndDB},
		{name: "none: the drained nodes could not run enough pods", pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2, needing(1, 3)), budgetOf("db", 2)}},
		{name: "none: the budget can never be met", pods: []corev1.Pod{webOnA, webUnschedulable, dbOnB, dbUnschedulable}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2, demanding("100%")), budgetOf("db", 2)}},
		{name: "none: pods of DaemonSets do not wait", pods: []corev1.Pod{webOnA, webUnschedulable, webPod("db-b", app("db"), on(b), ownedBy("DaemonSet", "agent")), dbUnschedulable}, budgets: webAndDB},
		{name: "none: finished pods do not wait", pods: []corev1.Pod{webOnA, webUnschedulable, webPod("db-b", app("db"), on(b), finished), dbUnschedulable}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2), budgetOf("db", 1)}},
		{name: "none: a pod has just started", pods: []corev1.Pod{webOnA, webPod("web-b", on(b), unreadySince(time.Second)), webPod("web-c", on(b), unreadySince(time.Hour))}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3, needing(1, 2))}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := waitGraph{draining: tc.draining, away: tc.away, pods: tc.pods, budgets: newBudgets(tc.budgets), now: now}
			if s.draining == nil {
				s.draining = []*corev1.Node{plainNode(a), plainNode(b)}
			}
			found, ok := s.deadlocks(a)["shop/web"]
			if tc.want == nil {
				require.False(t, ok, "%+v", found)
				return
			}
			require.True(t, ok)
			require.Equal(t, *tc.want, found)
			require.True(t, s.isStuck(a), "every deadlock must be searched for")
		})
	}
}

// needing sets how many pods are healthy, and how many have to be.
func needing(healthy, desired int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.CurrentHealthy, b.Status.DesiredHealthy = healthy, desired
	}
}

// In any random situation, each node that a deadlocked budget waits for also waits for a deadlocked budget. The order in which objects are read has
// no effect.
func TestEveryNodeOfADeadlockWaitsForADeadlockedBudget(t *testing.T) {
	nodes := []string{"node-a", "node-b", "node-c"}
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.SampledFrom(nodes)
		var pods []corev1.Pod
		var budgets []policyv1.PodDisruptionBudget
		for i := range rapid.IntRange(1, 4).Draw(t, "apps") {
			name := fmt.Sprintf("app-%d", i)
			count := rapid.IntRange(1, 4).Draw(t, "pods")
			for j := range count {
				place := rapid.SampledFrom([]func(*corev1.Pod){
					on(node.Draw(t, "on")), on("elsewhere"), unschedulable, func(p *corev1.Pod) { unschedulable(p); onlyFor(node.Draw(t, "for"))(p) },
				}).Draw(t, "place")
				pods = append(pods, webPod(fmt.Sprintf("%s-%d", name, j), app(name), place))
			}
			budgets = append(budgets, budgetOf(name, int32(count), needing(rapid.Int32Range(0, 3).Draw(t, "healthy"), rapid.Int32Range(0, 3).Draw(t, "desired"))))
		}
		s := waitGraph{pods: pods, budgets: newBudgets(budgets), now: now}
		for _, name := range nodes {
			s.draining = append(s.draining, plainNode(name))
		}
		shuffled := s
		shuffled.pods = rapid.Permutation(pods).Draw(t, "shuffled")
		for _, name := range nodes {
			found := s.deadlocks(name)
			require.Equal(t, found, shuffled.deadlocks(name))
			for key, deadlock := range found {
				require.NotEmpty(t, deadlock.lacks, key)
				require.NotEmpty(t, deadlock.nodes, key)
				for _, other := range deadlock.nodes {
					require.NotEmpty(t, s.deadlocks(other), "%s waits for %s, which does not wait", key, other)
				}
			}
		}
	})
}

func TestADrainWithoutProgressFindsAndReportsItsDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web-a"), webPod("web-x", unschedulable), webPod("db-b", app("db"), on("worker-8")), webPod("db-x", app("db"), unschedulable)},
			budgetOf("web", 2), budgetOf("db", 2))
		w.snapshot.Node = plainNode(node)
		w.snapshot.Node.UID = "uid-of-node"
		w.others = []corev1.Node{*plainNode("worker-8"), *tainted("worker-9")}
		drain := w.drain()
		drain.Draining = func(n *corev1.Node) bool { return n.Name == node || n.Name == "worker-8" }
		var mu sync.Mutex
		var wait *drydockv1.Wait
		var status maintenancev1.DrainStatus
		drain.Progress = func(s maintenancev1.DrainStatus, w *drydockv1.Wait) {
			mu.Lock()
			defer mu.Unlock()
			status, wait = s, w
		}
		ended, _ := begin(t, drain)
		time.Sleep(patience / 2)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, "DisruptionBudget", wait.Reason, "most waits end by themselves")
		mu.Unlock()

		time.Sleep(2 * patience)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, "Deadlock", wait.Reason)
		require.Equal(t, "1 pod in a deadlock: PodDisruptionBudget shop/web (0 of 2 may be disrupted; 1 of 2 healthy, needs 1) lacks pod shop/web-x, which no node but worker-7, worker-8 takes; "+
			"these are being drained, and worker-8 waits for PodDisruptionBudget shop/db: cancel one of the maintenances, or add a node", wait.Message)
		require.Equal(t, "Deadlock", status.Blocked[0].Reason)
		require.Equal(t, "Pod shop/web-a", status.Blocked[0].String())
		mu.Unlock()

		w.change(func(s *Snapshot) { s.Pods[1] = webPod("web-x", on("worker-8")) })
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}

func TestAResolvedDeadlockIsNoLongerReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web-a"), webPod("web-x", unschedulable, onlyFor(node))}, budgetOf("web", 2))
		w.snapshot.Node = plainNode(node)
		drain := w.drain()
		drain.Draining = func(n *corev1.Node) bool { return n.Name == node }
		var mu sync.Mutex
		var wait *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, w *drydockv1.Wait) {
			mu.Lock()
			defer mu.Unlock()
			wait = w
		}
		ended, _ := begin(t, drain)
		time.Sleep(2 * patience)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, "Deadlock", wait.Reason)
		require.Contains(t, wait.Message, "which no node but worker-7 takes, which is being drained: cancel the maintenance, or add a node")
		mu.Unlock()

		w.change(func(s *Snapshot) { s.Pods[1] = webPod("web-x", on("worker-8"), unready) })
		time.Sleep(2 * patience)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, "DisruptionBudget", wait.Reason, "a pod that starts elsewhere may become ready")
		mu.Unlock()
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}
