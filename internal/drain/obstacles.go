package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Reasons of pods that are leaving.
const (
	// ReasonEvicting: its eviction has no answer yet, or the pod has not started to terminate.
	ReasonEvicting Reason = "Evicting"
	// ReasonNodeNotReady: the pod terminates, or should end by itself, but the node's kubelet reports nothing.
	ReasonNodeNotReady Reason = "NodeNotReady"
)

// gravest orders reasons by how much they need a person: a wait shows the first.
var gravest = []Reason{
	ReasonNoController, ReasonLocalStorage, ReasonDaemonSetGone, ReasonReturnsToNode, ReasonDeadlock, ReasonMultipleBudgets,
	ReasonDisruptionBudgetNever, ReasonForbidden, ReasonEvictionRefused, ReasonServerError, ReasonDisruptionBudget, ReasonServerBusy, ReasonNamespaceTerminating,
	ReasonNodeNotReady, ReasonPodsRunning, ReasonTerminating, ReasonEvicting, ReasonPodOrder,
}

// Progresses reports whether a drain with this wait continues by itself: its pods leave, or wait for their order.
func Progresses(wait *drydockv1.Wait) bool {
	if wait == nil {
		return true
	}
	switch Reason(wait.Reason) {
	case ReasonEvicting, ReasonTerminating, ReasonPodOrder:
		return true
	}
	return false
}

// obstacle is a pod that must leave and has not, and why.
type obstacle struct {
	decision Decision
	reason   Reason
	message  string
	// since when; the zero time: unknown.
	since time.Time
}

// blocks reports whether something blocks the pod; otherwise it is leaving, or waits for its order.
func (o obstacle) blocks() bool {
	switch o.reason {
	case ReasonEvicting, ReasonTerminating, ReasonNodeNotReady, ReasonPodOrder:
		return false
	}
	return true
}

func (o obstacle) blocker() drydockv1.Blocker {
	message := o.message
	if o.reason == ReasonForbidden {
		message = "the worker's user may not evict it" // the wait says which right it lacks
	}
	if o.decision.Owner != "" {
		message += " (owner " + o.decision.Owner + ")"
	}
	blocker := drydockv1.Blocker{
		Kind: "Pod", Namespace: o.decision.Namespace, Name: o.decision.Name, Reason: string(o.reason), Message: message,
	}
	if !o.since.IsZero() {
		blocker.Since = new(metav1.NewTime(o.since))
	}
	return blocker
}

// obstacleOf returns why a pod is still there.
func obstacleOf(decision Decision, known *request, node *corev1.Node) obstacle {
	o := obstacle{decision: decision, reason: decision.Reason, message: decision.Message}
	switch {
	case decision.Refused():
	case !decision.pod.DeletionTimestamp.IsZero():
		o.reason, o.message = terminating(decision.pod, node)
	case decision.Action == Block:
		// The current state of the budgets says more than an earlier answer.
	case decision.held == ReasonReturnsToNode:
		o.reason, o.message = decision.held, returnsMessage(decision.pod, node)
	case decision.held == ReasonPodOrder:
		o.reason, o.message = decision.held, decision.orderMessage()
	case decision.Reason == ReasonDisruptionBudget && (known == nil || known.refusal != nil && known.refusal.byBudget):
	case known == nil, known.refusal == nil, known.refusal.gone:
		o.reason, o.message = ReasonEvicting, "its eviction is requested"
	default:
		o.reason, o.message = known.refusal.reason, known.refusal.message
	}
	return o
}

// in reports the deadlock that the pod's budget is part of, if any.
func (o obstacle) in(deadlocks map[string]deadlock) obstacle {
	budget := o.decision.budget
	if found, ok := deadlocks[budget.key]; ok && o.reason == ReasonDisruptionBudget {
		o.reason, o.message = ReasonDeadlock, found.message(budget.key, budget.state)
	}
	return o
}

// nodeNotReady explains why a pod reports nothing, and what to do.
const nodeNotReady = "the node is not Ready, so the end of the pod is not reported: repair the node, or, if its machine is off, " +
	"delete the node or the pod (kubectl delete pod --force)"

// notEnded returns why a pod that should end by itself is still there.
func notEnded(pod *corev1.Pod, node *corev1.Node) (Reason, string) {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return terminating(pod, node)
	case !ready(node):
		return ReasonNodeNotReady, nodeNotReady
	}
	return ReasonPodsRunning, ""
}

func terminating(pod *corev1.Pod, node *corev1.Node) (Reason, string) {
	message := fmt.Sprintf("its grace period ends at %s", pod.DeletionTimestamp.UTC().Format(time.RFC3339))
	if len(pod.Finalizers) > 0 {
		message += "; it is kept by finalizers " + strings.Join(pod.Finalizers, ", ")
	}
	if node != nil && !ready(node) {
		return ReasonNodeNotReady, message + "; " + nodeNotReady
	}
	return ReasonTerminating, message
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// refused returns the obstacles that prevent the start of the drain.
func (p *progress) refused() []obstacle {
	return slices.DeleteFunc(slices.Clone(p.obstacles), func(o obstacle) bool { return !o.decision.Refused() })
}

// blocking returns the obstacles that are blocked, not only leaving.
func blocking(obstacles []obstacle) []obstacle {
	return slices.DeleteFunc(slices.Clone(obstacles), func(o obstacle) bool { return !o.blocks() })
}

// gravestFirst sorts obstacles by how much they need a person: a status names only the first.
func gravestFirst(obstacles []obstacle) []obstacle {
	return slices.SortedStableFunc(slices.Values(obstacles), func(a, b obstacle) int {
		return cmp.Compare(slices.Index(gravest, a.reason), slices.Index(gravest, b.reason))
	})
}

func blockers(obstacles []obstacle) []drydockv1.Blocker {
	var named []drydockv1.Blocker
	for _, o := range obstacles {
		named = append(named, o.blocker())
	}
	return named
}

// gravestReason returns the reason to show for all obstacles; empty without any.
func gravestReason(obstacles []obstacle) Reason {
	for _, reason := range gravest {
		if slices.ContainsFunc(obstacles, func(o obstacle) bool { return o.reason == reason }) {
			return reason
		}
	}
	return ""
}

// summarize describes the obstacles in one line: gravest first, pods that wait for the same thing together.
func summarize(obstacles []obstacle) string {
	var lines []string
	for _, reason := range gravest {
		var order []string
		groups := map[string][]obstacle{}
		for _, o := range obstacles {
			if o.reason != reason {
				continue
			}
			if groups[o.group()] == nil {
				order = append(order, o.group())
			}
			groups[o.group()] = append(groups[o.group()], o)
		}
		for _, group := range order {
			lines = append(lines, describe(reason, groups[group]))
		}
	}
	const shown = 8
	if more := len(lines) - shown; more > 0 {
		lines = append(lines[:shown], fmt.Sprintf("and %d more reasons", more))
	}
	return strings.Join(lines, "; ")
}

// group identifies the wait of the pod among pods with the same reason.
func (o obstacle) group() string {
	switch o.reason {
	case ReasonDisruptionBudget, ReasonDisruptionBudgetNever, ReasonMultipleBudgets, ReasonDeadlock:
		return o.decision.budget.key
	case ReasonForbidden, ReasonEvictionRefused, ReasonServerError, ReasonReturnsToNode:
		return o.message
	}
	return ""
}

// describe describes a group of pods with one reason and the same budgets.
func describe(reason Reason, group []obstacle) string {
	first := group[0]
	switch reason {
	case ReasonDisruptionBudget, ReasonDisruptionBudgetNever:
		if budget := first.decision.budget; budget.state != "" {
			return strings.TrimSuffix(fmt.Sprintf("%s blocked by PodDisruptionBudget %s (%s%s): %s", count(group), budget.key, budget.state, budget.unhealthy, budget.advice), ": ")
		}
	case ReasonDeadlock:
		return fmt.Sprintf("%s in a deadlock: %s", count(group), first.message)
	case ReasonMultipleBudgets:
		return fmt.Sprintf("%s blocked by several PodDisruptionBudgets at once (%s), which the API server does not evict: delete all but one, or narrow their selectors",
			count(group), strings.Join(first.decision.Budgets, ", "))
	case ReasonNoController:
		return fmt.Sprintf("%s without a controller, which only force evicts: %s", count(group), names(group))
	case ReasonLocalStorage:
		return fmt.Sprintf("%s with emptyDir data, which only deleteEmptyDir evicts: %s", count(group), names(group))
	case ReasonDaemonSetGone:
		return fmt.Sprintf("%s of a DaemonSet that does not exist, which only force evicts: %s", count(group), names(group))
	case ReasonReturnsToNode:
		return fmt.Sprintf("%s no longer evicted (%s): %s", count(group), names(group), first.message)
	case ReasonPodsRunning:
		if len(group) == 1 {
			return "1 pod has not ended by itself: " + names(group)
		}
		return fmt.Sprintf("%s have not ended by themselves: %s", count(group), names(group))
	case ReasonTerminating:
		return fmt.Sprintf("%s still terminating: %s", count(group), names(group))
	case ReasonEvicting:
		return fmt.Sprintf("%s being evicted: %s", count(group), names(group))
	case ReasonPodOrder:
		return fmt.Sprintf("%s waiting for pods of a lower order: %s", count(group), names(group))
	case ReasonNodeNotReady:
		return fmt.Sprintf("%s in an unknown state, because the node is not Ready: %s", count(group), names(group))
	}
	return fmt.Sprintf("%s not evicted yet (%s): %s", count(group), names(group), first.message)
}

func count(group []obstacle) string { return pods(int32(len(group))) }

// names lists the first few pods.
func names(group []obstacle) string {
	const shown = 3
	var listed []string
	for _, o := range group[:min(shown, len(group))] {
		listed = append(listed, o.decision.key())
	}
	if more := len(group) - shown; more > 0 {
		listed = append(listed, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(listed, ", ")
}
