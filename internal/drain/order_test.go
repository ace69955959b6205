package drain

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func order(selector string, order int32) []maintenancev1.PodOrder {
	return []maintenancev1.PodOrder{{PodSelector: selector, Order: order}}
}

// tiers lets the front end leave first, unlisted pods next, and the storage last.
func tiers() maintenancev1.DrainSpec {
	return maintenancev1.DrainSpec{PodOrder: append(order("tier=front", -1), append(order("tier in (front,storage)", 7), order("tier", 99)...)...)}
}

func tier(name string) func(*corev1.Pod) { return labelled("tier", name) }

func TestThePreviewShowsTheOrderOfThePods(t *testing.T) {
	pods := []corev1.Pod{
		webPod("storage", tier("storage")), webPod("front", tier("front")), webPod("plain"), webPod("other", tier("other")),
		webPod("agent", tier("front"), ownedBy("DaemonSet", "agent")),
	}
	preview, err := Decide(t.Context(), node, snapshotOf(pods), tiers(), now)
	require.NoError(t, err)
	printed, err := json.Marshal(preview)
	require.NoError(t, err)
	require.JSONEq(t, `{"pods": [
		{"namespace":"shop","name":"agent","action":"skip","reason":"DaemonSet","owner":"DaemonSet/agent","order":-1,"message":"its DaemonSet would recreate it at once"},
		{"namespace":"shop","name":"front","action":"evict","reason":"","owner":"ReplicaSet/web","order":-1},
		{"namespace":"shop","name":"other","action":"evict","reason":"","owner":"ReplicaSet/web","order":99},
		{"namespace":"shop","name":"plain","action":"evict","reason":"","owner":"ReplicaSet/web"},
		{"namespace":"shop","name":"storage","action":"evict","reason":"","owner":"ReplicaSet/web","order":7}],
		"drainable": true}`, string(printed))
}

func TestPodsOfLowerOrdersLeaveBeforeHigherOnesStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("storage", tier("storage")), webPod("front-1", tier("front")), webPod("plain"), webPod("front-2", tier("front"))})
		drain := w.drain()
		drain.Spec = tiers()
		var first *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			if first == nil {
				first = wait
			}
		}
		status, err := drain.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3*w.grace, time.Since(w.began).Truncate(time.Second))
		at := func(i int) time.Duration { return w.evictionRequests()[i].at.Truncate(time.Second) }
		require.ElementsMatch(t, []string{"front-1", "front-2"}, evictedPods(w)[:2])
		require.Equal(t, []string{"plain", "storage"}, evictedPods(w)[2:])
		require.Equal(t, []time.Duration{0, 0, w.grace, 2 * w.grace}, []time.Duration{at(0), at(1), at(2), at(3)})
		require.Equal(t, int32(4), status.Evicted)
		require.Contains(t, first.Message, "2 pods waiting for pods of a lower order: shop/plain, shop/storage")
	})
}

func TestAStuckPodDelaysHigherOrdersAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("front", tier("front")), webPod("storage", tier("storage"), labelled("app", "db"))}, webBudget(0, 2, 2, 3))
		drain := w.drain()
		drain.Spec = tiers()
		var status maintenancev1.DrainStatus
		var wait *drydockv1.Wait
		drain.Progress = func(s maintenancev1.DrainStatus, w *drydockv1.Wait) { status, wait = s, w }
		ended, _ := begin(t, drain)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NotContains(t, evictedPods(w), "storage")
		require.Equal(t, "DisruptionBudget", wait.Reason)
		require.Len(t, status.Blocked, 1, "a pod that waits for its order is not blocked itself")
		require.Equal(t, []string{"shop/front", "shop/storage"}, status.WaitForEviction)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
		require.NoError(t, <-ended)
	})
}

func TestALatePodOfALowerOrderGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("front", tier("front")), webPod("storage", tier("storage"))})
		drain := w.drain()
		drain.Spec = tiers()
		ended, _ := begin(t, drain)
		w.change(func(s *Snapshot) { s.Pods = append(s.Pods, webPod("late")) })
		require.NoError(t, <-ended)
		require.Equal(t, []string{"front", "late", "storage"}, evictedPods(w))
	})
}

func TestAPodThatMayNotBeEvictedEndsTheDrainInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("front", tier("front")), webPod("bare", tier("storage"), bare)})
		drain := w.drain()
		drain.Spec = tiers()
		_, err := drain.Run(t.Context())
		require.ErrorContains(t, err, "shop/bare")
		require.Empty(t, w.evictionRequests())
	})
}

func TestTheNextWorkerKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := webPod("front", tier("front"))
		w := newWorld([]corev1.Pod{leaving, webPod("storage", tier("storage"))})
		require.NoError(t, w.Evict(t.Context(), evictionOf(&leaving)))
		drain := w.drain()
		drain.Spec, drain.Before = tiers(), &maintenancev1.DrainStatus{EvictionPods: 2}
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"front", "storage"}, evictedPods(w))
		require.Equal(t, w.grace, w.evictionRequests()[1].at.Truncate(time.Second))
	})
}

// For any mix of pods and orders, the pods of the lowest remaining order are due and all others wait.
func TestOnlyTheLowestOrderIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec().Draw(t, "spec")
		for range rapid.IntRange(0, 3).Draw(t, "places") {
			selector := rapid.SampledFrom([]string{"tier=front", "tier=back", "tier", "app=none"}).Draw(t, "selector")
			spec.PodOrder = append(spec.PodOrder, order(selector, rapid.Int32Range(-2, 2).Draw(t, "order"))...)
		}
		preview := decideAny(t, anyPods().Draw(t, "pods"), anyBudgets().Draw(t, "budgets"), spec)
		remaining := preview.remaining()
		lowest := int32(0)
		for i, decision := range remaining {
			if i == 0 || decision.Order < lowest {
				lowest = decision.Order
			}
		}
		for _, decision := range preview.Pods {
			require.Equal(t, decision.mustLeave() && decision.Order > lowest, decision.held == ReasonPodOrder, decision.key())
		}
	})
}

func evictedPods(w *world) []string {
	var pods []string
	for _, request := range w.evictionRequests() {
		pods = append(pods, request.pod)
	}
	return pods
}
