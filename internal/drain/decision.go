// Package drain decides which pods leave a node, which stay and which block, by kubectl's own rules, and evicts those that leave.
package drain

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Snapshot has the objects that a drain is decided from. They are only read.
type Snapshot struct {
	// Node to drain; nil when it does not exist.
	Node *corev1.Node
	// Pods of the node. Those of other nodes are ignored.
	Pods []corev1.Pod
	// Budgets of the pods' namespaces; others are ignored.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets of the pods' namespaces; others are ignored.
	DaemonSets []appsv1.DaemonSet
	// Unhealthy are, by budget (namespace/name), the pods that it lacks, and why.
	Unhealthy map[string]string
}

// Action is what a drain does with a pod.
type Action string

// The actions.
const (
	// Evict: the pod leaves. It is evicted, or only awaited if it is terminating already.
	Evict Action = "evict"
	// Skip: the pod stays, and the node counts as drained with it.
	Skip Action = "skip"
	// Block: the pod must leave and cannot. See Decision.Refused for the result of the drain.
	Block Action = "block"
)

// Reason is why a pod stays, blocks, or does not leave at once.
type Reason string

// Reasons to stay.
const (
	ReasonDaemonSet      Reason = "DaemonSet"
	ReasonMirror         Reason = "Mirror"
	ReasonSelector       Reason = "Selector"
	ReasonResourceFilter Reason = "ResourceFilter"
)

// Reasons of pods that have ended or terminate: they leave, except those that terminate for longer than skipWaitForDeleteSeconds.
const (
	ReasonFinished    Reason = "Finished"
	ReasonTerminating Reason = "Terminating"
)

// Reasons to block that only another drain specification, or the pod's owner, can resolve.
const (
	ReasonNoController  Reason = "NoController"
	ReasonLocalStorage  Reason = "LocalStorage"
	ReasonDaemonSetGone Reason = "DaemonSetGone"
)

// Reasons of PodDisruptionBudgets.
const (
	// ReasonDisruptionBudget: the budget allows no disruption now. The pod is evicted once it does.
	ReasonDisruptionBudget Reason = "DisruptionBudget"
	// ReasonDisruptionBudgetNever: the budget cannot allow a disruption without a change of it or its workload. Blocks.
	ReasonDisruptionBudgetNever Reason = "DisruptionBudgetNever"
	// ReasonMultipleBudgets: the API server evicts no pod that two budgets guard. Blocks.
	ReasonMultipleBudgets Reason = "MultipleBudgets"
)

// Decision is what a drain does with one pod, and why.
type Decision struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    Action `json:"action"`
	// Reason is empty for a pod that can leave at once.
	Reason Reason `json:"reason"`
	// Owner is the pod's controller as Kind/name.
	Owner string `json:"owner,omitempty"`
	// Order is the position of the pod in the drain, by podOrder; lower ones leave first.
	Order int32 `json:"order,omitempty"`
	// Budgets that guard the pod, as namespace/name.
	Budgets []string `json:"budgets,omitempty"`
	// Message explains the reason for this pod, and how to resolve it.
	Message string `json:"message,omitempty"`

	pod    *corev1.Pod
	budget guard
	// held is why its eviction is not requested yet although it must leave; empty: it is requested.
	held Reason
}

// Refused reports whether the drain must not start: the pod blocks, and waiting does not help. A pod blocked by its budgets is not refused: a person
// may change the budget, or its workload may grow, during the drain.
func (d Decision) Refused() bool {
	switch d.Reason {
	case ReasonNoController, ReasonLocalStorage, ReasonDaemonSetGone:
		return d.Action == Block
	}
	return false
}

// mustLeave reports whether the node is not drained while the pod is on it.
func (d Decision) mustLeave() bool { return d.Action != Skip }

// key returns namespace/name of the pod.
func (d Decision) key() string { return d.Namespace + "/" + d.Name }

// Preview is what a drain would do with each pod of a node.
type Preview struct {
	// Pods sorted by namespace and name, each once.
	Pods []Decision `json:"pods"`
	// Drainable: no pod blocks.
	Drainable bool `json:"drainable"`
}

// Blocked says in one line which pods block, why, and what to do; empty: none.
func (p Preview) Blocked() string {
	var blocked []obstacle
	for _, decision := range p.Pods {
		if decision.Action == Block {
			blocked = append(blocked, obstacle{decision: decision, reason: decision.Reason, message: decision.Message})
		}
	}
	return summarize(blocked)
}

// remaining returns the pods that must still leave.
func (p Preview) remaining() []Decision {
	var remaining []Decision
	for _, decision := range p.Pods {
		if decision.mustLeave() {
			remaining = append(remaining, decision)
		}
	}
	return remaining
}
