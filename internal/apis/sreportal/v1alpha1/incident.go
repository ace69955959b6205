package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Incident is a disturbance of components, with what is known of it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Portal",type=string,JSONPath=`.spec.portalRef`
// +kubebuilder:printcolumn:name="Severity",type=string,JSONPath=`.spec.severity`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.currentPhase`
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startedAt`
// +kubebuilder:printcolumn:name="Resolved",type=date,JSONPath=`.status.resolvedAt`
type Incident struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec IncidentSpec `json:"spec"`
	// +optional
	Status IncidentStatus `json:"status,omitempty"`
}

// IncidentSpec says what is disturbed, how badly, and what has happened so far.
type IncidentSpec struct {
	// Title is the headline on the status page.
	// +kubebuilder:validation:MinLength=1
	Title string `json:"title"`
	// PortalRef is the name of the portal that shows it.
	// +kubebuilder:validation:MinLength=1
	PortalRef string `json:"portalRef"`
	// Components are the names of the Components that are affected.
	// +optional
	Components []string `json:"components,omitempty"`
	// Severity decides about the status of its components.
	Severity IncidentSeverity `json:"severity"`
	// Updates are its timeline. The latest one, by its timestamp, has the phase of the incident.
	// +optional
	Updates []IncidentUpdate `json:"updates,omitempty"`
}

// IncidentUpdate is what was known of an incident at a time.
type IncidentUpdate struct {
	// Timestamp is when it was known.
	Timestamp metav1.Time `json:"timestamp"`
	// Phase of the incident from then on.
	Phase IncidentPhase `json:"phase"`
	// Message is for the users of the components.
	// +kubebuilder:validation:MinLength=1
	Message string `json:"message"`
}

// IncidentSeverity is how badly an incident affects its components.
// +kubebuilder:validation:Enum=critical;major;minor
type IncidentSeverity string

// The severities, the worst first. Their components have at least a major outage, a partial outage, or are degraded.
const (
	SeverityCritical IncidentSeverity = "critical"
	SeverityMajor    IncidentSeverity = "major"
	SeverityMinor    IncidentSeverity = "minor"
)

// IncidentPhase is how far an incident has come.
// +kubebuilder:validation:Enum=investigating;identified;monitoring;resolved
type IncidentPhase string

// The phases, in their order. Only a resolved incident no longer affects its components.
const (
	IncidentInvestigating IncidentPhase = "investigating"
	IncidentIdentified    IncidentPhase = "identified"
	IncidentMonitoring    IncidentPhase = "monitoring"
	IncidentResolved      IncidentPhase = "resolved"
)

// IncidentStatus is what follows from the updates of an incident.
type IncidentStatus struct {
	// CurrentPhase is that of the latest update.
	// +optional
	CurrentPhase IncidentPhase `json:"currentPhase,omitempty"`
	// StartedAt is the time of the first update.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// ResolvedAt is the time of the latest update, if that resolved the incident.
	// +optional
	ResolvedAt *metav1.Time `json:"resolvedAt,omitempty"`
	// DurationMinutes is how long a resolved incident took.
	// +optional
	DurationMinutes int `json:"durationMinutes,omitempty"`
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

// IncidentList is a list of Incident.
// +kubebuilder:object:root=true
type IncidentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Incident `json:"items"`
}
