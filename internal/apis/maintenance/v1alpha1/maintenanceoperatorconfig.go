package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaintenanceOperatorConfig holds the budgets of a cluster. A cluster has one.
// +kubebuilder:object:root=true
type MaintenanceOperatorConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MaintenanceOperatorConfigSpec `json:"spec,omitempty"`
}

// LogLevel of the operator whose configuration this is; Drydock's own is a flag of its worker.
// +kubebuilder:validation:Enum=debug;info;error
type LogLevel string

// MaintenanceOperatorConfigSpec says how many nodes may be out of service at once.
type MaintenanceOperatorConfigSpec struct {
	// MaxParallelOperations is how many nodes may be under maintenance at once: a number, or a percentage of all nodes, rounded
	// up. 0 means none.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +optional
	MaxParallelOperations *intstr.IntOrString `json:"maxParallelOperations,omitempty"`
	// MaxUnavailable is how many nodes may be unavailable, for whatever reason: a number, or a percentage of all nodes, rounded
	// down. 0 means none; absent means no limit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
	// MaxNodeMaintenanceTimeSeconds is how long a request may be Ready before it is reported as stale.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxNodeMaintenanceTimeSeconds int32 `json:"maxNodeMaintenanceTimeSeconds,omitempty"`
}

// MaintenanceOperatorConfigList is a list of MaintenanceOperatorConfig.
// +kubebuilder:object:root=true
type MaintenanceOperatorConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MaintenanceOperatorConfig `json:"items"`
}
