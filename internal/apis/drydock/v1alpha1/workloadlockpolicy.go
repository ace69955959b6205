package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkloadLockPolicy describes one application for which Drydock keeps workload locks.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type WorkloadLockPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkloadLockPolicySpec `json:"spec"`
}

// WorkloadLockPolicySpec says which nodes the application holds locks on, and when it may release them.
type WorkloadLockPolicySpec struct {
	// ControllerName is written on every lock of the application and identifies them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="controllerName cannot be changed"
	ControllerName string `json:"controllerName"`
	// NodeSelector picks the nodes that the application runs on: its enabled nodes.
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	// ClusterHealth must hold before the cluster lock goes inactive.
	// +optional
	ClusterHealth []HealthCheck `json:"clusterHealth,omitempty"`
	// Namespace of the application's pod on a node.
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// NodePodSelector picks the application's pod on a node, e.g. its vRouter.
	NodePodSelector metav1.LabelSelector `json:"nodePodSelector"`
	// MaxInactiveNodes is how many of the node locks may be inactive at once.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxInactiveNodes *int32 `json:"maxInactiveNodes,omitempty"`
	// NodePodDeadlineSeconds is how long the application's pod may be missing or not ready on a node after its
	// maintenance, or while the node is asked for, before the lock is failed. Absent: no limit.
	// +kubebuilder:validation:Minimum=1
	// +optional
	NodePodDeadlineSeconds *int32 `json:"nodePodDeadlineSeconds,omitempty"`
}

// WorkloadLockPolicyList is a list of WorkloadLockPolicy.
// +kubebuilder:object:root=true
type WorkloadLockPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WorkloadLockPolicy `json:"items"`
}
