package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readUnhealthy returns, for each budget that allows the pods no disruption because others are not healthy, these pods and why. nil: no such budget.
func (s *Snapshot) readUnhealthy(ctx context.Context, reader client.Reader, now time.Time) (map[string]string, error) {
	var unhealthy map[string]string
	budgets := newBudgets(s.Budgets)
	for i := range s.Pods {
		for _, budget := range budgets.of(&s.Pods[i]) {
			if _, read := unhealthy[budget.key()]; read || budget.allowed() > 0 || budget.never() || budget.Status.CurrentHealthy >= budget.Status.ExpectedPods {
				continue
			}
			var members corev1.PodList
			selected := client.MatchingLabelsSelector{Selector: budget.selector}
			if err := reader.List(ctx, &members, client.InNamespace(budget.Namespace), selected, client.UnsafeDisableDeepCopy); err != nil {
				return nil, fmt.Errorf("list the pods of PodDisruptionBudget %s: %w", budget.key(), err)
			}
			if unhealthy == nil {
				unhealthy = map[string]string{}
			}
			unhealthy[budget.key()] = describeUnhealthy(members.Items, now)
		}
	}
	return unhealthy, nil
}

// describeUnhealthy names the pods that are not ready, and why, e.g. "shop/web-1 on worker-2 (container web: ImagePullBackOff)". It omits those that
// may only be starting.
func describeUnhealthy(pods []corev1.Pod, now time.Time) string {
	var described []string
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		pod := &sorted[i]
		if isFinished(pod) || healthy(pod) || pod.DeletionTimestamp.IsZero() && now.Before(notReadyAt(pod).Add(patience)) {
			continue
		}
		where := " on " + pod.Spec.NodeName
		if pod.Spec.NodeName == "" {
			where = ""
		}
		described = append(described, fmt.Sprintf("%s%s (%s)", nameOf(pod), where, unhealthyBecause(pod)))
	}
	return shorten(described)
}

func healthy(pod *corev1.Pod) bool {
	ready := conditionOf(pod, corev1.PodReady)
	return pod.DeletionTimestamp.IsZero() && ready != nil && ready.Status == corev1.ConditionTrue
}

func notReadyAt(pod *corev1.Pod) time.Time {
	if ready := conditionOf(pod, corev1.PodReady); ready != nil {
		return ready.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// unhealthyBecause is why a pod is not ready.
func unhealthyBecause(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return "terminating"
	}
	if scheduled := conditionOf(pod, corev1.PodScheduled); pod.Spec.NodeName == "" && scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		reason, _, _ := strings.Cut(scheduled.Message, ". ") // what follows is about preemption
		return "no node takes it: " + strings.TrimSuffix(cmp.Or(reason, scheduled.Reason), ".")
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "PodInitializing":
			return fmt.Sprintf("container %s: %s", container.Name, cmp.Or(state.Waiting.Reason, "waiting"))
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			return fmt.Sprintf("container %s: %s, exit code %d", container.Name, cmp.Or(state.Terminated.Reason, "terminated"), state.Terminated.ExitCode)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running != nil && !container.Ready {
			return fmt.Sprintf("container %s runs and is not ready: see its readiness probe", container.Name)
		}
	}
	if ready := conditionOf(pod, corev1.PodReady); ready != nil && ready.Message != "" {
		return ready.Message
	}
	return "not ready"
}

// nameUnhealthy adds the unhealthy pods of the budgets. Between passes they are read again only after a while: a namespace may have many pods.
func (r *run) nameUnhealthy(ctx context.Context, snapshot *Snapshot) error {
	if now := time.Now(); !now.Before(r.unhealthyRead.Add(patience)) {
		unhealthy, err := snapshot.readUnhealthy(ctx, r.Cache, now)
		if err != nil {
			return err
		}
		if r.unhealthy = unhealthy; unhealthy != nil {
			r.unhealthyRead = now
		}
	}
	snapshot.Unhealthy = r.unhealthy
	return nil
}
