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
		name  string
		story func(w *world)
		ready bool
		says  string
	}{
		{name: "all of its containers are ready", story: func(*world) {}, ready: true},
		{
			name: "one container is not ready", story: func(w *world) { w.setPod("n1", false) },
			says: "pod tf/vrouter-n1: container agent is not ready",
		},
		{
			name: "a container has not started", story: func(w *world) {
				w.snapshot.Pods[0].Status.ContainerStatuses = w.snapshot.Pods[0].Status.ContainerStatuses[:1]
			},
			says: "pod tf/vrouter-n1: 1 of 2 containers have started",
		},
		{
			name: "a sidecar is not ready", story: func(w *world) {
				w.snapshot.Pods[0].Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: &always}}
			},
			says: "pod tf/vrouter-n1: container proxy is not ready",
		},
		{
			name: "the node's kubelet has failed: the last statuses of its containers do not count", story: func(w *world) {
				w.snapshot.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			},
			says: "pod tf/vrouter-n1: the pod is not ready",
		},
		{name: "there is no pod", story: func(w *world) { w.removePod("n1") }, says: "no pod of the application is on the node"},
		{
			name: "a pod in another namespace has the same labels", story: func(w *world) { w.snapshot.Pods[0].Namespace = "other" },
			says: "no pod of the application is on the node",
		},
		{
			name: "there is one of another application", story: func(w *world) { w.snapshot.Pods[0].Labels = nil },
			says: "no pod of the application is on the node",
		},
		{
			name: "the only one is being deleted", story: func(w *world) {
				w.snapshot.Pods[0].DeletionTimestamp = &metav1.Time{Time: t0}
			},
			says: "no pod of the application is on the node",
		},
		{
			name: "one is being deleted and its successor is ready", story: func(w *world) {
				w.snapshot.Pods[0].DeletionTimestamp = &metav1.Time{Time: t0}
				w.snapshot.Pods[0].Status.ContainerStatuses = nil
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "one has failed and its successor is ready", story: func(w *world) {
				w.setPod("n1", false)
				w.snapshot.Pods[len(w.snapshot.Pods)-1].Status.Phase = corev1.PodFailed
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "one has succeeded and its successor is ready", story: func(w *world) {
				w.setPod("n1", false)
				w.snapshot.Pods[len(w.snapshot.Pods)-1].Status.Phase = corev1.PodSucceeded
				w.addPod("n1", true)
			},
			ready: true,
		},
		{
			name: "of two, one is not ready", story: func(w *world) { w.addPod("n1", false) },
			says: "pod tf/vrouter-n1: container agent is not ready",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "n1")
			w.settle()
			test.story(w)
			w.request("n1")
			got := of(w.settle(), "n1")
			if test.ready {
				require.Equal(t, inactive, got.To)
				require.Equal(t, locks.PodReady, got.Reason)
				return
			}
			require.Equal(t, active, got.To)
			require.Equal(t, locks.PodNotReady, got.Reason)
			require.Equal(t, test.says, got.Message)
		})
	}
}
