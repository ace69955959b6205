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
// +kubebuilder:validation:XValidation:rule="!has(self.garbageCollect) || !self.garbageCollect || (has(self.maxNodeMaintenanceTimeSeconds) && self.maxNodeMaintenanceTimeSeconds > 0)",fieldPath=".garbageCollect",message="needs maxNodeMaintenanceTimeSeconds, which says when a request is stale"
type MaintenanceOperatorConfigSpec struct {
	// MaxParallelOperations is how many nodes may be under maintenance at once: a number, or a percentage of all nodes, rounded
	// up. 0 means none.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self <= 2147483647",message="must be at most 2147483647"
	// +optional
	MaxParallelOperations *intstr.IntOrString `json:"maxParallelOperations,omitempty"`
	// MaxUnavailable is how many nodes may be unavailable, for any reason: a number, or a percentage of all nodes, rounded
	// down. 0 means none; absent means no limit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self <= 2147483647",message="must be at most 2147483647"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
	// MaxNodeMaintenanceTimeSeconds is how long a request may be Ready before it is reported as stale.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxNodeMaintenanceTimeSeconds int32 `json:"maxNodeMaintenanceTimeSeconds,omitempty"`

	// Budgets are further limits, for the nodes that a selector picks (addition). A node is held to each that covers it.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Budgets []Budget `json:"budgets,omitempty"`
	// AgingSeconds: a request that has waited for longer goes before all that have not, so that a requestor with constant work
	// cannot starve the others (addition). 0 or absent: no request does.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AgingSeconds int32 `json:"agingSeconds,omitempty"`
	// GarbageCollect ends requests that are stale, unless their requestor has failed (addition). Otherwise they are only reported.
	// +optional
	GarbageCollect bool `json:"garbageCollect,omitempty"`
}

// Budget limits how many of some nodes may be out of service at once. With a topologyKey, maxUnavailable and maxParallelOperations
// limit each zone by itself.
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) || has(self.maxParallelOperations) || has(self.maxParallelZones)",message="limits nothing: set maxUnavailable, maxParallelOperations or maxParallelZones"
// +kubebuilder:validation:XValidation:rule="!has(self.maxParallelZones) || has(self.topologyKey)",fieldPath=".maxParallelZones",message="needs topologyKey, which says what a zone is"
type Budget struct {
	// Name of the budget: a request that waits for it has this name in its reason.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must consist of lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Name string `json:"name"`
	// NodeSelector picks the nodes that it covers, by their labels. Absent or empty: all.
	// +optional
	NodeSelector *BudgetSelector `json:"nodeSelector,omitempty"`
	// TopologyKey is the label whose values are the zones, e.g. topology.kubernetes.io/zone. Nodes without it are a zone of their own.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the key of a label, e.g. topology.kubernetes.io/zone"
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`
	// MaxUnavailable is how many of the nodes (of each zone, if there is a topologyKey) may be unavailable, for any reason: a number,
	// or a percentage, rounded down. 0 means none; absent means no limit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self <= 2147483647",message="must be at most 2147483647"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxParallelOperations is how many of the nodes (of each zone, if there is a topologyKey) may be under maintenance at once: a number,
	// or a percentage, rounded up. 0 means none; absent means no limit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number of at least 0 or a percentage from 0% to 100%"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self <= 2147483647",message="must be at most 2147483647"
	// +optional
	MaxParallelOperations *intstr.IntOrString `json:"maxParallelOperations,omitempty"`
	// MaxParallelZones is how many zones may have nodes under maintenance at once. 0 means none; absent means no limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxParallelZones *int32 `json:"maxParallelZones,omitempty"`
}

// MaintenanceOperatorConfigList is a list of MaintenanceOperatorConfig.
// +kubebuilder:object:root=true
type MaintenanceOperatorConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MaintenanceOperatorConfig `json:"items"`
}
