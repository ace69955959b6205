package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Component is a part of the platform that a portal shows.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Portal",type=string,JSONPath=`.spec.portalRef`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.status`
// +kubebuilder:printcolumn:name="Computed",type=string,JSONPath=`.status.computedStatus`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Component struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ComponentSpec `json:"spec"`
	// +optional
	Status ComponentStatus `json:"status,omitempty"`
}

// ComponentSpec says how a component is shown, and what is declared of it.
type ComponentSpec struct {
	// DisplayName is its name on the status page.
	// +kubebuilder:validation:MinLength=1
	DisplayName string `json:"displayName"`
	// Description is shown below the name.
	// +optional
	Description string `json:"description,omitempty"`
	// Group puts components together on the page.
	// +kubebuilder:validation:MinLength=1
	Group string `json:"group"`
	// Link leads to more about it, e.g. a dashboard.
	// +kubebuilder:validation:Pattern=`^https?://.+`
	// +optional
	Link string `json:"link,omitempty"`
	// PortalRef is the name of the portal that shows it.
	// +kubebuilder:validation:MinLength=1
	PortalRef string `json:"portalRef"`
	// Status is declared by hand; a maintenance in progress replaces it, and an incident may make it worse.
	// +kubebuilder:default=unknown
	// +kubebuilder:validation:Enum=operational;degraded;partial_outage;major_outage;unknown
	// +optional
	Status ServiceStatus `json:"status,omitempty"`
}

// ComponentStatus is what is shown of a component.
type ComponentStatus struct {
	// ComputedStatus is the declared one, or what a maintenance or an incident makes of it.
	// +optional
	ComputedStatus ServiceStatus `json:"computedStatus,omitempty"`
	// ActiveIncidents is how many incidents that are not over list it.
	// +optional
	ActiveIncidents int `json:"activeIncidents,omitempty"`
	// LastStatusChange is when ComputedStatus last became another.
	// +optional
	LastStatusChange *metav1.Time `json:"lastStatusChange,omitempty"`
	// DailyWorstStatus is the worst ComputedStatus of each of the last thirty days in UTC, the oldest first. A day before the portal showed the component
	// counts as operational.
	// +listType=map
	// +listMapKey=date
	// +optional
	DailyWorstStatus []DailyComponentStatus `json:"dailyWorstStatus,omitempty"`
	// ObservedGeneration is the generation of the spec that the portal shows (addition).
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// PortalRun is the first run of the portal's workflow: a later one does not know the object yet (addition).
	// +optional
	PortalRun string `json:"portalRun,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DailyComponentStatus is the worst status of a component on one day in UTC.
type DailyComponentStatus struct {
	// Date as in 2026-11-21.
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}$`
	Date string `json:"date"`
	// WorstStatus is the worst that the portal showed.
	WorstStatus ServiceStatus `json:"worstStatus"`
}

// ComponentList is a list of Component.
// +kubebuilder:object:root=true
type ComponentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Component `json:"items"`
}
