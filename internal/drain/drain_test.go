package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
	time.Sleep(2 * minPassInterval)
	synctest.Wait()
}

// requireTook checks the time since the world began, with a tolerance of one pass interval.
func requireTook(t *testing.T, w *world, want time.Duration) {
	t.Helper()
	require.InDelta(t, want, time.Since(w.began), float64(2*minPassInterval))
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
		require.Len(t, w.evictionRequests(), 250)
		for _, request := range w.evictionRequests() {
			require.Zero(t, request.at, "all evictions start together")
		}
		require.Equal(t, maintenancev1.DrainStatus{TotalPods: 251, CurrentPods: 1, EvictionPods: 250, Evicted: 250, DrainProgress: 100, Attempt: 1}, status)
	})
}

// recordingReader records the namespaces in which a drain lists budgets and DaemonSets, and in which it watches budgets.
type recordingReader struct {
	*world
	mu      sync.Mutex
	listed  map[string]bool
	watched map[string]bool
}

func (a *recordingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); !pods {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.listed[(&client.ListOptions{}).ApplyOptions(options).Namespace] = true
	}
	return a.world.List(ctx, list, options...)
}

func (a *recordingReader) Await(ctx context.Context, kinds []client.Object, check func(context.Context) (bool, error)) error {
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
		a := &recordingReader{world: w, listed: map[string]bool{}, watched: map[string]bool{}}
		drain := w.drain()
		drain.Cache, drain.Watcher = a, a
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"shop": true, "bank": true, "system": true}, a.listed)
		require.Equal(t, map[string]bool{"shop": true, "bank": true}, a.watched, "no pod has to leave the other namespaces")
	})
}

func TestANodeWithoutEvictionPodsIsDrainedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("agent", ownedBy("DaemonSet", "agent"))})
		status, err := w.drain().Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, maintenancev1.DrainStatus{TotalPods: 1, CurrentPods: 1, DrainProgress: 100, Attempt: 1}, status)
		require.Empty(t, w.evictionRequests())
	})
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
		require.Empty(t, w.evictionRequests())
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
		require.Equal(t, []evictionRequest{{"web", 0}}, w.evictionRequests())
		require.Equal(t, int32(2), status.Attempt)
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
		require.Equal(t, "drain worker-7: 2 pods blocked by PodDisruptionBudget shop/web (its minAvailable is 3, and it selects 3 pods): "+
			"add replicas, or lower it with `kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"minAvailable\":2}}'`; "+
			"1 pod in an unknown state, because the node is not Ready: shop/stuck", temporal.ErrorMessage(err))
		blockers := temporal.Blockers(err)
		require.Len(t, blockers, 3)
		require.Equal(t, "DisruptionBudgetNever", blockers[0].Reason, "sorted by gravity")
		require.Equal(t, "NodeNotReady", blockers[2].Reason)
		require.WithinDuration(t, w.began, blockers[0].Since.Time, 2*minPassInterval)
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
		require.Empty(t, w.evictionRequests())
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

func TestPodsThatAppearDuringTheDrainLeaveToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		ended, status := begin(t, w.drain())
		w.change(func(s *Snapshot) { s.Pods = append(s.Pods, webPod("late"), webPod("debug", bare)) })
		soon()
		require.Equal(t, []evictionRequest{{"web-000", 0}, {"late", minPassInterval}}, w.evictionRequests())
		time.Sleep(w.grace + time.Minute)
		require.Empty(t, ended, "the drain waits for a late pod that may not be evicted")
		w.remove("debug")
		require.NoError(t, <-ended)
		require.Equal(t, int32(3), status.Evicted)
		require.Len(t, w.evictionRequests(), 2)
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
			TotalPods: 12, EvictionPods: 10, Evicted: 5,
			Blocked: []drydockv1.Blocker{{Kind: "Pod", Namespace: "shop", Name: "bare", Reason: "NoController", Since: &since}},
		}
		var first *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			if first == nil {
				first = wait
			}
		}
		status, err := drain.Run(t.Context())
		require.NoError(t, err, "a late pod does not end the drain")
		require.Equal(t, []evictionRequest{{"web-001", 0}}, w.evictionRequests(), "a pod that is leaving is not evicted again")
		require.Equal(t, int32(10), status.EvictionPods)
		require.Equal(t, int32(10), status.Evicted)
		require.Equal(t, int64(12), status.TotalPods)
		require.Equal(t, since.Unix(), first.Blockers[0].Since.Unix())
	})
}

func TestACancelledDrainEndsImmediatelyAndLeavesNothingRunning(t *testing.T) {
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

func TestADrainProgressesUntilSomethingStopsIt(t *testing.T) {
	for _, reason := range gravest {
		progresses := reason == ReasonTerminating || reason == ReasonEvicting || reason == ReasonPodOrder
		require.Equal(t, progresses, Progresses(&drydockv1.Wait{Reason: string(reason)}), reason)
	}
	require.False(t, Progresses(&drydockv1.Wait{Reason: "Uncordoned"}))
	require.True(t, Progresses(nil))
}
