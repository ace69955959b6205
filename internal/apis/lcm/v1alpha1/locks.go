package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LockState is whether an application releases its lock.
type LockState string

// The states of a lock. Anything else, and no state at all, counts as held.
const (
	// LockActive: the application does not allow disruption.
	LockActive LockState = "active"
	// LockInactive: the application has released the lock.
	LockInactive LockState = "inactive"
	// LockFailed: the application cannot release the lock, or did not recover; errorMessage says why.
	LockFailed LockState = "failed"
)

// Annotations of workload locks.
const (
	// AnnotationSkipMaintenance on a node: no maintenance is requested for it.
	AnnotationSkipMaintenance = "lcm.mirantis.com/skip-maintenance"
	// AnnotationUpdatedFor on a NodeWorkloadLock holds the UID of the ClusterMaintenanceRequest during which the lock was last
	// inactive: the node counts as updated in that maintenance. Where several stood at once, it holds all of them, with commas.
	AnnotationUpdatedFor = "drydock.dev/updated-for"
)

// ClusterWorkloadLock is an application's veto on maintenance of the cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cwl
// +kubebuilder:printcolumn:name="Controller",type=string,JSONPath=`.spec.controllerName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.errorMessage`
type ClusterWorkloadLock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterWorkloadLockSpec `json:"spec"`
	// +optional
	Status WorkloadLockStatus `json:"status,omitempty"`
}

// ClusterWorkloadLockSpec says whose lock it is.
type ClusterWorkloadLockSpec struct {
	// +kubebuilder:validation:MinLength=1
	ControllerName string `json:"controllerName"`
}

// NodeWorkloadLock is an application's veto on maintenance of one node.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nwl
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Controller",type=string,JSONPath=`.spec.controllerName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.errorMessage`
type NodeWorkloadLock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeWorkloadLockSpec `json:"spec"`
	// +optional
	Status WorkloadLockStatus `json:"status,omitempty"`
}

// NodeWorkloadLockSpec says whose lock it is, and on which node.
type NodeWorkloadLockSpec struct {
	// +kubebuilder:validation:MinLength=1
	ControllerName string `json:"controllerName"`
	// +kubebuilder:validation:MinLength=1
	NodeName string `json:"nodeName"`
	// NodeDeletionRequestSupported: the application releases the lock for a NodeDeletionRequest, too.
	// +optional
	NodeDeletionRequestSupported bool `json:"nodeDeletionRequestSupported,omitempty"`
}

// WorkloadLockStatus is what the application says.
type WorkloadLockStatus struct {
	// State is a plain string, not an enum: other controllers write it too, and what they write must be readable.
	// +optional
	State LockState `json:"state,omitempty"`
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// +optional
	Release string `json:"release,omitempty"`
	// +optional
	InactivationProgress *InactivationProgress `json:"inactivationProgress,omitempty"`
}

// InactivationProgress is the progress of the application in releasing its locks.
type InactivationProgress struct {
	// +optional
	Description string `json:"description,omitempty"`
	// Percentage from 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percentage int32 `json:"percentage,omitempty"`
}

// ClusterWorkloadLockList is a list of ClusterWorkloadLock.
// +kubebuilder:object:root=true
type ClusterWorkloadLockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterWorkloadLock `json:"items"`
}

// NodeWorkloadLockList is a list of NodeWorkloadLock.
// +kubebuilder:object:root=true
type NodeWorkloadLockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeWorkloadLock `json:"items"`
}
