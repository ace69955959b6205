package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/locks"
)

func TestThePodOfTheApplicationMustBeReady(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, test := range []struct {
		name    string
		setup   func(w *world)
		ready   bool
		message string
	}{
		{name: "all of its containers are ready", setup: func(*world) {}, ready: true},
		{
			name: "one container is not ready", setup: func(w *world) { w.setPod("n1", false) },
			message: "pod tf/vrouter-n1: container agent is not ready",
		},
		{
			name: "a container has not started", setup: func(w *world) {
				w.snapshot.Pods[0].Status.ContainerStatuses = w.snapshot.Pods[0].Status.ContainerStatuses[:1]
			},
			message: "pod tf/vrouter-n1: 1 of 2 containers have started",
		},
		{
			name: "a sidecar is not ready", setup: func(w *world) {
				w.snapshot.Pods[0].Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: &always}}
			},
			message: "pod tf/vrouter-n1: container proxy is not ready",
		},
		{
			name: "the node's kubelet has failed: the last statuses of its containers do not count", setup: func(w *world) {
				w.snapshot.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			},
			message: "pod tf/vrouter-n1: the pod is not ready",
		},
		{name: "there is no pod", setup: func(w *world) { w.removePod("n1") }, message: "no pod of the application is on the node"},
		{
			name: "a pod in another namespace has the same labels", setup: func(w *world) { w.snapshot.Pods[0].Namespace = "other" },
			message: "no pod of the application is on the node",
		},
		{
			name: "the pod belongs to another application", setup: func(w *world) { w.snapshot.Pods[0].Labels = nil },
			message: "no pod of the application is on the node",
		},
		{
			name: "the only pod is being deleted", setup: func(w *world) {
				w.snapshot.Pods[0].DeletionTimestamp = &metav1.Time{Time: t0}
			},
			message: "no pod of the application is on the node",
		},
		{
			name: "a pod is being deleted and its successor is ready", setup: func(w *world) {
				w.snapshot.Pods[0].DeletionTimestamp = &metav1.Time{Time: t0}
				w.snapshot.Pods[0].Status.ContainerStatuses = nil
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "a pod has failed and its successor is ready", setup: func(w *world) {
				w.setPod("n1", false)
				w.snapshot.Pods[len(w.snapshot.Pods)-1].Status.Phase = corev1.PodFailed
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "a pod has succeeded and its successor is ready", setup: func(w *world) {
				w.setPod("n1", false)
				w.snapshot.Pods[len(w.snapshot.Pods)-1].Status.Phase = corev1.PodSucceeded
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "one of two pods is not ready", setup: func(w *world) { w.addPod("n1", false) },
			message: "pod tf/vrouter-n1: container agent is not ready",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "n1")
			w.settle()
			test.setup(w)
			w.request("n1")
			got := of(w.settle(), "n1")
			if test.ready {
				require.Equal(t, inactive, got.To)
				require.Equal(t, locks.PodReady, got.Reason)
				return
			}
			require.Equal(t, active, got.To)
			require.Equal(t, locks.PodNotReady, got.Reason)
			require.Equal(t, test.message, got.Message)
		})
	}
}
