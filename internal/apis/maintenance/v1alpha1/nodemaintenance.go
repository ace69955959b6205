package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// NodeMaintenance requests that one node is taken out of service, worked on and returned.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Requestor",type=string,JSONPath=`.spec.requestorID`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Failed",type=string,JSONPath=`.status.conditions[?(@.type=="RequestorFailed")].status`
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.spec.requestorID`
type NodeMaintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeMaintenanceSpec `json:"spec"`
	// +optional
	Status NodeMaintenanceStatus `json:"status,omitempty"`
}

// NodeMaintenanceSpec says which node, for whom, and what is done to it.
// +kubebuilder:validation:XValidation:rule="!has(self.additionalRequestors) || !(self.requestorID in self.additionalRequestors)",fieldPath=".additionalRequestors",message="must not repeat requestorID"
// +kubebuilder:validation:XValidation:rule="!has(self.onDrainTimeout) || self.onDrainTimeout != 'Retry' || has(self.drainSpec)",fieldPath=".onDrainTimeout",reason=FieldValueForbidden,message="there is no drain to retry: set drainSpec, {} drains with the defaults"
// +kubebuilder:validation:XValidation:rule="!has(self.onFailure) || self.onFailure != 'KeepCordoned' || !has(self.cordon) || self.cordon",fieldPath=".onFailure",reason=FieldValueForbidden,message="a node that is not cordoned cannot be kept so: set cordon to true, or onFailure to Uncordon"
// +kubebuilder:validation:XValidation:rule="has(self.lockRelease) == has(oldSelf.lockRelease) && (!has(self.lockRelease) || self.lockRelease == oldSelf.lockRelease)",fieldPath=".lockRelease",message="cannot be changed: ask with another NodeMaintenance"
type NodeMaintenanceSpec struct {
	// RequestorID identifies who asks, e.g. driver.example.com.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: ask with another NodeMaintenance"
	RequestorID RequestorID `json:"requestorID"`
	// AdditionalRequestors also need the node: it stays out of service until all of them are done.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AdditionalRequestors []RequestorID `json:"additionalRequestors,omitempty"`
	// NodeName of the node to maintain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: ask with another NodeMaintenance"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a node: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	NodeName string `json:"nodeName"`
	// Cordon the node before anything else. An explicit false stays false.
	// +kubebuilder:default=true
	// +optional
	Cordon *bool `json:"cordon,omitempty"`
	// WaitForPodCompletion waits for pods to end by themselves before the drain. Absent: no wait.
	// +optional
	WaitForPodCompletion *WaitForPodCompletionSpec `json:"waitForPodCompletion,omitempty"`
	// DrainSpec says how the node is drained. Absent: it is not.
	// +optional
	DrainSpec *DrainSpec `json:"drainSpec,omitempty"`

	// Action is the work on the node (Drydock's addition). Absent: the requestor works and then sends done.
	// +optional
	Action *Action `json:"action,omitempty"`
	// HealthChecks must hold after the work, beside the node being Ready and its DaemonSet pods ready (addition).
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	HealthChecks []drydockv1.HealthCheck `json:"healthChecks,omitempty"`
	// HealthTimeoutSeconds limits the checks after the work: node Ready, its DaemonSet pods ready (addition). 0: no limit.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +optional
	HealthTimeoutSeconds *int32 `json:"healthTimeoutSeconds,omitempty"`
	// MaintenanceWindows name the windows in which it may begin (addition): any of them, as namespace/name, or only the name of one in the namespace of
	// the maintenance. Absent: at any time.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MaintenanceWindows []drydockv1.WindowName `json:"maintenanceWindows,omitempty"`
	// OnDrainTimeout: Fail ends the maintenance, Retry drains again (addition). Absent: Retry for an object in a cluster, as with the original operator,
	// whose requestors know no drain that fails; Fail for a maintenance without an object.
	// +optional
	OnDrainTimeout DrainTimeoutAction `json:"onDrainTimeout,omitempty"`
	// OnFailure: Uncordon returns the node after a failure, KeepCordoned keeps it out of service for a person to look at (addition).
	// +kubebuilder:default=Uncordon
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
	// Notify says whom to tell what happens to the maintenance (addition).
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Notify []drydockv1.Notification `json:"notify,omitempty"`
	// LockTimeoutSeconds limits the wait for workload locks (addition). Absent: no limit.
	// +kubebuilder:validation:Minimum=1
	// +optional
	LockTimeoutSeconds *int32 `json:"lockTimeoutSeconds,omitempty"`
	// LockRelease is the product release that the maintenance installs (addition). The requests to the workload locks carry it, and a lock that
	// reports another release holds. Absent: the release of a lock does not matter.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LockRelease string `json:"lockRelease,omitempty"`
}

// RequestorID names who requests a node, like a DNS name.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$')",message="must be like a DNS name, e.g. driver.example.com: letters, digits, '-' and '.', beginning and ending with a letter or digit"
type RequestorID = string

// PodSelector is a label selector in its string form, e.g. app=web,tier in (front,back),!canary. The rule is its grammar; what it lets pass,
// such as a number too large to compare with, is refused when the file is read or the maintenance begins.
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.matches(r'^(?:\s*(?:!\s*(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?(?:\s*(?:==?|!=)\s*(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?|\s*[<>]\s*[0-9]+|\s+(?:not)?in\s*\(\s*(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|,\s*(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)(?:\s*,\s*(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)*\s*\))?)\s*(?:,|$))+$') && !self.matches(r',\s*$')`,message="must be a label selector, e.g. app=web,tier in (front,back),!canary"
type PodSelector = string

// DrainTimeoutAction is what follows a drain that ran out of time.
// +kubebuilder:validation:Enum=Fail;Retry
type DrainTimeoutAction string

// The drain timeout actions.
const (
	DrainTimeoutFail  DrainTimeoutAction = "Fail"
	DrainTimeoutRetry DrainTimeoutAction = "Retry"
)

// FailureAction is the action on a node whose maintenance failed.
// +kubebuilder:validation:Enum=Uncordon;KeepCordoned
type FailureAction string

// The failure actions.
const (
	FailureUncordon     FailureAction = "Uncordon"
	FailureKeepCordoned FailureAction = "KeepCordoned"
)

// WaitForPodCompletionSpec says which pods may end by themselves.
type WaitForPodCompletionSpec struct {
	// PodSelector is a label selector in its string form. Empty: every pod of the node except DaemonSet and static pods.
	// +optional
	PodSelector PodSelector `json:"podSelector,omitempty"`
	// TimeoutSeconds after which the maintenance continues without them. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// DrainSpec says which pods are evicted, and how long that may take.
type DrainSpec struct {
	// Force evicts pods that no controller owns. They do not come back.
	// +optional
	Force bool `json:"force,omitempty"`
	// PodSelector is a label selector in its string form; only pods it picks are evicted. Empty: all.
	// +optional
	PodSelector PodSelector `json:"podSelector,omitempty"`
	// TimeoutSeconds for the whole drain. 0: no limit.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// DeleteEmptyDir evicts pods although their emptyDir data is lost with them.
	// +optional
	DeleteEmptyDir bool `json:"deleteEmptyDir,omitempty"`
	// PodEvictionFilters, if any, narrow the eviction to pods that match at least one of them.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	PodEvictionFilters []PodEvictionFilter `json:"podEvictionFilters,omitempty"`
	// SkipWaitForDeleteSeconds: a pod whose deletionTimestamp, which is the end of its grace period, is longer ago is not waited for (addition). Absent: all
	// are.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SkipWaitForDeleteSeconds *int32 `json:"skipWaitForDeleteSeconds,omitempty"`
	// RefuseIfBlocked: the node stays in service while its drain could never finish unless a person acts, e.g. because a PodDisruptionBudget never allows
	// a disruption (addition). A maintenance without an object fails then, and one with an object waits. Absent: the node is cordoned with a warning.
	// +optional
	RefuseIfBlocked bool `json:"refuseIfBlocked,omitempty"`
	// PodOrder says which pods leave before others (addition): no pod of a higher order is evicted before those of all lower ones have left. The first
	// entry that picks a pod gives its order; a pod that none picks has order 0.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	PodOrder []PodOrder `json:"podOrder,omitempty"`
}

// PodOrder gives pods their place in the order of a drain.
type PodOrder struct {
	// PodSelector is a label selector in its string form.
	// +kubebuilder:validation:MinLength=1
	PodSelector PodSelector `json:"podSelector"`
	// Order of the pods that it picks: lower ones leave first, negative ones before the pods that no entry picks.
	Order int32 `json:"order"`
}

// PodEvictionFilter picks pods to evict.
// +kubebuilder:validation:XValidation:rule="has(self.byResourceNameRegex) && size(self.byResourceNameRegex) > 0",fieldPath=".byResourceNameRegex",reason=FieldValueRequired,message="a filter that names nothing picks no pod, or every one: name a resource, or remove the filter"
type PodEvictionFilter struct {
	// The rule is there to fail: what is no regular expression cannot be evaluated, and is refused with what is wrong with it.

	// ByResourceNameRegex picks pods of which a container requests a resource whose name matches (RE2, not anchored).
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="'-'.matches(self) ? true : true",message="must be a regular expression (RE2)"
	// +optional
	ByResourceNameRegex *string `json:"byResourceNameRegex,omitempty"`
}

// ActionType is a kind of work on a node.
// +kubebuilder:validation:Enum=none;job
type ActionType string

// The kinds of work.
const (
	// ActionNone: the requestor works on the node and sends done.
	ActionNone ActionType = "none"
	// ActionJob: a Job runs on the node.
	ActionJob ActionType = "job"
)

// Action is the work on the node.
// +kubebuilder:validation:XValidation:rule="self.type != 'job' || has(self.job)",fieldPath=".job",reason=FieldValueRequired,message="the Job to run must be given when type is job"
// +kubebuilder:validation:XValidation:rule="self.type == 'job' || !has(self.job)",fieldPath=".type",message="must be job, since a job is given"
type Action struct {
	// +kubebuilder:default=none
	// +optional
	Type ActionType `json:"type,omitempty"`
	// Job to run, pinned to the node and tolerating its cordon.
	// +optional
	Job *JobAction `json:"job,omitempty"`
	// RebootsNode: false when the work is known not to restart the node; its workload locks are then asked for scope
	// "drain" only.
	// +kubebuilder:default=true
	// +optional
	RebootsNode *bool `json:"rebootsNode,omitempty"`
}

// JobAction is the Job that does the work.
type JobAction struct {
	// Namespace in which the Job runs.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Namespace string `json:"namespace"`
	// Template of the Job. Drydock names it, pins its pod to the node and adds the toleration of the cordon.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template batchv1.JobTemplateSpec `json:"template"`
	// TimeoutSeconds for the Job. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// NodeMaintenanceList is a list of NodeMaintenance.
// +kubebuilder:object:root=true
type NodeMaintenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeMaintenance `json:"items"`
}
