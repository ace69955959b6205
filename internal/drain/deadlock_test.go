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

// homeless is a pod that the scheduler found no node for.
func homeless(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

// unjudged is a pod that the scheduler has not handled yet.
func unjudged(pod *corev1.Pod) { homeless(pod); pod.Status.Conditions = nil }

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
	webOnA, webHomeless := webPod("web-a", on(a)), webPod("web-x", homeless)
	dbOnB, dbHomeless := webPod("db-b", app("db"), on(b)), webPod("db-x", app("db"), homeless)
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
			pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "each only the other would take",
			pods: []corev1.Pod{webOnA, webPod("web-x", homeless, onlyFor(b)), dbOnB, webPod("db-x", app("db"), homeless, onlyFor(a))}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "one budget on both nodes",
			pods: []corev1.Pod{webOnA, webPod("web-b", on(b)), webHomeless}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3)},
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/web"}}},
		},
		{
			name: "over three nodes", draining: []*corev1.Node{plainNode(a), plainNode(b), plainNode(c)},
			pods: []corev1.Pod{
				webOnA, webPod("web-x", homeless, onlyFor(b)), dbOnB, webPod("db-x", app("db"), homeless, onlyFor(c)),
				webPod("mq-c", app("mq"), on(c)), webPod("mq-x", app("mq"), homeless, onlyFor(a)),
			},
			budgets: append(slices.Clone(webAndDB), budgetOf("mq", 2)),
			want:    &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{
			name: "with itself: no other node can run its pods", draining: []*corev1.Node{plainNode(a)},
			pods: []corev1.Pod{webOnA, webPod("web-x", homeless, onlyFor(a))}, budgets: webAndDB[:1],
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a}, waits: map[string][]string{}},
		},
		{
			name: "pods on either node that do not become ready, and may not leave before they are",
			pods: []corev1.Pod{
				webOnA, webPod("web-b", on(b), unreadySince(time.Hour)), webPod("web-c", on(b), unreadySince(time.Hour)),
				dbOnB, webPod("db-a", app("db"), on(a), unreadySince(time.Hour)), webPod("db-c", app("db"), on(a), unreadySince(time.Hour)),
			},
			budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3, needing(1, 2)), budgetOf("db", 3, needing(1, 2))},
			want:    &deadlock{lacks: []string{"shop/web-b", "shop/web-c"}, nodes: []string{b}, waits: map[string][]string{b: {"shop/db", "shop/web"}}},
		},
		{name: "not when the other drain can end", pods: []corev1.Pod{webOnA, webHomeless}, budgets: webAndDB[:1], want: nil, draining: []*corev1.Node{plainNode(a), plainNode(b)}},
		{name: "not while the scheduler has not evaluated the pod", pods: []corev1.Pod{webOnA, webPod("web-x", unjudged), dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not while the other's pod has hope", pods: []corev1.Pod{webOnA, webHomeless, dbOnB, webPod("db-x", app("db"), unjudged)}, budgets: webAndDB},
		{name: "not while a pod starts elsewhere", pods: []corev1.Pod{webOnA, webPod("web-x", on(c), unreadySince(time.Hour)), dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not while a pod of the budget terminates", pods: []corev1.Pod{webOnA, webHomeless, webPod("web-y", on(c), terminatingSince(0)), dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not while a pod has to be created yet", pods: []corev1.Pod{webOnA, dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not while an eviction is on its way", pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: []policyv1.PodDisruptionBudget{
			budgetOf("web", 2, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{"web-y": {Time: now}}
			}), budgetOf("db", 2),
		}},
		{name: "not when the budget's change has not been seen", pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: []policyv1.PodDisruptionBudget{
			budgetOf("web", 2, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }), budgetOf("db", 2),
		}},
		{name: "not when no drained node could run the pod: drains are not the cause", pods: []corev1.Pod{webOnA, webPod("web-x", homeless, onlyFor(c)), dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not while another node that could run the pod is only away", away: []*corev1.Node{plainNode(c)}, pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: webAndDB},
		{
			name: "a node that is away and could not run the pod does not matter", away: []*corev1.Node{tainted(c)},
			pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: webAndDB,
			want: &deadlock{lacks: []string{"shop/web-x"}, nodes: []string{a, b}, waits: map[string][]string{b: {"shop/db"}}},
		},
		{name: "nor when its taints keep the pod away", draining: []*corev1.Node{tainted(a), tainted(b)}, pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: webAndDB},
		{name: "not when the drained nodes would not be enough", pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2, needing(1, 3)), budgetOf("db", 2)}},
		{name: "a budget that can never be met is none", pods: []corev1.Pod{webOnA, webHomeless, dbOnB, dbHomeless}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2, demanding("100%")), budgetOf("db", 2)}},
		{name: "pods of DaemonSets do not wait", pods: []corev1.Pod{webOnA, webHomeless, webPod("db-b", app("db"), on(b), ownedBy("DaemonSet", "agent")), dbHomeless}, budgets: webAndDB},
		{name: "finished pods count for nothing", pods: []corev1.Pod{webOnA, webHomeless, webPod("db-b", app("db"), on(b), finished), dbHomeless}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 2), budgetOf("db", 1)}},
		{name: "not right after a pod has started", pods: []corev1.Pod{webOnA, webPod("web-b", on(b), unreadySince(time.Second)), webPod("web-c", on(b), unreadySince(time.Hour))}, budgets: []policyv1.PodDisruptionBudget{budgetOf("web", 3, needing(1, 2))}},
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
			require.True(t, s.isStuck(a), "what is a deadlock is looked for")
		})
	}
}

// needing sets how many pods are healthy, and how many have to be.
func needing(healthy, desired int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.CurrentHealthy, b.Status.DesiredHealthy = healthy, desired
	}
}

// In any random situation: each node that a budget in a deadlock waits for also waits for such a budget, and the order in which objects are read has
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
					on(node.Draw(t, "on")), on("elsewhere"), homeless, func(p *corev1.Pod) { homeless(p); onlyFor(node.Draw(t, "for"))(p) },
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
					require.NotEmpty(t, s.deadlocks(other), "%s waits for %s, which waits for nothing", key, other)
				}
			}
		}
	})
}

func TestADrainWithoutProgressFindsAndReportsItsDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web-a"), webPod("web-x", homeless), webPod("db-b", app("db"), on("worker-8")), webPod("db-x", app("db"), homeless)},
			budgetOf("web", 2), budgetOf("db", 2))
		w.snapshot.Node = plainNode(node)
		w.snapshot.Node.UID = "uid-of-node"
		w.others = []corev1.Node{*plainNode("worker-8"), *tainted("worker-9")}
		drain := w.drain()
		drain.Draining = func(n *corev1.Node) bool { return n.Name == node || n.Name == "worker-8" }
		var told sync.Mutex
		var wait *drydockv1.Wait
		var status maintenancev1.DrainStatus
		drain.Progress = func(s maintenancev1.DrainStatus, w *drydockv1.Wait) {
			told.Lock()
			defer told.Unlock()
			status, wait = s, w
		}
		ended, _ := begin(t, drain)
		time.Sleep(patience / 2)
		synctest.Wait()
		told.Lock()
		require.Equal(t, "DisruptionBudget", wait.Reason, "most waits end by themselves")
		told.Unlock()

		time.Sleep(2 * patience)
		synctest.Wait()
		told.Lock()
		require.Equal(t, "Deadlock", wait.Reason)
		require.Equal(t, "1 pod in a deadlock: PodDisruptionBudget shop/web (0 of 2 may be disrupted; 1 of 2 healthy, needs 1) lacks pod shop/web-x, which no node but worker-7, worker-8 takes; "+
			"these are being drained, and worker-8 waits for PodDisruptionBudget shop/db: cancel one of the maintenances, or add a node", wait.Message)
		require.Equal(t, "Deadlock", status.Blocked[0].Reason)
		require.Equal(t, "Pod shop/web-a", status.Blocked[0].String())
		told.Unlock()

		w.change(func(s *Snapshot) { s.Pods[1] = webPod("web-x", on("worker-8")) })
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}

func TestAResolvedDeadlockIsNoLongerReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web-a"), webPod("web-x", homeless, onlyFor(node))}, budgetOf("web", 2))
		w.snapshot.Node = plainNode(node)
		drain := w.drain()
		drain.Draining = func(n *corev1.Node) bool { return n.Name == node }
		var told sync.Mutex
		var wait *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, w *drydockv1.Wait) {
			told.Lock()
			defer told.Unlock()
			wait = w
		}
		ended, _ := begin(t, drain)
		time.Sleep(2 * patience)
		synctest.Wait()
		told.Lock()
		require.Equal(t, "Deadlock", wait.Reason)
		require.Contains(t, wait.Message, "which no node but worker-7 takes, which is being drained: cancel the maintenance, or add a node")
		told.Unlock()

		w.change(func(s *Snapshot) { s.Pods[1] = webPod("web-x", on("worker-8"), unready) })
		time.Sleep(2 * patience)
		synctest.Wait()
		told.Lock()
		require.Equal(t, "DisruptionBudget", wait.Reason, "a pod that starts elsewhere may become ready")
		told.Unlock()
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}
