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

// ReasonReturnsToNode is why a pod is only waited for: its controller puts on the node again what the drain evicts.
const ReasonReturnsToNode Reason = "ReturnsToNode"

// ReasonUncordoned is why a drain evicts nothing, and why a wait for pods to end is not over: the node was cordoned for it and is not any more, so that
// what is evicted may come back, and others may come.
const ReasonUncordoned Reason = "Uncordoned"

// mostReturns is how often pods of one controller may come to the node, each after the one before was evicted, until those that come next are only
// waited for. It is more than once: a pod that was bound right before the node was cordoned is seen late, too, and what tolerates the cordon may find
// another node the next time.
const mostReturns = 2

// meet takes in pods that must leave, each when it is first seen: how many of its controller were evicted one after the other before it came.
func (r *requests) meet(remaining []Decision) {
	for _, decision := range remaining {
		if _, met := r.returns[decision.pod.UID]; !met {
			r.returns[decision.pod.UID] = r.returnsOf(decision)
		}
	}
}

func (r *requests) returnsOf(decision Decision) (returns int) {
	if r.returnedBefore[decision.key()] {
		return mostReturns + 1
	}
	controller := controllerOf(decision.pod)
	for pod, request := range r.byPod {
		// An eviction that is not answered counts: what replaces the pod may be seen before the answer.
		if controller != "" && request.controller == controller && (request.inFlight || request.accepted) {
			returns = max(returns, r.returns[pod]+1)
		}
	}
	return returns
}

// forgetReturns is for a node that was open for a while: what has come to it need not come back.
func (r *requests) forgetReturns() {
	clear(r.returns)
	clear(r.returnedBefore)
	for _, request := range r.byPod {
		request.controller = ""
	}
}

// holdReturned holds back the pods whose eviction is in vain. One that has run to its end is only removed.
func (r *requests) holdReturned(decisions []Decision) {
	for i := range decisions {
		decision := &decisions[i]
		if decision.mustLeave() && decision.Reason != ReasonFinished && r.returns[decision.pod.UID] > mostReturns {
			decision.held = ReasonReturnsToNode
		}
	}
}

// controllerOf tells pods that replace each other from others; empty: nobody replaces it.
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
	return "it comes back to this node each time: " + why +
		"; change that or scale it down, and delete the pod if it stays, or leave it out of the drain (drainSpec.podSelector)"
}

// toleratesCordon reports whether the scheduler may put the pod, or one like it, on a cordoned node.
func toleratesCordon(pod *corev1.Pod) bool {
	cordon := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return schedulinghelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, cordon, false)
}

// uncordonedNode says that a node is not cordoned any more, what follows from that, and what to do.
func uncordonedNode(node, consequence string) *drydockv1.Blocker {
	return &drydockv1.Blocker{
		Kind: "Node", Name: node, Reason: string(ReasonUncordoned),
		Message: fmt.Sprintf("the node is not cordoned any more, so that %s: "+
			"cordon it (kubectl cordon %s), and the maintenance goes on, but you take that cordon back; or cancel it", consequence, node),
	}
}
