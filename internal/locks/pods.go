package locks

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// presence is the state of the application's pods on a node.
type presence struct {
	ready bool
	// message names the missing part if they are not ready.
	message string
}

// presenceOf evaluates the application's pods on a node. It skips pods that have ended or are being deleted: their successors count.
func presenceOf(pods []corev1.Pod) presence {
	found := false
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		found = true
		if missing := notReady(&pod); missing != "" {
			return presence{message: fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, missing)}
		}
	}
	if !found {
		return presence{message: "no pod of the application is on the node"}
	}
	return presence{ready: true}
}

// notReady names the part of the pod that is not ready; empty: all are.
func notReady(pod *corev1.Pod) string {
	statuses := slices.Concat(pod.Status.ContainerStatuses, sidecars(pod))
	if want := len(pod.Spec.Containers); len(pod.Status.ContainerStatuses) < max(want, 1) {
		return fmt.Sprintf("%d of %d containers have started", len(pod.Status.ContainerStatuses), want)
	}
	for _, status := range statuses {
		if !status.Ready {
			return fmt.Sprintf("container %s is not ready", status.Name)
		}
	}
	// The kubelet of a failed node leaves its containers' statuses unchanged; only this condition is cleared.
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue {
			return "the pod is not ready"
		}
	}
	return ""
}

// sidecars are the init containers that keep running next to the others.
func sidecars(pod *corev1.Pod) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy == nil || *container.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		status := corev1.ContainerStatus{Name: container.Name}
		if i := slices.IndexFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name }); i >= 0 {
			status = pod.Status.InitContainerStatuses[i]
		}
		statuses = append(statuses, status)
	}
	return statuses
}
