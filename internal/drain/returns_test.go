package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func tolerant(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// putBack makes a controller create another such pod on the node as soon as one of its pods is evicted.
func (w *world) putBack(pod func(name string) corev1.Pod) {
	made := 0
	w.replace = func(s *Snapshot, evicted corev1.Pod) {
		made++
		another := pod(fmt.Sprintf("%s-again-%d", evicted.Name[:3], made))
		another.OwnerReferences = evicted.OwnerReferences
		s.Pods = append(s.Pods, another)
	}
}

// following returns the drain, and records its last progress.
func following(drain Drain) (Drain, *maintenancev1.DrainStatus, **drydockv1.Wait) {
	var status maintenancev1.DrainStatus
	var wait *drydockv1.Wait
	drain.Progress = func(s maintenancev1.DrainStatus, w *drydockv1.Wait) { status, wait = s, w }
	return drain, &status, &wait
}

func cordonedNode(is bool) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Node = s.Node.DeepCopy()
		s.Node.Spec.Unschedulable = is
	}
}

func TestAPodThatItsControllerReplacesOnTheNodeIsOnlyWaitedForAfterAFewEvictions(t *testing.T) {
	for name, c := range map[string]struct {
		cordoned bool
		pod      func(name string) corev1.Pod
		why      string
	}{
		"it tolerates the cordon":     {true, func(name string) corev1.Pod { return webPod(name, tolerant) }, "it tolerates the cordon (taint node.kubernetes.io/unschedulable)"},
		"its template names the node": {true, func(name string) corev1.Pod { return webPod(name) }, "so its template may name the node (spec.nodeName)"},
		"the node is not cordoned":    {false, func(name string) corev1.Pod { return webPod(name) }, "the node is not cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld([]corev1.Pod{c.pod("web"), webPod("other", ownedBy("StatefulSet", "other"))})
				w.change(cordonedNode(c.cordoned))
				w.putBack(c.pod)
				w.leaves = func(pod corev1.Pod) bool { return pod.Name == "other" }
				drain, status, wait := following(w.drain())
				ended, _ := begin(t, drain)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, []string{"other", "web", "web-again-1", "web-again-2"}, slices.Sorted(slices.Values(evictedPods(w))), "a further replacement is not evicted")
				require.Equal(t, "ReturnsToNode", (*wait).Reason)
				require.Contains(t, (*wait).Message, "1 pod no longer evicted (shop/web-again-3): it returns to this node each time: ")
				require.Contains(t, (*wait).Message, c.why)
				require.Equal(t, "Pod shop/web-again-3", status.Blocked[0].String())
				w.remove("web-again-3")
				require.NoError(t, <-ended, "a person stopped its controller and deleted it")
			})
		})
	}
}

// The next run reads the counts from the serialised progress.
func TestAReturningPodIsEvictedAgainByTheNextAttemptNotByTheNextWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web", tolerant)})
		w.change(cordonedNode(true))
		w.putBack(func(name string) corev1.Pod { return webPod(name, tolerant) })
		drain, status, _ := following(w.drain())
		deadline := time.Now().Add(5 * time.Minute)
		drain.Deadline = &deadline
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
		require.Contains(t, temporal.ErrorMessage(err), "drain worker-7: 1 pod no longer evicted (shop/web-again-3): ")
		require.Len(t, w.evictionRequests(), 3)

		stored, err := json.Marshal(status)
		require.NoError(t, err)
		for _, run := range []struct {
			attempt          int32
			evictionRequests int
			last             string
		}{{1, 3, "web-again-3"}, {2, 6, "web-again-6"}} {
			next, _, wait := following(w.drain())
			next.Attempt, next.Before = run.attempt, &maintenancev1.DrainStatus{}
			require.NoError(t, json.Unmarshal(stored, next.Before))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := next.Run(ctx)
				ended <- err
			}()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Len(t, w.evictionRequests(), run.evictionRequests)
			require.Equal(t, "ReturnsToNode", (*wait).Reason)
			require.Contains(t, (*wait).Blockers[0].Name, run.last)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
}

func TestPodsOfOneControllerThatAreSeenLateAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		w.change(cordonedNode(true))
		ended, status := begin(t, w.drain())
		for _, name := range []string{"late", "later"} {
			w.change(func(s *Snapshot) { s.Pods = append(s.Pods, webPod(name)) })
			soon()
		}
		require.NoError(t, <-ended)
		require.Equal(t, int32(3), status.Evicted)
	})
}

func TestEveryEndedPodOfAControllerIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("job", finished, tolerant)})
		w.change(cordonedNode(true))
		w.putBack(func(name string) corev1.Pod { return webPod(name, finished, tolerant) })
		w.leaves = func(pod corev1.Pod) bool { return pod.Name == "job-again-6" }
		_, err := w.drain().Run(t.Context())
		require.NoError(t, err)
		require.Len(t, w.evictionRequests(), 7)
	})
}

func TestNothingIsEvictedWhileTheNodeIsUncordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(2), webBudget(1, 2, 1, 2))
		w.change(cordonedNode(true))
		drain, _, wait := following(w.drain())
		drain.Cordoned = true
		ended, _ := begin(t, drain)
		require.Len(t, w.evictionRequests(), 1)
		w.change(cordonedNode(false))
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 5 })
		w.change(func(s *Snapshot) { s.Pods = append(s.Pods, webPod("came-back")) })
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, w.evictionRequests(), 1)
		require.Equal(t, "Uncordoned", (*wait).Reason)
		require.Equal(t, "the node is no longer cordoned, so no pod is evicted, because it may return: "+
			"run `kubectl cordon worker-7` to continue the maintenance (you then uncordon it yourself), or cancel it", (*wait).Message)
		require.Equal(t, "Node worker-7", (*wait).Blockers[0].String())

		w.change(cordonedNode(true))
		require.NoError(t, <-ended)
		require.ElementsMatch(t, []string{"web-000", "web-001", "came-back"}, evictedPods(w))
	})
}

func TestADrainIsNotCompleteWhileTheNodeIsUncordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		drain, _, wait := following(w.drain())
		drain.Cordoned = true
		ended, _ := begin(t, drain)
		require.Empty(t, ended)
		require.Equal(t, "Uncordoned", (*wait).Reason)
		w.change(cordonedNode(true))
		require.NoError(t, <-ended)

		w.change(cordonedNode(false))
		deadline := time.Now().Add(time.Minute)
		drain.Deadline = &deadline
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
		require.Contains(t, temporal.ErrorMessage(err), "drain worker-7: the node is no longer cordoned")
		require.Equal(t, "Uncordoned", temporal.Blockers(err)[0].Reason)
	})
}

func TestAStaleCacheDoesNotMakeTheNodeUncordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(manyPods(1)), newWorld(manyPods(1))
		server.change(cordonedNode(true))
		drain := server.drain()
		drain.Cordoned, drain.Cache = true, behind
		ended, _ := begin(t, drain)
		require.Len(t, server.evictionRequests(), 1)
		time.Sleep(server.grace)
		behind.change(func(s *Snapshot) { s.Pods = nil })
		require.NoError(t, <-ended)
	})
}

// Pods that arrived while the node was uncordoned need not return: they are evicted as at first.
func TestPodsThatArrivedWhileTheNodeWasUncordonedAreEvictedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web", tolerant)})
		w.change(cordonedNode(true))
		w.putBack(func(name string) corev1.Pod { return webPod(name, tolerant) })
		drain := w.drain()
		drain.Cordoned = true
		ended, _ := begin(t, drain)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, w.evictionRequests(), 3)
		w.change(cordonedNode(false))
		soon()
		w.leaves = func(corev1.Pod) bool { return true }
		w.change(cordonedNode(true))
		require.NoError(t, <-ended)
		require.Equal(t, []string{"web", "web-again-1", "web-again-2", "web-again-3"}, evictedPods(w))
	})
}

func TestThePreviewReportsPodsThatMayReturn(t *testing.T) {
	pods := []corev1.Pod{
		webPod("a", tolerant), webPod("b"), webPod("c", tolerant, ownedBy("DaemonSet", "agent")),
		webPod("d", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		}),
		webPod("e", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}
		}),
	}
	preview, err := Decide(t.Context(), node, snapshotOf(pods), maintenancev1.DrainSpec{}, now)
	require.NoError(t, err)
	const warning = "it tolerates the cordon: its controller may put it back on this node"
	var notes []string
	for _, decision := range preview.Pods {
		notes = append(notes, decision.Message)
	}
	require.Equal(t, []string{warning, "", "its DaemonSet would recreate it at once", warning, ""}, notes)
	require.True(t, preview.Drainable)
}

func TestReturnsAreCountedByController(t *testing.T) {
	requests := newRequests(1, nil)
	uid := func(name string) types.UID { return types.UID("uid-of-" + name) }
	meetPod := func(name string, changes ...func(*corev1.Pod)) Decision {
		pod := webPod(name, changes...)
		decision := Decision{Namespace: pod.Namespace, Name: pod.Name, Action: Evict, pod: &pod}
		requests.meet([]Decision{decision})
		return decision
	}
	first := meetPod("first")
	requests.sent(first, now)
	meetPod("second")
	require.Equal(t, 1, requests.returns[uid("second")], "an eviction without an answer counts")
	meetPod("of-another", ownedBy("StatefulSet", "db"))
	meetPod("bare", bare)
	requests.answered(first.pod.UID, budgetRefusal("no"), now)
	meetPod("third")
	for _, name := range []string{"of-another", "bare", "third"} {
		require.Zero(t, requests.returns[uid(name)], name)
	}
}
