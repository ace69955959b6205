package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Scope says how deep a maintenance cuts.
// +kubebuilder:validation:Enum=drain;os
type Scope string

// The scopes.
const (
	// ScopeDrain moves pods away but does not restart the node.
	ScopeDrain Scope = "drain"
	// ScopeOS may restart the node or replace what runs beneath the pods.
	ScopeOS Scope = "os"
)

// ClusterMaintenanceRequest announces maintenance of the cluster. It exists as long as the maintenance lasts.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cmr
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterMaintenanceRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterMaintenanceRequestSpec `json:"spec,omitempty"`
}

// ClusterMaintenanceRequestSpec says what is asked for.
type ClusterMaintenanceRequestSpec struct {
	// +kubebuilder:default=os
	// +optional
	Scope Scope `json:"scope,omitempty"`
	// Release that is being installed, if any.
	// +optional
	Release string `json:"release,omitempty"`
}

// NodeMaintenanceRequest announces maintenance of one node. It exists as long as the maintenance lasts.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=nmr
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeMaintenanceRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeMaintenanceRequestSpec `json:"spec"`
}

// NodeMaintenanceRequestSpec says what is asked for.
type NodeMaintenanceRequestSpec struct {
	// +kubebuilder:validation:MinLength=1
	NodeName string `json:"nodeName"`
	// +kubebuilder:default=os
	// +optional
	Scope Scope `json:"scope,omitempty"`
	// Release that is being installed, if any.
	// +optional
	Release string `json:"release,omitempty"`
}

// NodeDeletionRequest announces that a node will be deleted.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ndr
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeDeletionRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeNameSpec `json:"spec"`
}

// NodeDisableNotification announces that a node is out of the cluster for a while. Its locks stay until the notification is deleted.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ndn
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeDisableNotification struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeNameSpec `json:"spec"`
}

// NodeNameSpec names a node.
type NodeNameSpec struct {
	// +kubebuilder:validation:MinLength=1
	NodeName string `json:"nodeName"`
}

// NodeDeletionRequestList is a list of NodeDeletionRequest.
// +kubebuilder:object:root=true
type NodeDeletionRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeDeletionRequest `json:"items"`
}

// NodeDisableNotificationList is a list of NodeDisableNotification.
// +kubebuilder:object:root=true
type NodeDisableNotificationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeDisableNotification `json:"items"`
}

// ClusterMaintenanceRequestList is a list of ClusterMaintenanceRequest.
// +kubebuilder:object:root=true
type ClusterMaintenanceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterMaintenanceRequest `json:"items"`
}

// NodeMaintenanceRequestList is a list of NodeMaintenanceRequest.
// +kubebuilder:object:root=true
type NodeMaintenanceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeMaintenanceRequest `json:"items"`
}
