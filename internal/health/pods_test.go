package health_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// podOf is a pod with a container for each of ready.
func podOf(name string, ready ...bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named("shop", name, map[string]string{"app": "web"}), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	all := corev1.ConditionTrue
	for _, r := range ready {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Ready: r})
		if !r {
			all = corev1.ConditionFalse
		}
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: all}}
	return pod
}

func TestAPodCheckRequiresAllContainersToBeReady(t *testing.T) {
	terminating, done, unseen, gated := podOf("old", false), podOf("job", false), podOf("new", true), podOf("gated", true)
	terminating.DeletionTimestamp = &metav1.Time{Time: began}
	done.Status.Phase = corev1.PodSucceeded
	unseen.Status.ObservedGeneration = 1
	gated.Status.Conditions[0].Status = corev1.ConditionFalse
	withoutCondition := podOf("unsaid", true)
	withoutCondition.Status.Conditions = nil
	failed := podOf("failed", false)
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "Evicted"

	for _, test := range []struct {
		name, reason, message string
		pods                  []health.Object
	}{
		{name: "all are ready", pods: []health.Object{podOf("a", true), podOf("b", true, true)}},
		{name: "without a Ready condition, its containers count", pods: []health.Object{withoutCondition}},
		{name: "pods that end or have ended do not count", pods: []health.Object{podOf("a", true), terminating, done}},
		{
			name: "one container of several is not ready", pods: []health.Object{podOf("a", true), podOf("b", true, false)},
			reason: health.ReasonPodNotReady, message: "Pod shop/b: 1 of 2 containers are ready: is not ready: it is Running",
		},
		{
			name: "a readiness gate is not met", pods: []health.Object{gated},
			reason: health.ReasonPodNotReady, message: "Pod shop/gated: 1 of 1 containers are ready: is not ready: it is Running",
		},
		{
			name: "a failed pod blocks until it is removed", pods: []health.Object{podOf("a", true), failed},
			reason: health.ReasonPodNotReady, message: "Pod shop/failed: 0 of 1 containers are ready: is not ready: it is Failed: Evicted",
		},
		{
			name: "a status about an older generation does not count", pods: []health.Object{unseen},
			reason: health.ReasonGenerationNotObserved, message: "Pod shop/new: generation 2 is not observed yet: its status is about generation 1",
		},
		{name: "no pod is left", pods: []health.Object{terminating}, reason: health.ReasonNothingFound, message: "found no pod in namespace shop with labels app=web"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := drydockv1.HealthCheck{Name: "web", Pods: &drydockv1.PodCheck{
				Namespace: "shop", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}}
			result, err := health.Evaluate(t.Context(), check, "", clusterOf(test.pods...))
			require.NoError(t, err)
			require.Equal(t, test.reason == "", result.Healthy)
			require.Equal(t, test.reason, result.Reason)
			if !result.Healthy {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}
