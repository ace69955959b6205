package health

import (
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// judgeDaemonSets returns the DaemonSets that should have a ready pod on the node and do not.
func judgeDaemonSets(node *corev1.Node, objects Objects) ([]drydockv1.Blocker, error) {
	listed, err := objects.List(daemonSetKind, "")
	if err != nil {
		return nil, err
	}
	if listed, err = selected(listed, nil); err != nil {
		return nil, err
	}
	daemonSets, err := allTyped[appsv1.DaemonSet](listed)
	if err != nil {
		return nil, err
	}
	pods, err := objects.PodsOn(node.Name)
	if err != nil {
		return nil, err
	}
	var blockers []drydockv1.Blocker
	for _, ds := range daemonSets {
		if b := judgeDaemonSet(ds, node, pods); b != nil {
			blockers = append(blockers, *b)
		}
	}
	return blockers, nil
}

// judgeDaemonSet returns why a DaemonSet has no ready pod on the node, or nil. A terminating pod does not count, and one ready pod is enough, because
// an update may run a second one. A DaemonSet that is being deleted needs no pod.
func judgeDaemonSet(ds *appsv1.DaemonSet, node *corev1.Node, pods []*corev1.Pod) *drydockv1.Blocker {
	if ds.DeletionTimestamp != nil {
		return nil
	}
	var unready *corev1.Pod
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, ds) || pod.DeletionTimestamp != nil {
			continue
		}
		if podReady(pod) {
			return nil
		}
		unready = pod
	}
	if unready != nil {
		message, since := whyNotReady(unready)
		b := blocker("Pod", unready, ReasonDaemonSetPodNotReady, fmt.Sprintf("pod of DaemonSet %s %s", ds.Name, message), since)
		return &b
	}
	if placesPodOn(ds, node) {
		b := blocker("DaemonSet", ds, ReasonDaemonSetPodMissing, "has no running pod on node "+node.Name, metav1.Time{})
		return &b
	}
	return nil
}

// placesPodOn reports whether the DaemonSet controller would create a pod on the node. It is that controller's own rule
// (NodeShouldRunDaemonPod): node name, node selector and required affinity, and no taint that keeps a new pod away.
func placesPodOn(ds *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := ds.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	// The controller also treats an invalid affinity as one that does not match.
	fits, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
	_, repelled := schedulingv1.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, daemonTolerations(spec), repelsNewPods, true)
	return fits && !repelled
}

func repelsNewPods(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// daemonTolerations are those of the template and those that the DaemonSet controller adds to every pod, including one for the cordon.
func daemonTolerations(spec corev1.PodSpec) []corev1.Toleration {
	tolerations := append([]corev1.Toleration(nil), spec.Tolerations...)
	add := func(effect corev1.TaintEffect, keys ...string) {
		for _, key := range keys {
			tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
		}
	}
	add(corev1.TaintEffectNoExecute, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	add(corev1.TaintEffectNoSchedule, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
		corev1.TaintNodeUnschedulable)
	if spec.HostNetwork {
		add(corev1.TaintEffectNoSchedule, corev1.TaintNodeNetworkUnavailable)
	}
	return tolerations
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// whyNotReady returns the state of a pod that is not ready, and since when.
func whyNotReady(pod *corev1.Pod) (string, metav1.Time) {
	var since metav1.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			since = c.LastTransitionTime
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			return fmt.Sprintf("is not ready: container %s waits%s", container.Name, because(waiting.Reason, waiting.Message)), since
		}
	}
	return fmt.Sprintf("is not ready: it is %s%s", pod.Status.Phase, because(pod.Status.Reason, pod.Status.Message)), since
}
