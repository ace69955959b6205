package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HealthCheck is one thing that must be true before work goes on. Exactly one of Condition, Workload
// and Node says what is checked.
// +kubebuilder:validation:XValidation:rule="(has(self.condition) ? 1 : 0) + (has(self.workload) ? 1 : 0) + (has(self.node) ? 1 : 0) == 1",message="exactly one of condition, workload and node must be set"
type HealthCheck struct {
	// Name is shown wherever the check is reported.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Condition checks a status condition of one object or of all that a selector picks.
	// +optional
	Condition *ConditionCheck `json:"condition,omitempty"`
	// Workload checks that workloads are available at their current generation.
	// +optional
	Workload *WorkloadCheck `json:"workload,omitempty"`
	// Node checks that nodes are Ready.
	// +optional
	Node *NodeCheck `json:"node,omitempty"`
	// TimeoutSeconds is how long the check may stay false before it has failed. 0: no limit.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// StableSeconds is how long the check must stay true before it counts.
	// +kubebuilder:validation:Minimum=0
	// +optional
	StableSeconds int32 `json:"stableSeconds,omitempty"`
}

// ConditionCheck wants a status condition on an object.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="exactly one of name and selector must be set"
type ConditionCheck struct {
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Selector picks objects; none found is not healthy.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Type of the condition.
	// +kubebuilder:validation:MinLength=1
	Type string `json:"type"`
	// Status that is wanted.
	// +kubebuilder:default="True"
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +optional
	Status metav1.ConditionStatus `json:"status,omitempty"`
}

// WorkloadKind is a kind of workload that a WorkloadCheck looks at.
// +kubebuilder:validation:Enum=Deployment;StatefulSet;DaemonSet
type WorkloadKind string

// The kinds of workload.
const (
	Deployment  WorkloadKind = "Deployment"
	StatefulSet WorkloadKind = "StatefulSet"
	DaemonSet   WorkloadKind = "DaemonSet"
)

// WorkloadCheck wants every Deployment, StatefulSet and DaemonSet it picks to be fully available.
type WorkloadCheck struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// Kinds to look at; absent: all three.
	// +optional
	Kinds []WorkloadKind `json:"kinds,omitempty"`
	// Selector picks by label; absent: every workload of the namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NodeCheck wants nodes to be Ready.
type NodeCheck struct {
	// Selector picks nodes by label; absent: the node under maintenance, or every node in a check of a cluster.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}
