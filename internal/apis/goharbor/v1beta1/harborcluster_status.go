package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HarborClusterStatus is what is known of a Harbor and the services it depends on.
type HarborClusterStatus struct {
	// Status is the one word for all of it.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []HarborClusterCondition `json:"conditions,omitempty"`
	// Revision grows with every change of the status: nanoseconds since 1970.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Operator is what wrote the status last.
	// +optional
	Operator OperatorStatus `json:"operator,omitempty"`
}

// OperatorStatus names the program that wrote the status.
type OperatorStatus struct {
	// ControllerGitCommit is the commit of its source, if it was built from a repository.
	// +optional
	ControllerGitCommit string `json:"controllerGitCommit,omitempty"`
	// +optional
	ControllerVersion string `json:"controllerVersion,omitempty"`
	// +optional
	ControllerName string `json:"controllerName,omitempty"`
}

// ClusterStatus is the one word for a Harbor and all it depends on.
type ClusterStatus string

// The words for a HarborCluster.
const (
	StatusCreating ClusterStatus = "creating"
	// StatusProvisioning is what the Harbor operator writes for StatusCreating.
	StatusProvisioning ClusterStatus = "provisioning"
	StatusHealthy      ClusterStatus = "healthy"
	StatusUnhealthy    ClusterStatus = "unhealthy"
)

// Means reports whether two words mean the same.
func (s ClusterStatus) Means(other ClusterStatus) bool {
	return s == other || s.isCreating() && other.isCreating()
}

func (s ClusterStatus) isCreating() bool { return s == StatusCreating || s == StatusProvisioning }

// ConditionType is the type of a condition of a HarborCluster.
type ConditionType string

// The conditions of a HarborCluster.
const (
	DatabaseReady ConditionType = "DatabaseReady"
	CacheReady    ConditionType = "CacheReady"
	StorageReady  ConditionType = "StorageReady"
	ServiceReady  ConditionType = "ServiceReady"
	// ConfigurationReady says whether the whole spec was applied, however its services are. It is for information only.
	ConfigurationReady ConditionType = "ConfigurationReady"
)

// HarborClusterCondition is what is known of one service.
type HarborClusterCondition struct {
	Type ConditionType `json:"type"`
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status metav1.ConditionStatus `json:"status"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// ObservedGeneration is the generation of the HarborCluster that this is about (addition).
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// FirstReadyTime is when the service was ready for the first time (addition). Absent: it never was.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
}
