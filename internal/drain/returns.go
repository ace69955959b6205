package drain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// ReasonReturnsToNode: the pod's controller creates its replacement on the same node each time, so the drain only waits for it.
const ReasonReturnsToNode Reason = "ReturnsToNode"

// ReasonUncordoned: the node was cordoned for the drain or for the wait, and is not now. Evicted pods may return, and others may arrive, so nothing
// is evicted and the wait continues.
const ReasonUncordoned Reason = "Uncordoned"

// maxReturns is how often a pod of one controller may arrive at the node after the one before was evicted, until the drain only waits for it. It is
// more than once: a pod bound right before the cordon may be seen late, and a pod that tolerates the cordon may get another node the next time.
const maxReturns = 2

// meet records pods that must leave when they are first seen, with how many pods of their controller were evicted before, one after the other.
func (r *requests) meet(remaining []Decision) {
	for _, decision := range remaining {
		if _, seen := r.returns[decision.pod.UID]; !seen {
			r.returns[decision.pod.UID] = r.returnsOf(decision)
		}
	}
}

func (r *requests) returnsOf(decision Decision) (returns int) {
	if r.returnedBefore[decision.key()] {
		return maxReturns + 1
	}
	controller := controllerOf(decision.pod)
	for pod, request := range r.byPod {
		// An eviction without an answer counts: the replacement may be seen before the answer.
		if controller != "" && request.controller == controller && (request.inFlight || request.accepted) {
			returns = max(returns, r.returns[pod]+1)
		}
	}
	return returns
}

// forgetReturns handles a node that was uncordoned for a while: pods that arrived then need not return.
func (r *requests) forgetReturns() {
	clear(r.returns)
	clear(r.returnedBefore)
	for _, request := range r.byPod {
		request.controller = ""
	}
}

// holdReturned defers the pods whose eviction does not help. The eviction of an ended pod only removes it.
func (r *requests) holdReturned(decisions []Decision) {
	for i := range decisions {
		decision := &decisions[i]
		if decision.mustLeave() && decision.Reason != ReasonFinished && r.returns[decision.pod.UID] > maxReturns {
			decision.held = ReasonReturnsToNode
		}
	}
}

// controllerOf identifies pods that replace each other; empty: no controller replaces the pod.
func controllerOf(pod *corev1.Pod) types.UID {
	if controller := metav1.GetControllerOf(pod); controller != nil {
		return controller.UID
	}
	return ""
}

func returnsMessage(pod *corev1.Pod, node *corev1.Node) string {
	why := "it does not tolerate the cordon, so its template may name the node (spec.nodeName)"
	switch {
	case !node.Spec.Unschedulable:
		why = "the node is not cordoned"
	case toleratesCordon(pod):
		why = "it tolerates the cordon (taint " + corev1.TaintNodeUnschedulable + ")"
	}
	return "it returns to this node each time: " + why +
		"; change that or scale it down, and delete the pod if it stays, or leave it out of the drain (drainSpec.podSelector)"
}

// toleratesCordon reports whether the scheduler may place such a pod on a cordoned node.
func toleratesCordon(pod *corev1.Pod) bool {
	cordon := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return schedulinghelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, cordon, false)
}

// uncordonedNode reports that a node is no longer cordoned, the consequence, and what to do.
func uncordonedNode(node, consequence string) *drydockv1.Blocker {
	return &drydockv1.Blocker{
		Kind: "Node", Name: node, Reason: string(ReasonUncordoned),
		Message: fmt.Sprintf("the node is no longer cordoned, so %s: "+
			"run `kubectl cordon %s` to continue the maintenance (you then uncordon it yourself), or cancel it", consequence, node),
	}
}
