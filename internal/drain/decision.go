// Package drain decides which pods leave a node, which stay and which are in the way, by kubectl's own rules, and evicts those that
// leave.
package drain

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Snapshot holds the objects that a drain is decided from. They are only read.
type Snapshot struct {
	// Node to drain; nil when there is none of that name.
	Node *corev1.Node
	// Pods of the node. Those of other nodes are passed over.
	Pods []corev1.Pod
	// Budgets of the pods' namespaces; others do no harm.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets of the pods' namespaces; others do no harm.
	DaemonSets []appsv1.DaemonSet
}

// Action is what a drain does with a pod.
type Action string

// The actions.
const (
	// Evict: the pod leaves. It is evicted, or awaited if it is leaving already.
	Evict Action = "evict"
	// Skip: the pod stays, and the node counts as drained with it.
	Skip Action = "skip"
	// Block: the pod must leave and cannot. See Decision.Refused for what becomes of the drain.
	Block Action = "block"
)

// Reason is why a pod stays, blocks, or leaves otherwise than at once.
type Reason string

// Reasons to stay.
const (
	ReasonDaemonSet      Reason = "DaemonSet"
	ReasonMirror         Reason = "Mirror"
	ReasonSelector       Reason = "Selector"
	ReasonResourceFilter Reason = "ResourceFilter"
)

// Reasons of pods that are over: they leave, except those that terminate for longer than skipWaitForDeleteSeconds.
const (
	ReasonFinished    Reason = "Finished"
	ReasonTerminating Reason = "Terminating"
)

// Reasons to block that only another drain specification, or the pod's owner, can lift.
const (
	ReasonNoController  Reason = "NoController"
	ReasonLocalStorage  Reason = "LocalStorage"
	ReasonDaemonSetGone Reason = "DaemonSetGone"
)

// Reasons that lie in PodDisruptionBudgets.
const (
	// ReasonDisruptionBudget: the budget allows no disruption now. The pod is evicted once it does.
	ReasonDisruptionBudget Reason = "DisruptionBudget"
	// ReasonDisruptionBudgetNever: the budget can never allow one as it and its workload stand. Blocks.
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
	// Order is the pod's place in the drain, by podOrder; lower ones leave first.
	Order int32 `json:"order,omitempty"`
	// Budgets that guard the pod, as namespace/name.
	Budgets []string `json:"budgets,omitempty"`
	// Message says to a person what the reason means here, and what would change it.
	Message string `json:"message,omitempty"`

	pod    *corev1.Pod
	budget guard
	// held is why it is not asked for although it must leave; empty: it is.
	held Reason
}

// Refused reports whether the drain must not even begin: the pod blocks, and waiting cannot help. A pod that its budgets block is not
// refused: a person may change the budget, or its workload may grow, while the drain waits for it.
func (d Decision) Refused() bool {
	switch d.Reason {
	case ReasonNoController, ReasonLocalStorage, ReasonDaemonSetGone:
		return d.Action == Block
	}
	return false
}

// mustLeave reports whether the node is not drained while the pod is on it.
func (d Decision) mustLeave() bool { return d.Action != Skip }

// key names the pod as namespace/name.
func (d Decision) key() string { return d.Namespace + "/" + d.Name }

// Preview is what a drain would do with each pod of a node.
type Preview struct {
	// Pods by namespace and name, each exactly once.
	Pods []Decision `json:"pods"`
	// Drainable: no pod blocks.
	Drainable bool `json:"drainable"`
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
