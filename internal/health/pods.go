package health

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// evaluatePods requires every selected pod to be ready, and at least one pod. A finished or terminating pod does not count.
func evaluatePods(check drydockv1.PodCheck, objects Objects) (Result, error) {
	listed, err := objects.List(podKind, check.Namespace)
	if err != nil {
		return Result{}, err
	}
	if listed, err = selected(listed, check.Selector); err != nil {
		return Result{}, fmt.Errorf("pods: %w", err)
	}
	pods, err := allTyped[corev1.Pod](listed)
	if err != nil {
		return Result{}, err
	}
	found := 0
	var blockers []drydockv1.Blocker
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		found++
		if b := judgePod(pod); b != nil {
			blockers = append(blockers, *b)
		}
	}
	if found == 0 {
		return Result{Reason: ReasonNothingFound, Message: "found no pod in namespace " + check.Namespace + withLabels(check.Selector)}, nil
	}
	return judged(fmt.Sprintf("%d pods in namespace %s are ready", found, check.Namespace), blockers), nil
}

// judgePod returns why one pod fails, or nil. The kubelet reports a generation since Kubernetes 1.34.
func judgePod(pod *corev1.Pod) *drydockv1.Blocker {
	if observed := pod.Status.ObservedGeneration; observed != 0 && observed < pod.Generation {
		return blocking("Pod", pod, *notObserved(pod.Generation, observed))
	}
	ready := 0
	for _, container := range pod.Status.ContainerStatuses {
		if container.Ready {
			ready++
		}
	}
	// The kubelet of a failed node leaves its containers' statuses unchanged; only this condition is cleared.
	notReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue
	})
	if wanted := len(pod.Spec.Containers); ready < wanted || notReady {
		message, since := whyNotReady(pod)
		b := blocker("Pod", pod, ReasonPodNotReady, fmt.Sprintf("%d of %d containers are ready: %s", ready, wanted, message), since)
		return &b
	}
	return nil
}
