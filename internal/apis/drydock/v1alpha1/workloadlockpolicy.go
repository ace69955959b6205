package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkloadLockPolicy describes one application for which Drydock keeps workload locks.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Controller",type=string,JSONPath=`.spec.controllerName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.wait.reason`
// +kubebuilder:printcolumn:name="Locks",type=integer,JSONPath=`.status.nodeLocks.total`
// +kubebuilder:printcolumn:name="Inactive",type=integer,JSONPath=`.status.nodeLocks.inactive`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.nodeLocks.failed`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.description`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadLockPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkloadLockPolicySpec `json:"spec"`
	// +optional
	Status WorkloadLockPolicyStatus `json:"status,omitempty"`
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
	// maintenance, or while the node is asked for, before the lock is failed. 0: no limit.
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=0
	// +optional
	NodePodDeadlineSeconds *int32 `json:"nodePodDeadlineSeconds,omitempty"`
	// Release of the product that the application is part of. Its locks report it, and stay active for a request of another release. Absent: the
	// locks are released for every request.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Release string `json:"release,omitempty"`
}

// WorkloadLockPolicyStatus shows the locks of the application, and which node comes next.
type WorkloadLockPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State of the lock controller.
	// +optional
	State LockControllerState `json:"state,omitempty"`
	// Conditions: Ready is True while the locks follow the policy.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ClusterLock is the lock of the cluster.
	// +optional
	ClusterLock *LockSummary `json:"clusterLock,omitempty"`
	// NodeLocks counts the locks of nodes by their state.
	// +optional
	NodeLocks *LockCounts `json:"nodeLocks,omitempty"`
	// Nodes are the locks of nodes that are requested or not active: the first 100 by name of the node.
	// +optional
	Nodes []LockSummary `json:"nodes,omitempty"`
	// MoreNodes were left out.
	// +optional
	MoreNodes int32 `json:"moreNodes,omitempty"`
	// Waiting are the requested nodes that wait for others to come back, in the order in which their locks are released: the first 100.
	// +optional
	Waiting []string `json:"waiting,omitempty"`
	// Progress of the maintenance over the nodes of the application.
	// +optional
	Progress *LockProgress `json:"progress,omitempty"`
	// Wait is why the controller waits.
	// +optional
	Wait *Wait `json:"wait,omitempty"`
}

// LockControllerState is the state of a lock controller.
// +kubebuilder:validation:Enum=Running;Cancelled;Failed;Released
type LockControllerState string

// The states of a lock controller.
const (
	LockControllerRunning LockControllerState = "Running"
	// LockControllerCancelled: a person ended it. The locks stay as they are.
	LockControllerCancelled LockControllerState = "Cancelled"
	LockControllerFailed    LockControllerState = "Failed"
	// LockControllerReleased: its object was deleted, and the locks with it.
	LockControllerReleased LockControllerState = "Released"
)

// Ended reports whether the controller no longer changes the locks.
func (s LockControllerState) Ended() bool { return s != "" && s != LockControllerRunning }

// LockSummary is the state of one lock, and why it has that state.
type LockSummary struct {
	// Node of the lock; empty for the lock of the cluster.
	// +optional
	Node string `json:"node,omitempty"`
	// Name of the ClusterWorkloadLock or NodeWorkloadLock.
	Name string `json:"name"`
	// State is active, inactive or failed.
	State string `json:"state"`
	// Reason is a CamelCase word, e.g. MaxInactiveNodes.
	Reason string `json:"reason"`
	// +optional
	Message string `json:"message,omitempty"`
}

// LockCounts counts locks.
type LockCounts struct {
	Total    int32 `json:"total"`
	Active   int32 `json:"active"`
	Inactive int32 `json:"inactive"`
	Failed   int32 `json:"failed"`
}

// WorkloadLockPolicyList is a list of WorkloadLockPolicy.
// +kubebuilder:object:root=true
type WorkloadLockPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WorkloadLockPolicy `json:"items"`
}
