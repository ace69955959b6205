package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Maintenance announces one maintenance of components, between two instants.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Portal",type=string,JSONPath=`.spec.portalRef`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Start",type=date,JSONPath=`.spec.scheduledStart`
// +kubebuilder:printcolumn:name="End",type=date,JSONPath=`.spec.scheduledEnd`
type Maintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MaintenanceSpec `json:"spec"`
	// +optional
	Status MaintenanceStatus `json:"status,omitempty"`
}

// MaintenanceSpec says what is maintained, and when.
// +kubebuilder:validation:XValidation:rule="self.scheduledEnd > self.scheduledStart",message="must be after scheduledStart",fieldPath=".scheduledEnd"
type MaintenanceSpec struct {
	// Title is the headline on the status page.
	// +kubebuilder:validation:MinLength=1
	Title string `json:"title"`
	// Description says more, in markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// PortalRef is the name of the portal that shows it.
	// +kubebuilder:validation:MinLength=1
	PortalRef string `json:"portalRef"`
	// Components are the names of the Components that are affected.
	// +optional
	Components []string `json:"components,omitempty"`
	// ScheduledStart is its first moment, to the second.
	ScheduledStart metav1.Time `json:"scheduledStart"`
	// ScheduledEnd is its last moment, to the second.
	ScheduledEnd metav1.Time `json:"scheduledEnd"`
	// AffectedStatus is shown for its components while it is in progress.
	// +kubebuilder:default=maintenance
	// +kubebuilder:validation:Enum=maintenance;degraded;partial_outage;major_outage
	// +optional
	AffectedStatus ServiceStatus `json:"affectedStatus,omitempty"`
}

// MaintenancePhase is how far a maintenance has come.
// +kubebuilder:validation:Enum=upcoming;in_progress;completed
type MaintenancePhase string

// The phases, in their order.
const (
	PhaseUpcoming   MaintenancePhase = "upcoming"
	PhaseInProgress MaintenancePhase = "in_progress"
	PhaseCompleted  MaintenancePhase = "completed"
)

// MaintenanceStatus is what the clock makes of it.
type MaintenanceStatus struct {
	// Phase is absent when the schedule is invalid.
	// +optional
	Phase MaintenancePhase `json:"phase,omitempty"`
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

// MaintenanceList is a list of Maintenance.
// +kubebuilder:object:root=true
type MaintenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Maintenance `json:"items"`
}
