package drain

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func waitingFor(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
}

func TestAnUnhealthyPodIsNamedWithWhy(t *testing.T) {
	exited := func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3},
		}}}
	}
	probed := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	unplaced := func(pod *corev1.Pod) {
		pod.Spec.NodeName = ""
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available.",
		})
	}
	for described, pod := range map[string]corev1.Pod{
		"shop/a on worker-8 (container main: ImagePullBackOff)":                              webPod("a", elsewhere, unready, waitingFor("ImagePullBackOff")),
		"shop/a on worker-8 (container init: Error, exit code 3)":                            webPod("a", elsewhere, unready, exited),
		"shop/a on worker-8 (container main runs and is not ready: see its readiness probe)": webPod("a", elsewhere, unready, probed),
		"shop/a (no node takes it: 0/4 nodes are available: 4 Insufficient cpu)":             webPod("a", unready, unplaced),
		"shop/a on worker-8 (terminating)":                                                   webPod("a", elsewhere, terminatingSince(0)),
		"shop/a on worker-8 (not ready)":                                                     webPod("a", elsewhere, unready),
		"":                                                                                   webPod("a", elsewhere, waitingFor("ContainerCreating"), unreadySince(time.Second)),
	} {
		require.Equal(t, described, describeUnhealthy([]corev1.Pod{webPod("ready"), pod}, now))
	}
}

func TestADrainNamesTheUnhealthyPodsOfItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld([]corev1.Pod{webPod("web-1"), webPod("web-2", elsewhere, unready, waitingFor("ImagePullBackOff"))}, webBudget(0, 1, 1, 2))
		preview, err := Read(t.Context(), w, node)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"shop/web": "shop/web-2 on worker-8 (container main: ImagePullBackOff)"}, preview.Unhealthy)

		drain := w.drain()
		var mu sync.Mutex
		var wait *drydockv1.Wait
		drain.Progress = func(_ maintenancev1.DrainStatus, w *drydockv1.Wait) {
			mu.Lock()
			defer mu.Unlock()
			wait = w
		}
		ended, _ := begin(t, drain)
		synctest.Wait()
		mu.Lock()
		state := "(0 of 2 may be disrupted; 1 of 2 healthy, needs 1; not healthy: shop/web-2 on worker-8 (container main: ImagePullBackOff))"
		require.Equal(t, "1 pod blocked by PodDisruptionBudget shop/web "+state, wait.Message)
		mu.Unlock()

		w.change(func(s *Snapshot) { s.Pods[1] = webPod("web-2", elsewhere) })
		w.budget(func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 2, 1 })
		require.NoError(t, <-ended)
	})
}

func TestAnUnhealthyPodThatIsBlockedItselfMayBeLetGo(t *testing.T) {
	preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{webPod("a", unready)}, webBudget(0, 1, 2, 3)), maintenancev1.DrainSpec{}, now)
	require.NoError(t, err)
	require.Contains(t, preview.Pods[0].Message, "the pod is not ready itself: repair it, or let unhealthy pods leave with "+
		"`kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"unhealthyPodEvictionPolicy\":\"AlwaysAllow\"}}'`")
}
