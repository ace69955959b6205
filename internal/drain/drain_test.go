package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// begin runs a drain in the background; ended receives its result.
func begin(t *testing.T, drain Drain) (ended chan error, status *maintenancev1.DrainStatus) {
	t.Helper()
	ended, status = make(chan error, 1), &maintenancev1.DrainStatus{}
	go func() {
		var err error
		*status, err = drain.Run(t.Context())
		ended <- err
	}()
	synctest.Wait()
	return ended, status
}

// soon runs everything that is due now.
func soon() {
	time.Sleep(2 * lookInterval)
	synctest.Wait()
}

// requireTook checks the time since the world began, with a tolerance of one look interval.
func requireTook(t *testing.T, w *world, want time.Duration) {
	t.Helper()
	require.InDelta(t, want, time.Since(w.began), float64(2*lookInterval))
}

func manyPods(count int) []corev1.Pod {
	var pods []corev1.Pod
	for i := range count {
		pods = append(pods, webPod(fmt.Sprintf("web-%03d", i)))
	}
	return pods
}

func TestADrainTakesAsLongAsItsSlowestPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(append(manyPods(250), webPod("agent", ownedBy("DaemonSet", "agent"))))
		status, err := w.drain().Run(t.Context())
		require.NoError(t, err)
		requireTook(t, w, w.grace)
		require.Len(t, w.asks(), 250)
		for _, ask := range w.asks() {
			require.Zero(t, ask.at, "all at once")
		}
		require.Equal(t, maintenancev1.DrainStatus{TotalPods: 251, CurrentPods: 1, PodsToEvict: 250, Evicted: 250, DrainProgress: 100, Attempt: 1}, status)
	})
}

// attentive records the namespaces in which a drain lists budgets and DaemonSets, and in which it watches budgets.
type attentive struct {
	*world
	mu      sync.Mutex
	listed  map[string]bool
	watched map[string]bool
}

func (a *attentive) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); !pods {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.listed[(&client.ListOptions{}).ApplyOptions(options).Namespace] = true
	}
	return a.world.List(ctx, list, options...)
}

func (a *attentive) Await(ctx context.Context, kinds []client.Object, check func(context.Context) (bool, error)) error {
	for _, kind := range kinds {
		if _, budgets := kind.(*policyv1.PodDisruptionBudget); budgets {
			a.mu.Lock()
			a.watched[kind.GetNamespace()] = true
			a.mu.Unlock()
		}
	}
	return a.world.Await(ctx, kinds, check)
}

func TestADrainReadsOnlyTheNamespacesOfItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(namespace string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) { pod.Namespace = namespace }
		}
		w := newWorld([]corev1.Pod{webPod("a"), webPod("b", in("bank")), webPod("agent", in("system"), ownedBy("DaemonSet", "agent")), webPod("c", in("far"), elsewhere)})
		w.snapshot.DaemonSets[0].Namespace = "system"
		a := &attentive{world: w, listed: map[string]bool{}, watched: map[string]bool{}}
		drain := w.drain()
		drain.Cache, drain.Watcher = a, a
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"shop": true, "bank": true, "system": true}, a.listed)
		require.Equal(t, map[string]bool{"shop": true, "bank": true}, a.watched, "nothing has to leave the others")
	})
}

func TestANodeWithoutPodsToEvictIsDrainedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("agent", ownedBy("DaemonSet", "agent"))})
		status, err := w.drain().Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, maintenancev1.DrainStatus{TotalPods: 1, CurrentPods: 1, DrainProgress: 100, Attempt: 1}, status)
		require.Empty(t, w.asks())
	})
}

func TestAPodThatWaitsForItsBudgetDoesNotDelayOtherPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web"), webPod("other", labelled("app", "other"))}, webBudget(0, 2, 2, 3))
		var waits []drydockv1.Wait
		drain := w.drain()
		drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			if wait != nil {
				waits = append(waits, *wait)
			}
		}
		ended, status := begin(t, drain)
		time.Sleep(w.grace + time.Second)
		synctest.Wait()
		blocked := waits[len(waits)-1]
		require.Equal(t, "DisruptionBudget", blocked.Reason)
		require.Equal(t, "1 pod blocked by PodDisruptionBudget shop/web (0 of 3 may be disrupted; 2 of 3 healthy, needs 2)", blocked.Message)
		require.Equal(t, "Pod shop/web", blocked.Blockers[0].String())
		require.Contains(t, blocked.Blockers[0].Message, "owner ReplicaSet/web")

		opened := time.Since(w.began)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 3, 1 })
		require.NoError(t, <-ended)
		require.Equal(t, ask{"web", opened}, w.asks()[len(w.asks())-1], "requested when the budget opened")
		requireTook(t, w, opened+w.grace)
		require.Equal(t, int32(2), status.Evicted)
	})
}

func TestABudgetThatAllowsOneDisruptionGetsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(20), webBudget(0, 18, 18, 20))
		ended, _ := begin(t, w.drain())
		require.Len(t, w.asks(), 1, "the API server is asked whether it really allows none")
		time.Sleep(time.Second)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
		soon()
		require.Len(t, w.asks(), 2)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 19 })
		soon()
		require.Len(t, w.asks(), 21)
		require.NoError(t, <-ended)
		require.Len(t, w.asks(), 21, "no eviction was refused but the first")
	})
}

func TestABudgetThatAllowsAFewDisruptionsGetsAsManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(250), webBudget(3, 250, 247, 250))
		ended, _ := begin(t, w.drain())
		require.ElementsMatch(t, []ask{{"web-000", 0}, {"web-001", 0}, {"web-002", 0}}, w.asks())
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 247 })
		require.NoError(t, <-ended)
		require.Len(t, w.asks(), 250)
	})
}

func TestABudgetWithoutEventsIsTriedEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(2), webBudget(0, 2, 2, 3))
		var open atomic.Bool
		w.refuse = func(*policyv1.Eviction) error {
			if open.Load() {
				w.snapshot.Budgets[0].Status.DisruptionsAllowed = 2
			}
			return nil
		}
		ended, _ := begin(t, w.drain())
		time.Sleep(12 * time.Second)
		synctest.Wait()
		require.Equal(t, []ask{{"web-000", 0}, {"web-001", 5 * time.Second}, {"web-000", 10 * time.Second}}, w.asks(), "each in turn")
		open.Store(true)
		require.NoError(t, <-ended)
		requireTook(t, w, 15*time.Second+w.grace)
	})
}

func TestAPodThatBecomesUnreadyNoLongerNeedsItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
		refusals := 1
		w.refuse = func(*policyv1.Eviction) error {
			if refusals--; refusals < 0 {
				w.snapshot.Budgets = nil
				return nil
			}
			return budgetRefusal("needs 2 healthy pods and has 2")
		}
		ended, _ := begin(t, w.drain())
		time.Sleep(time.Second)
		w.change(func(s *Snapshot) {
			s.Pods[0] = webPod("web-000", unready)
			s.Pods[0].ResourceVersion = "2"
		})
		require.NoError(t, <-ended)
		require.Equal(t, ask{"web-000", time.Second}, w.asks()[1])
	})
}

func TestOtherRefusalsAreRetriedAfterTheRequestedDelay(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("pods"), "web", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	multiple := apierrors.NewGenericServerResponse(500, "create", corev1.Resource("pods"), "web",
		"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0, false)
	cases := []struct {
		name   string
		answer error
		reason Reason
		again  []time.Duration
	}{
		{name: "a busy API server says when to come back", answer: apierrors.NewTooManyRequests("slow down", 7), reason: ReasonServerBusy, again: []time.Duration{0, 7, 14}},
		{name: "a busy API server that does not say when", answer: apierrors.NewTooManyRequestsError("slow down"), reason: ReasonServerBusy, again: []time.Duration{0, 1, 3, 7, 15, 31, 47}},
		{name: "a fault of the API server", answer: apierrors.NewInternalError(fmt.Errorf("etcd")), reason: ReasonServerError, again: []time.Duration{0, 1, 3, 7, 15, 31, 47}},
		{name: "no answer", answer: context.DeadlineExceeded, reason: ReasonServerError, again: []time.Duration{0, 1, 3, 7}},
		{name: "a webhook that says no", answer: apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("admission webhook")), reason: ReasonEvictionRefused, again: []time.Duration{0, 1, 3, 7}},
		{name: "a terminating namespace", answer: terminating, reason: ReasonNamespaceTerminating, again: []time.Duration{0, 1, 3}},
		{name: "a pod under two budgets that the cache does not know yet", answer: multiple, reason: ReasonMultipleBudgets, again: []time.Duration{0, 5, 10}},
		{name: "a budget that the cache does not know yet", answer: budgetRefusal("needs 2"), reason: ReasonDisruptionBudget, again: []time.Duration{0, 5, 10}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld([]corev1.Pod{webPod("web"), webPod("other")})
				w.refuse = func(eviction *policyv1.Eviction) error {
					if eviction.Name == "web" && len(w.asked) <= len(c.again) {
						return c.answer
					}
					return nil
				}
				var reported drydockv1.Wait
				drain := w.drain()
				drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
					if wait != nil && len(wait.Blockers) > 0 && wait.Blockers[0].Name == "web" && wait.Blockers[0].Reason == string(c.reason) {
						reported = *wait
					}
				}
				_, err := drain.Run(t.Context())
				require.NoError(t, err)
				var again []time.Duration
				for _, ask := range w.asks() {
					if ask.pod == "web" {
						again = append(again, ask.at/time.Second)
					}
				}
				require.Equal(t, c.again, again[:len(c.again)])
				require.Equal(t, string(c.reason), reported.Reason, "the wait names it")
			})
		})
	}
}

func TestAPodIsReadBeforeARetryAfterAServerFault(t *testing.T) {
	for name, became := range map[string]func(*corev1.Pod){
		"it terminates":          func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"another has taken over": func(pod *corev1.Pod) { pod.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind, server := newWorld(manyPods(1)), newWorld(manyPods(1))
				server.refuse = func(*policyv1.Eviction) error {
					server.changeLocked(func(s *Snapshot) { became(&s.Pods[0]) })
					return apierrors.NewInternalError(fmt.Errorf("the answer is lost"))
				}
				drain := server.drain()
				drain.Cache, drain.Watcher = behind, behind
				ended, _ := begin(t, drain)
				time.Sleep(time.Minute)
				require.Len(t, server.asks(), 1)
				for _, w := range []*world{server, behind} {
					w.remove(behind.snapshot.Pods[0].Name)
				}
				require.NoError(t, <-ended)
			})
		})
	}
}

func TestAPodThatTheAPIServerNoLongerHasIsGone(t *testing.T) {
	for name, answer := range map[string]error{
		"not found":                   apierrors.NewNotFound(corev1.Resource("pods"), "web"),
		"with another UID":            apierrors.NewConflict(corev1.Resource("pods"), "web", fmt.Errorf("UID in precondition")),
		"evicted, and its name taken": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld([]corev1.Pod{webPod("web")})
				w.refuse = func(*policyv1.Eviction) error { return answer }
				ended, _ := begin(t, w.drain())
				time.Sleep(100 * time.Millisecond)
				replacement := webPod("web", elsewhere)
				replacement.UID = "another"
				w.change(func(s *Snapshot) { s.Pods[0] = replacement })
				require.NoError(t, <-ended)
				require.Len(t, w.asks(), 1)
				requireTook(t, w, 100*time.Millisecond)
			})
		})
	}
}

func TestPodsThatMayNotBeEvictedEndTheDrainBeforeItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web"), webPod("bare", bare), webPod("scratch", withEmptyDir), webPod("bare-too", bare)})
		drain := w.drain()
		drain.Progress = func(maintenancev1.DrainStatus, *drydockv1.Wait) {
			t.Error("a drain that has not started has no progress, or the next run would skip the refusal")
		}
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
		require.Equal(t, "drain worker-7: 2 pods without a controller, which only force evicts: shop/bare, shop/bare-too; "+
			"1 pod with emptyDir data, which only deleteEmptyDir evicts: shop/scratch", temporal.ErrorMessage(err))
		require.Len(t, temporal.Blockers(err), 3)
		require.Empty(t, w.asks())
	})
}

func TestAPodThatAppearedDuringTheLastAttemptDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web"), webPod("debug", bare)})
		drain := w.drain()
		drain.Attempt = 2
		time.AfterFunc(time.Minute, func() { w.remove("debug") })
		status, err := drain.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, []ask{{"web", 0}}, w.asks())
		require.Equal(t, int32(2), status.Attempt)
	})
}

func TestADrainWaitsForABudgetThatCanNeverBeMetBecauseItMayBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1), webBudget(0, 3, 3, 3))
		ended, _ := begin(t, w.drain())
		time.Sleep(time.Second)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}

func TestATimedOutDrainReportsWhatBlocksIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := append(manyPods(2), webPod("stuck", labelled("app", "other"), terminatingSince(time.Hour)))
		w := newWorld(pods, webBudget(0, 2, 3, 3))
		drain := w.drain()
		deadline := time.Now().Add(12 * time.Second)
		drain.Deadline = &deadline
		status, err := drain.Run(t.Context())
		requireTook(t, w, 12*time.Second)
		require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
		require.Equal(t, "drain worker-7: 2 pods blocked by PodDisruptionBudget shop/web (0 of 3 may be disrupted; 2 of 3 healthy, needs 3); "+
			"1 pod in an unknown state, because the node is not Ready: shop/stuck", temporal.ErrorMessage(err))
		blockers := temporal.Blockers(err)
		require.Len(t, blockers, 3)
		require.Equal(t, "DisruptionBudgetNever", blockers[0].Reason, "the gravest come first")
		require.Equal(t, "NodeNotReady", blockers[2].Reason)
		require.WithinDuration(t, w.began, blockers[0].Since.Time, 2*lookInterval)
		require.Equal(t, []string{"shop/stuck", "shop/web-000", "shop/web-001"}, status.WaitForEviction)
	})
}

func TestADeadlineThatPassedWithoutAWorkerEvictsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(2))
		drain := w.drain()
		deadline := time.Now().Add(-time.Second)
		drain.Deadline = &deadline
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
		require.Empty(t, w.asks())
	})
}

func TestADrainThatIsCompleteAtItsDeadlineSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(manyPods(1)), newWorld(nil)
		behind.refuse = func(*policyv1.Eviction) error { return apierrors.NewNotFound(corev1.Resource("pods"), "web-000") }
		drain := behind.drain()
		drain.Server = server
		deadline := time.Now().Add(time.Second)
		drain.Deadline = &deadline
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
	})
}

func TestANodeIsNotDrainedWhileTheCacheLacksItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(nil), newWorld(manyPods(1))
		drain := server.drain()
		drain.Cache, drain.Watcher = behind, behind
		ended, _ := begin(t, drain)
		for range 3 {
			behind.change(func(*Snapshot) {})
			soon()
		}
		time.Sleep(server.grace + time.Second)
		behind.change(func(*Snapshot) {})
		require.NoError(t, <-ended)
		require.Len(t, server.asks(), 1)
	})
}

func TestADaemonSetMissingFromTheCacheDoesNotEndTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := []corev1.Pod{webPod("web"), webPod("new", ownedBy("DaemonSet", "new"))}
		behind, server := newWorld(pods), newWorld(pods)
		daemonSets := []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}}
		server.snapshot.DaemonSets = daemonSets
		drain := behind.drain()
		drain.Server = server
		ended, _ := begin(t, drain)
		require.Equal(t, []ask{{"web", 0}}, behind.asks())
		behind.change(func(s *Snapshot) { s.DaemonSets = daemonSets })
		server.remove("web")
		require.NoError(t, <-ended)
	})
}

func TestADeletedNodeEndsTheDrain(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"with its name":                      func(s *Snapshot) { s.Node = nil },
		"also when another takes its name":   func(s *Snapshot) { s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "new"}} },
		"also when all its pods went before": func(s *Snapshot) { s.Node, s.Pods = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
				ended, _ := begin(t, w.drain())
				w.change(change)
				require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-ended))
			})
		})
	}
}

func TestANodeReplacedUnderItsNameBeforeTheFirstLookIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		drain := w.drain()
		drain.NodeUID = "uid-of-the-one-before"
		drain.Ours = func(*corev1.Node) bool { return false }
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
		require.Empty(t, w.asks())
	})
}

func TestAStaleNodeInTheCacheDoesNotMakeTheNodeGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(nil), newWorld(nil)
		behind.snapshot.Node.UID = "uid-of-the-one-before"
		drain := behind.drain()
		drain.Server, drain.NodeUID = server, server.snapshot.Node.UID
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
	})
}

func TestANodeWithoutTheOwnershipMarkIsNotDrainedFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
		drain := w.drain()
		drain.Ours = func(node *corev1.Node) bool { return node.Annotations["returned"] == "" }
		time.AfterFunc(time.Minute, func() {
			w.change(func(s *Snapshot) {
				s.Node = s.Node.DeepCopy()
				s.Node.Annotations = map[string]string{"returned": "yes"}
				s.Pods = append(s.Pods, webPod("came-later"))
			})
		})
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err))
		require.Equal(t, time.Minute, time.Since(w.began).Truncate(time.Second))
		require.NotContains(t, fmt.Sprint(w.asks()), "came-later")
	})
}

func TestPodsThatAppearDuringTheDrainLeaveToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		ended, status := begin(t, w.drain())
		w.change(func(s *Snapshot) { s.Pods = append(s.Pods, webPod("late"), webPod("debug", bare)) })
		soon()
		require.Equal(t, []ask{{"web-000", 0}, {"late", lookInterval}}, w.asks())
		time.Sleep(w.grace + time.Minute)
		require.Empty(t, ended, "a pod that came later and may not be evicted is waited for")
		w.remove("debug")
		require.NoError(t, <-ended)
		require.Equal(t, int32(3), status.Evicted)
		require.Len(t, w.asks(), 2)
	})
}

func TestADrainStopsWaitingForATerminatingPodAfterTheGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		drain := w.drain()
		drain.Spec.SkipWaitForDeleteSeconds = ptr.To[int32](60)
		w.refuse = func(*policyv1.Eviction) error {
			w.changeLocked(func(s *Snapshot) { s.Pods[0].DeletionTimestamp = &metav1.Time{Time: time.Now().Add(10 * time.Second)} })
			return apierrors.NewNotFound(corev1.Resource("pods"), "web-000") // its kubelet has failed: nothing removes it
		}
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
		requireTook(t, w, 70*time.Second)
	})
}

func TestAnInterruptedDrainContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := append(manyPods(2), webPod("bare", bare))
		pods[0].DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Second)}
		w := newWorld(pods)
		time.AfterFunc(time.Second, func() { w.remove("web-000"); w.remove("bare") })
		since := metav1.NewTime(w.began.Add(-time.Minute))
		drain := w.drain()
		drain.Before = &maintenancev1.DrainStatus{
			TotalPods: 12, PodsToEvict: 10, Evicted: 5,
			Blocked: []drydockv1.Blocker{{Kind: "Pod", Namespace: "shop", Name: "bare", Reason: "NoController", Since: &since}},
		}
		var first *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			if first == nil {
				first = wait
			}
		}
		status, err := drain.Run(t.Context())
		require.NoError(t, err, "a pod that came after the drain had begun does not end it")
		require.Equal(t, []ask{{"web-001", 0}}, w.asks(), "a pod that is leaving is not evicted again")
		require.Equal(t, int32(10), status.PodsToEvict)
		require.Equal(t, int32(10), status.Evicted)
		require.Equal(t, int64(12), status.TotalPods)
		require.Equal(t, since.Unix(), first.Blockers[0].Since.Unix())
	})
}

func TestACancelledDrainEndsAtOnceAndLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(3), webBudget(0, 2, 2, 3))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := w.drain().Run(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(w.began))
	})
}

// failingWatcher is a watch that fails.
type failingWatcher struct{ err error }

func (f failingWatcher) Await(context.Context, []client.Object, func(context.Context) (bool, error)) error {
	return f.err
}

func TestADrainWhoseWatchFailsReportsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
		drain := w.drain()
		drain.Watcher = failingWatcher{temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)}
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	})
}

func TestProgressCountsAndNamesTheRemainingPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(append(manyPods(30), webPod("agent", ownedBy("DaemonSet", "agent"))), webBudget(10, 30, 20, 30))
		var reports []maintenancev1.DrainStatus
		drain := w.drain()
		drain.Progress = func(status maintenancev1.DrainStatus, _ *drydockv1.Wait) { reports = append(reports, status) }
		var measured [2]int
		drain.Measure = func(remaining, blocked int) { measured = [2]int{remaining, blocked} }
		ended, _ := begin(t, drain)
		time.Sleep(w.grace + time.Second)
		synctest.Wait()
		require.Equal(t, [2]int{20, 20}, measured)
		last := reports[len(reports)-1]
		require.Equal(t, int64(31), last.TotalPods)
		require.Equal(t, int64(21), last.CurrentPods)
		require.Equal(t, int32(33), last.DrainProgress)
		require.Len(t, last.WaitForEviction, 20)
		require.Len(t, last.Blocked, 20)
		require.True(t, slices.IsSortedFunc(reports, func(a, b maintenancev1.DrainStatus) int { return int(a.Evicted - b.Evicted) }))
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 20 })
		require.NoError(t, <-ended)
		require.Equal(t, [2]int{0, 0}, measured)
	})
}
