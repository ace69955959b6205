package drain

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

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
		require.Equal(t, evictionRequest{"web", opened}, w.evictionRequests()[len(w.evictionRequests())-1], "requested when the budget opened")
		requireTook(t, w, opened+w.grace)
		require.Equal(t, int32(2), status.Evicted)
	})
}

func TestABudgetThatAllowsOneDisruptionGetsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(20), webBudget(0, 18, 18, 20))
		ended, _ := begin(t, w.drain())
		require.Len(t, w.evictionRequests(), 1, "one request confirms that the budget allows none")
		time.Sleep(time.Second)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
		soon()
		require.Len(t, w.evictionRequests(), 2)
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 19 })
		soon()
		require.Len(t, w.evictionRequests(), 21)
		require.NoError(t, <-ended)
		require.Len(t, w.evictionRequests(), 21, "only the first eviction was refused")
	})
}

func TestABudgetThatAllowsAFewDisruptionsGetsAsManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(250), webBudget(3, 250, 247, 250))
		ended, _ := begin(t, w.drain())
		require.ElementsMatch(t, []evictionRequest{{"web-000", 0}, {"web-001", 0}, {"web-002", 0}}, w.evictionRequests())
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 247 })
		require.NoError(t, <-ended)
		require.Len(t, w.evictionRequests(), 250)
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
		require.Equal(t, []evictionRequest{{"web-000", 0}, {"web-001", 5 * time.Second}, {"web-000", 10 * time.Second}}, w.evictionRequests(), "the pods alternate")
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
		require.Equal(t, evictionRequest{"web-000", time.Second}, w.evictionRequests()[1])
	})
}

func TestOtherRefusalsAreRetriedAfterTheRequestedDelay(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("pods"), "web", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	multiple := apierrors.NewGenericServerResponse(500, "create", corev1.Resource("pods"), "web",
		"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0, false)
	cases := []struct {
		name   string
		result error
		reason Reason
		again  []time.Duration
	}{
		{name: "a busy API server with a retry delay", result: apierrors.NewTooManyRequests("slow down", 7), reason: ReasonServerBusy, again: []time.Duration{0, 7, 14}},
		{name: "a busy API server without a retry delay", result: apierrors.NewTooManyRequestsError("slow down"), reason: ReasonServerBusy, again: []time.Duration{0, 1, 3, 7, 15, 31, 47}},
		{name: "a fault of the API server", result: apierrors.NewInternalError(fmt.Errorf("etcd")), reason: ReasonServerError, again: []time.Duration{0, 1, 3, 7, 15, 31, 47}},
		{name: "no answer", result: context.DeadlineExceeded, reason: ReasonServerError, again: []time.Duration{0, 1, 3, 7}},
		{name: "a missing right", result: mayNotEvict("web"), reason: ReasonForbidden, again: []time.Duration{0, 2, 4, 6, 8, 10, 12, 14, 16}},
		{name: "a webhook that refuses", result: apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("admission webhook")), reason: ReasonEvictionRefused, again: []time.Duration{0, 1, 3, 7}},
		{name: "a terminating namespace", result: terminating, reason: ReasonNamespaceTerminating, again: []time.Duration{0, 1, 3}},
		{name: "a pod under two budgets that the cache does not know yet", result: multiple, reason: ReasonMultipleBudgets, again: []time.Duration{0, 5, 10}},
		{name: "a budget that the cache does not know yet", result: budgetRefusal("needs 2"), reason: ReasonDisruptionBudget, again: []time.Duration{0, 5, 10}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld([]corev1.Pod{webPod("web"), webPod("other")})
				w.refuse = func(eviction *policyv1.Eviction) error {
					if eviction.Name == "web" && len(w.requests) <= len(c.again) {
						return c.result
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
				for _, request := range w.evictionRequests() {
					if request.pod == "web" {
						again = append(again, request.at/time.Second)
					}
				}
				require.Equal(t, c.again, again[:len(c.again)])
				require.Equal(t, string(c.reason), reported.Reason, "the wait reports the refusal")
			})
		})
	}
}

// mayNotEvict is the answer to a user without the right to evict.
func mayNotEvict(pod string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), pod,
		fmt.Errorf(`User "drydock-initiator" cannot create resource "pods/eviction" in API group "" in the namespace "shop"`))
}

func TestAMissingRightIsNamedOnceAndAllPodsLeaveSoonAfterItIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(5))
		granted := time.Now().Add(time.Minute)
		w.refuse = func(eviction *policyv1.Eviction) error {
			if time.Now().Before(granted) {
				return mayNotEvict(eviction.Name)
			}
			return nil
		}
		var waits []drydockv1.Wait
		drain := w.drain()
		drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			if wait != nil && wait.Reason == string(ReasonForbidden) {
				waits = append(waits, *wait)
			}
		}
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
		requests := w.evictionRequests()
		require.LessOrEqual(t, requests[len(requests)-1].at, time.Minute+rightInterval, "all pods leave soon after the right is granted")
		require.LessOrEqual(t, len(requests), 5+30+5, "one pod shows whether it is granted")
		const message = `5 pods not evicted yet (shop/web-000, shop/web-001, shop/web-002, and 2 more): ` +
			`User "drydock-initiator" cannot create resource "pods/eviction" in API group "" in the namespace "shop": grant the worker's user the roles of deploy/rbac`
		require.True(t, slices.ContainsFunc(waits, func(wait drydockv1.Wait) bool { return wait.Message == message }), "%v", waits)
	})
}

func TestAPodIsReadBeforeARetryAfterAServerFault(t *testing.T) {
	for name, became := range map[string]func(*corev1.Pod){
		"it terminates":            func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"another pod has its name": func(pod *corev1.Pod) { pod.UID = "another" },
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
				require.Len(t, server.evictionRequests(), 1)
				for _, w := range []*world{server, behind} {
					w.remove(behind.snapshot.Pods[0].Name)
				}
				require.NoError(t, <-ended)
			})
		})
	}
}

func TestAPodThatTheAPIServerNoLongerHasIsGone(t *testing.T) {
	for name, result := range map[string]error{
		"not found":                             apierrors.NewNotFound(corev1.Resource("pods"), "web"),
		"with another UID":                      apierrors.NewConflict(corev1.Resource("pods"), "web", fmt.Errorf("UID in precondition")),
		"evicted, and another pod has its name": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld([]corev1.Pod{webPod("web")})
				w.refuse = func(*policyv1.Eviction) error { return result }
				ended, _ := begin(t, w.drain())
				time.Sleep(100 * time.Millisecond)
				replacement := webPod("web", elsewhere)
				replacement.UID = "another"
				w.change(func(s *Snapshot) { s.Pods[0] = replacement })
				require.NoError(t, <-ended)
				require.Len(t, w.evictionRequests(), 1)
				requireTook(t, w, 100*time.Millisecond)
			})
		})
	}
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
