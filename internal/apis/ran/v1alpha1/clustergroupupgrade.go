package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ClusterGroupUpgrade rolls one remediation over a group of clusters.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cgu
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].reason`
// +kubebuilder:printcolumn:name="Details",type=string,JSONPath=`.status.conditions[-1:].message`
type ClusterGroupUpgrade struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterGroupUpgradeSpec `json:"spec"`
	// +optional
	Status ClusterGroupUpgradeStatus `json:"status,omitempty"`
}

// ClusterGroupUpgradeSpec says which clusters, what is done to them, and how carefully.
// +kubebuilder:validation:XValidation:rule="(has(self.managedPolicies) && size(self.managedPolicies) > 0 ? 1 : 0) + (has(self.manifestWorkTemplates) && size(self.manifestWorkTemplates) > 0 ? 1 : 0) + (has(self.nodeMaintenance) ? 1 : 0) <= 1",message="at most one of managedPolicies, manifestWorkTemplates and nodeMaintenance may be set"
// +kubebuilder:validation:XValidation:rule="(has(self.clusters) && size(self.clusters) > 0) || (has(self.clusterSelector) && size(self.clusterSelector) > 0) || (has(self.clusterLabelSelectors) && size(self.clusterLabelSelectors) > 0)",message="nothing to select clusters from: set clusters, clusterLabelSelectors or clusterSelector"
type ClusterGroupUpgradeSpec struct {
	// Clusters by name, in order. Duplicates are dropped.
	// +kubebuilder:validation:items:MinLength=1
	// +optional
	Clusters []string `json:"clusters,omitempty"`
	// ClusterLabelSelectors add every cluster that at least one of them picks, in order of name, after Clusters.
	// +optional
	ClusterLabelSelectors []metav1.LabelSelector `json:"clusterLabelSelectors,omitempty"`
	// ClusterSelector is the older form: "key=value", or "key" for that label with an empty value.
	// +optional
	ClusterSelector []string `json:"clusterSelector,omitempty"`
	// Enable: false only plans; the enable signal starts.
	// +kubebuilder:default=true
	// +optional
	Enable *bool `json:"enable,omitempty"`

	RemediationStrategy RemediationStrategy `json:"remediationStrategy"`
	// BatchTimeoutAction is what follows a batch that ran out of time.
	// +kubebuilder:default=Continue
	// +optional
	BatchTimeoutAction BatchTimeoutAction `json:"batchTimeoutAction,omitempty"`

	// ManagedPolicies are enforced, in order.
	// +kubebuilder:validation:items:MinLength=1
	// +optional
	ManagedPolicies []string `json:"managedPolicies,omitempty"`
	// PolicyEnforcement is how the policies are enforced (Drydock's addition). Absent: as the workers' option says or, without one, by Override
	// where the hub can, and otherwise by Copy.
	// +optional
	PolicyEnforcement PolicyEnforcement `json:"policyEnforcement,omitempty"`
	// ManifestWorkTemplates are applied, in order.
	// +kubebuilder:validation:items:MinLength=1
	// +optional
	ManifestWorkTemplates []string `json:"manifestWorkTemplates,omitempty"`
	// NodeMaintenance is done to every node of every cluster (Drydock's addition).
	// +optional
	NodeMaintenance *NodeMaintenanceRemediation `json:"nodeMaintenance,omitempty"`

	// BlockingCRs are rollouts that must have succeeded first.
	// +optional
	BlockingCRs []BlockingCR `json:"blockingCRs,omitempty"`
	// PreCaching pulls images on the clusters beforehand.
	// +optional
	PreCaching bool `json:"preCaching,omitempty"`
	// +optional
	PreCachingConfigRef *ObjectRef `json:"preCachingConfigRef,omitempty"`
	// Backup of every cluster before the first batch.
	// +optional
	Backup bool `json:"backup,omitempty"`
	// HealthChecks must hold on every cluster of the plan before the first batch starts, and on each cluster when the work on it is done, before it
	// counts as complete (addition).
	// +optional
	HealthChecks []drydockv1.HealthCheck `json:"healthChecks,omitempty"`
	// Notify says whom to tell what happens to the rollout (addition).
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Notify []drydockv1.Notification `json:"notify,omitempty"`
	// Actions on the clusters' labels and annotations.
	// +optional
	Actions Actions `json:"actions,omitempty"`
	// MaintenanceWindows name the windows in which something may start (addition): any of them, as namespace/name, or only the name of one in the
	// rollout's namespace. Absent: at any time.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MaintenanceWindows []drydockv1.WindowName `json:"maintenanceWindows,omitempty"`
	// Approvals that the rollout waits for (addition).
	// +optional
	Approvals *Approvals `json:"approvals,omitempty"`
}

// RemediationStrategy says how carefully.
type RemediationStrategy struct {
	// Canaries go first, one at a time.
	// +kubebuilder:validation:items:MinLength=1
	// +optional
	Canaries []string `json:"canaries,omitempty"`
	// MaxConcurrency is how many clusters are upgraded at once: a number of at least 1, or a percentage of the selected clusters,
	// rounded down, at least 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self <= 2147483647",message="must be at most 2147483647"
	MaxConcurrency intstr.IntOrString `json:"maxConcurrency"`
	// Timeout for the whole rollout, in minutes.
	// +kubebuilder:default=240
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=525600
	// +optional
	Timeout int32 `json:"timeout,omitempty"`

	// Rollout is how the clusters after the canaries start: batch after batch, or each as soon as another has ended, so that as many as
	// maxConcurrency are always running (addition).
	// +kubebuilder:default=Batched
	// +optional
	Rollout RolloutMode `json:"rollout,omitempty"`
	// ClusterTimeout cancels a cluster that takes longer, in minutes. Absent: it may take as long as its batch (addition).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=525600
	// +optional
	ClusterTimeout int32 `json:"clusterTimeout,omitempty"`
	// MaxFailures is how many clusters may fail or time out: a number of at least 1, or a percentage of the selected clusters, rounded down,
	// at least 1. No more clusters run than may still fail; when that many have failed, nothing else starts. Absent: no limit, so that
	// after a failed cluster, other than a canary, the next batch starts (addition).
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	// +optional
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// SoakSeconds is how long what has been done to the clusters of a batch must last before the next one starts (addition).
	// +kubebuilder:validation:Minimum=0
	// +optional
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// OfflineAction is what happens to a cluster whose ManagedCluster is not Available when its batch comes: it is deferred until it is back, or it
	// fails. A canary is not deferred: its batch waits for it (addition).
	// +kubebuilder:default=Defer
	// +optional
	OfflineAction OfflineAction `json:"offlineAction,omitempty"`
	// CatchUp is for how many minutes after the timeout of the rollout deferred clusters may still be remediated (addition).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=525600
	// +optional
	CatchUp int32 `json:"catchUp,omitempty"`
}

// OfflineAction is what happens to a cluster that is offline when its batch comes.
// +kubebuilder:validation:Enum=Defer;Fail
type OfflineAction string

// The offline actions.
const (
	// OfflineDefer: the next cluster takes its place, and it follows the other clusters when it is back. It does not count as a failure.
	OfflineDefer OfflineAction = "Defer"
	// OfflineFail: it fails, which counts towards maxFailures.
	OfflineFail OfflineAction = "Fail"
)

// RolloutMode is how clusters are taken.
// +kubebuilder:validation:Enum=Batched;Rolling
type RolloutMode string

// The ways to take clusters.
const (
	Batched RolloutMode = "Batched"
	Rolling RolloutMode = "Rolling"
)

// Approvals are the points at which a rollout waits for an approval.
type Approvals struct {
	// BeforeCanaries: before the first batch.
	// +optional
	BeforeCanaries bool `json:"beforeCanaries,omitempty"`
	// AfterCanaries: before the first batch after the canaries.
	// +optional
	AfterCanaries bool `json:"afterCanaries,omitempty"`
	// BeforeEachBatch: before every batch.
	// +optional
	BeforeEachBatch bool `json:"beforeEachBatch,omitempty"`
	// SeparateDuties: who started, edited, enabled or retried the rollout may not approve.
	// +optional
	SeparateDuties bool `json:"separateDuties,omitempty"`
	// Expiry is for how many minutes an approval is waited for, and holds. Absent: without limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=525600
	// +optional
	Expiry int32 `json:"expiry,omitempty"`
}

// BatchTimeoutAction is what follows a batch that ran out of time.
// +kubebuilder:validation:Enum=Continue;Abort
type BatchTimeoutAction string

// The batch timeout actions.
const (
	BatchTimeoutContinue BatchTimeoutAction = "Continue"
	BatchTimeoutAbort    BatchTimeoutAction = "Abort"
)

// NodeMaintenanceRemediation maintains the nodes of a cluster: control plane first, one at a time, then the others within
// the budgets of the cluster's MaintenanceOperatorConfig.
// +kubebuilder:validation:XValidation:rule="!has(self.onDrainTimeout) || self.onDrainTimeout != 'Retry' || has(self.drainSpec)",fieldPath=".onDrainTimeout",reason=FieldValueForbidden,message="there is no drain to retry: set drainSpec, {} drains with the defaults"
type NodeMaintenanceRemediation struct {
	// NodeSelector picks nodes by label. Absent: all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// SkipNodes by name.
	// +optional
	SkipNodes []string `json:"skipNodes,omitempty"`
	// ControlPlaneFirst: false treats control-plane nodes like any other.
	// +kubebuilder:default=true
	// +optional
	ControlPlaneFirst *bool `json:"controlPlaneFirst,omitempty"`
	// +optional
	WaitForPodCompletion *maintenancev1.WaitForPodCompletionSpec `json:"waitForPodCompletion,omitempty"`
	// +optional
	DrainSpec *maintenancev1.DrainSpec `json:"drainSpec,omitempty"`
	// Action is the work on each node. Absent: a node is returned as soon as it is drained. Type none: each node
	// becomes ready for a requestor, and is returned after its done.
	// +optional
	Action *maintenancev1.Action `json:"action,omitempty"`
	// HealthChecks must hold after the work on each node, and again when the cluster is done.
	// +optional
	HealthChecks []drydockv1.HealthCheck `json:"healthChecks,omitempty"`
	// HealthTimeoutSeconds limits the checks that the node is Ready and its DaemonSet pods are. 0: no limit.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +optional
	HealthTimeoutSeconds *int32 `json:"healthTimeoutSeconds,omitempty"`
	// +kubebuilder:default=Fail
	// +optional
	OnDrainTimeout maintenancev1.DrainTimeoutAction `json:"onDrainTimeout,omitempty"`
	// +kubebuilder:default=Uncordon
	// +optional
	OnFailure maintenancev1.FailureAction `json:"onFailure,omitempty"`
	// LockTimeoutSeconds limits the wait for workload locks, of the cluster and of each node. Absent: no limit.
	// +kubebuilder:validation:Minimum=1
	// +optional
	LockTimeoutSeconds *int32 `json:"lockTimeoutSeconds,omitempty"`
	// LockRelease is the product release that the rollout installs. The requests to the workload locks of clusters and nodes carry it, and a lock that
	// reports another release holds. Absent: the release of a lock does not matter.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LockRelease string `json:"lockRelease,omitempty"`
}

// AnnotationBlockingMode of a rollout is BlockingPartial if its blockers need only have ended, with any result. With AnnotationBlockingFiltering "true" it then
// works only on clusters that are complete in all of them. Other values have no effect.
const (
	AnnotationBlockingMode      = "ran.openshift.io/blocking-cgu-completion-mode"
	BlockingPartial             = "partial"
	AnnotationBlockingFiltering = "ran.openshift.io/blocking-cgu-cluster-filtering"
)

// BlockingCR names a rollout that must have succeeded first.
type BlockingCR struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
}

// ObjectRef names an object; empty: none.
type ObjectRef struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Actions on the clusters' labels and annotations.
type Actions struct {
	// +optional
	BeforeEnable *BeforeEnable `json:"beforeEnable,omitempty"`
	// +optional
	AfterCompletion *AfterCompletion `json:"afterCompletion,omitempty"`
}

// BeforeEnable is done to all clusters of the plan at the start.
type BeforeEnable struct {
	// +optional
	AddClusterLabels map[string]string `json:"addClusterLabels,omitempty"`
	// +optional
	RemoveClusterLabels []string `json:"removeClusterLabels,omitempty"`
	// DeleteClusterLabels is the older form of RemoveClusterLabels.
	// +optional
	DeleteClusterLabels map[string]string `json:"deleteClusterLabels,omitempty"`
	// +optional
	AddClusterAnnotations map[string]string `json:"addClusterAnnotations,omitempty"`
	// +optional
	RemoveClusterAnnotations []string `json:"removeClusterAnnotations,omitempty"`
}

// AfterCompletion is done to each cluster as it completes.
type AfterCompletion struct {
	// +optional
	AddClusterLabels map[string]string `json:"addClusterLabels,omitempty"`
	// +optional
	RemoveClusterLabels []string `json:"removeClusterLabels,omitempty"`
	// DeleteClusterLabels is the older form of RemoveClusterLabels.
	// +optional
	DeleteClusterLabels map[string]string `json:"deleteClusterLabels,omitempty"`
	// +optional
	AddClusterAnnotations map[string]string `json:"addClusterAnnotations,omitempty"`
	// +optional
	RemoveClusterAnnotations []string `json:"removeClusterAnnotations,omitempty"`
	// DeleteObjects: what the rollout created is removed when it has succeeded.
	// +kubebuilder:default=true
	// +optional
	DeleteObjects *bool `json:"deleteObjects,omitempty"`
}

// ClusterGroupUpgradeList is a list of ClusterGroupUpgrade.
// +kubebuilder:object:root=true
type ClusterGroupUpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterGroupUpgrade `json:"items"`
}
