package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// MaintenanceWindow says when maintenance may be done: again and again by a rule, or once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Closes",type=string,JSONPath=`.status.opening.end`
// +kubebuilder:printcolumn:name="Opens",type=string,JSONPath=`.status.nextOpening.start`
// +kubebuilder:printcolumn:name="TimeZone",type=string,priority=1,JSONPath=`.spec.timeZone`
// +kubebuilder:printcolumn:name="Recurrence",type=string,priority=1,JSONPath=`.spec.recurrence`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MaintenanceWindow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MaintenanceWindowSpec `json:"spec"`
	// +optional
	Status MaintenanceWindowStatus `json:"status,omitzero"`
}

// ConditionReady is the type of the condition that shows whether the window follows its spec.
const ConditionReady = "Ready"

// MaintenanceWindowStatus says whether the window is open, and which work follows it.
type MaintenanceWindowStatus struct {
	// ObservedGeneration is the generation of the spec that the window last read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Closed, Open, Cutoff, Excluded, Overridden or Over.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Opening is the current one.
	// +optional
	Opening *WindowOpening `json:"opening,omitempty"`
	// NextOpening is the next one.
	// +optional
	NextOpening *WindowOpening `json:"nextOpening,omitempty"`
	// ExcludedUntil is the end of the exclusion that closes the current opening.
	// +optional
	ExcludedUntil *metav1.Time `json:"excludedUntil,omitempty"`
	// Override opens the window in an emergency.
	// +optional
	Override *WindowOverride `json:"override,omitempty"`
	// SubscriberCount is the number of workflows that follow the window: rollouts and node maintenances.
	// +optional
	SubscriberCount int32 `json:"subscriberCount,omitempty"`
	// Subscribers are the IDs of the first 20 of them.
	// +optional
	Subscribers []string `json:"subscribers,omitempty"`
	// Conditions: Ready is False while the spec is invalid, or another window has the name.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WindowOpening is the time from a start to an end.
type WindowOpening struct {
	Start metav1.Time `json:"start"`
	End   metav1.Time `json:"end"`
}

// WindowOverride is an emergency override.
type WindowOverride struct {
	By     string      `json:"by"`
	Reason string      `json:"reason"`
	Until  metav1.Time `json:"until"`
}

// MaintenanceWindowSpec says when the window is open, for which clusters, and what happens when work outlasts it.
// +kubebuilder:validation:XValidation:rule="!has(self.notBefore) || !has(self.notAfter) || self.notAfter > self.notBefore",message="must be after notBefore",fieldPath=".notAfter"
type MaintenanceWindowSpec struct {
	// TimeZone is the IANA name of the time zone, e.g. Europe/Berlin.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone"`

	WindowTimes `json:",inline"`

	// NotBefore ends where the calendar begins: nothing is open before.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// NotAfter is where the calendar ends: nothing is open from then on.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// Exclusions are times at which the window stays closed, e.g. a freeze over the holidays.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Exclusions []WindowExclusion `json:"exclusions,omitempty"`
	// Cutoff is the time before the end of an opening in which nothing new starts.
	// +optional
	Cutoff Duration `json:"cutoff,omitempty"`
	// OnOverrun is what happens to work that is not done when the window closes.
	// +kubebuilder:default=Finish
	// +optional
	OnOverrun OverrunAction `json:"onOverrun,omitempty"`
	// Selector picks the clusters that the window is for, by the labels of their ManagedCluster; absent: all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Notify says whom to tell.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Notify []WindowNotification `json:"notify,omitempty"`

	// Title is the headline of its openings on the status page; absent: they are not shown there.
	// +optional
	Title string `json:"title,omitempty"`
	// Description says more, in markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// PortalRef is the name of the portal that shows its openings.
	// +optional
	PortalRef string `json:"portalRef,omitempty"`
	// Components are the names of the Components that are affected.
	// +optional
	Components []string `json:"components,omitempty"`
	// AffectedStatus is shown for its components while it is open.
	// +kubebuilder:default=maintenance
	// +kubebuilder:validation:Enum=maintenance;degraded;partial_outage;major_outage
	// +optional
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus,omitempty"`
}

// WindowName names a MaintenanceWindow: namespace/name, or the name of one in the namespace of the object that names it.
// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
// +kubebuilder:validation:MaxLength=317
type WindowName string

// WindowExclusion is a time at which nothing is open.
type WindowExclusion struct {
	// Name is shown as the reason.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// TimeZone is the IANA name of the time zone; absent: that of the window.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	WindowTimes `json:",inline"`

	// Effect on an occurrence that it overlaps.
	// +kubebuilder:default=drop
	// +optional
	Effect ExclusionEffect `json:"effect,omitempty"`
}

// ExclusionEffect is what an exclusion does to an occurrence that it overlaps.
// +kubebuilder:validation:Enum=drop;trim
type ExclusionEffect string

// The effects of an exclusion.
const (
	// ExclusionDrop: the occurrence does not take place.
	ExclusionDrop ExclusionEffect = "drop"
	// ExclusionTrim: it takes place outside of the exclusion.
	ExclusionTrim ExclusionEffect = "trim"
)

// OverrunAction is what happens to work that is not done when its window closes.
// +kubebuilder:validation:Enum=Finish;Pause;Cancel
type OverrunAction string

// The actions at the end of a window.
const (
	// OverrunFinish: nodes under maintenance are finished, the rest pauses until the window opens again.
	OverrunFinish OverrunAction = "Finish"
	// OverrunPause: work stops after the step that it is at.
	OverrunPause OverrunAction = "Pause"
	// OverrunCancel: the nodes are returned.
	OverrunCancel OverrunAction = "Cancel"
)

// WindowNotification says where to send notifications of a window.
// +kubebuilder:validation:XValidation:rule="!has(self.template) || self.url.startsWith('mailto:')",fieldPath=".template",reason=FieldValueForbidden,message="only e-mails have a text"
type WindowNotification struct {
	// URL of the webhook, or mailto: and the addresses of an e-mail, joined by commas.
	// +kubebuilder:validation:Pattern=`^(https?://|mailto:).+`
	URL string `json:"url"`
	// Template of the text of e-mails.
	// +optional
	Template *NotificationTemplate `json:"template,omitempty"`
	// Leads are the times before a start at which to send a notification of it.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Leads []Duration `json:"leads,omitempty"`
}

// MaintenanceWindowList is a list of MaintenanceWindow.
// +kubebuilder:object:root=true
type MaintenanceWindowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MaintenanceWindow `json:"items"`
}
