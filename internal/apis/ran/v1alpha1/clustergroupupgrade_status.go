package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// ClusterState is where a cluster of a rollout stands.
type ClusterState string

// The states of a cluster.
const (
	ClusterPending   ClusterState = "pending"
	ClusterOffline   ClusterState = "offline"
	ClusterRunning   ClusterState = "running"
	ClusterSoaking   ClusterState = "soaking"
	ClusterComplete  ClusterState = "complete"
	ClusterFailed    ClusterState = "failed"
	ClusterTimedOut  ClusterState = "timedout"
	ClusterCancelled ClusterState = "cancelled"
	ClusterSkipped   ClusterState = "skipped"
)

// Over reports whether the cluster's part in the rollout has ended.
func (s ClusterState) Over() bool {
	switch s {
	case ClusterComplete, ClusterFailed, ClusterTimedOut, ClusterCancelled, ClusterSkipped:
		return true
	}
	return false
}

// ClusterGroupUpgradeStatus is what is known of a rollout.
type ClusterGroupUpgradeStatus struct {
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ComputedMaxConcurrency is maxConcurrency as a number of clusters.
	// +optional
	ComputedMaxConcurrency int32 `json:"computedMaxConcurrency,omitempty"`
	// RemediationPlan is the clusters of each batch.
	// +optional
	RemediationPlan [][]string `json:"remediationPlan,omitempty"`
	// ManagedPoliciesForUpgrade and ManagedPoliciesCompliantBeforeUpgrade divide the managed policies.
	// +optional
	ManagedPoliciesForUpgrade []ManagedPolicy `json:"managedPoliciesForUpgrade,omitempty"`
	// +optional
	ManagedPoliciesCompliantBeforeUpgrade []string `json:"managedPoliciesCompliantBeforeUpgrade,omitempty"`
	// ManagedPoliciesNs are the namespaces of the managed policies that are enforced, by name.
	// +optional
	ManagedPoliciesNs map[string]string `json:"managedPoliciesNs,omitempty"`
	// ManagedPoliciesContent lists, as JSON, the Subscriptions of managed policies, by the name of the policy.
	// +optional
	ManagedPoliciesContent map[string]string `json:"managedPoliciesContent,omitempty"`
	// PolicyEnforcement is how this run enforces the policies (addition).
	// +optional
	PolicyEnforcement *EnforcementStatus `json:"policyEnforcement,omitempty"`
	// Placements and PlacementBindings are the names of those that the rollout has created.
	// +optional
	Placements []string `json:"placements,omitempty"`
	// +optional
	PlacementBindings []string `json:"placementBindings,omitempty"`
	// CopiedPolicies are the names of the copies of policies that the rollout has created.
	// +optional
	CopiedPolicies []string `json:"copiedPolicies,omitempty"`
	// SafeResourceNames are the names of what the rollout has made on the hub, by the names that would be too long or not unique.
	// +optional
	SafeResourceNames map[string]string `json:"safeResourceNames,omitempty"`
	// Precaching, if it was asked for.
	// +optional
	Precaching *PrecachingStatus `json:"precaching,omitempty"`
	// Backup, if it was asked for.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
	// Clusters in the order of the plan, then those skipped.
	// +optional
	Clusters []ClusterStatus `json:"clusters,omitempty"`
	// Outcomes, where Clusters does not have all, are the states of the clusters of RemediationPlan, in its order (addition).
	// +optional
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// LeftPlan, where Clusters does not have all, are the clusters that have left the plan: they could not be prepared, and have failed (addition).
	// +optional
	LeftPlan []string `json:"leftPlan,omitempty"`
	// AfterCompletion is there once actions.afterCompletion is being done, in this run or in the one that this run retries (addition).
	// +optional
	AfterCompletion *AfterCompletionStatus `json:"afterCompletion,omitempty"`
	// ComputedMaxFailures is maxFailures as a number of clusters (addition).
	// +optional
	ComputedMaxFailures int32 `json:"computedMaxFailures,omitempty"`
	// Approvals that were given, the latest last; the oldest are dropped when there are very many (addition).
	// +optional
	Approvals []Approval `json:"approvals,omitempty"`
	// Status of the run.
	// +optional
	Status RunStatus `json:"status,omitempty"`

	// Wait is the one reason why the rollout waits (addition).
	// +optional
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Counts of clusters by state (addition).
	// +optional
	Counts ClusterCounts `json:"counts,omitempty"`
	// Percentage of the plan that is done, from 0 to 100; of a cluster that is not complete, the nodes that are done count (addition).
	// +optional
	Percentage int32 `json:"percentage,omitempty"`
	// Paused: nothing new is started (addition).
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Held is the emergency stop that holds the rollout and suspends its timeouts: that of every cluster, or of one of the
	// current batch (addition).
	// +optional
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Notes tell what a person should know, such as what could not be done on the side (addition).
	// +optional
	Notes []string `json:"notes,omitempty"`
	// NextCursor, in a status that was asked for in part, is where the next part begins (addition).
	// +optional
	NextCursor string `json:"nextCursor,omitempty"`
}

// ManagedPolicy is a policy of a rollout.
type ManagedPolicy struct {
	Name string `json:"name"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Outcome is the state of some clusters that follow each other in a plan.
type Outcome struct {
	State    ClusterState `json:"state"`
	Clusters int32        `json:"clusters"`
}

// AfterCompletionStatus is the result of actions.afterCompletion.
type AfterCompletionStatus struct {
	// NotDone are the clusters that are complete, or needed no work, and to which it was not done: they refused it, or the rollout did not wait for them. To all
	// others it was.
	// +optional
	NotDone []string `json:"notDone,omitempty"`
}

// ApprovalPoint is where in a rollout an approval is required.
// +kubebuilder:validation:Enum=beforeCanaries;afterCanaries;beforeEachBatch
type ApprovalPoint string

// The points, by the names of the fields that request them.
const (
	BeforeCanaries  ApprovalPoint = "beforeCanaries"
	AfterCanaries   ApprovalPoint = "afterCanaries"
	BeforeEachBatch ApprovalPoint = "beforeEachBatch"
)

// Approval is an approval that was given.
type Approval struct {
	Point ApprovalPoint `json:"point"`
	// Batch that was to start.
	Batch int32       `json:"batch"`
	By    string      `json:"by"`
	At    metav1.Time `json:"at"`
	// +optional
	Comment string `json:"comment,omitempty"`
}

// RunStatus says where the run stands.
type RunStatus struct {
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// CurrentBatch counts from 1; 0 before the first.
	// +optional
	CurrentBatch int32 `json:"currentBatch,omitempty"`
	// Batches is how many the plan has, in a part of a status, which does not have the plan (addition).
	// +optional
	Batches int32 `json:"batches,omitempty"`
	// CatchUpBatch is the number of the last batch, if it has the clusters that were offline when their batch came; 0: there is none (addition).
	// +optional
	CatchUpBatch int32 `json:"catchUpBatch,omitempty"`
	// +optional
	CurrentBatchStartedAt *metav1.Time `json:"currentBatchStartedAt,omitempty"`
	// CurrentBatchRemediationProgress is the progress of the clusters of the current batch, by name.
	// +optional
	CurrentBatchRemediationProgress map[string]*RemediationProgress `json:"currentBatchRemediationProgress,omitempty"`
	// CurrentBatchDeadline is when the batch times out; absent while paused or held (addition).
	// +optional
	CurrentBatchDeadline *metav1.Time `json:"currentBatchDeadline,omitempty"`
	// Deadline is when the rollout times out; absent while paused or held (addition).
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Estimate of the end; absent without an estimate (addition).
	// +optional
	Estimate *Estimate `json:"estimate,omitempty"`
}

// RemediationState is the state of a cluster of the current batch.
type RemediationState string

// The states of a cluster of the current batch.
const (
	RemediationNotStarted RemediationState = "NotStarted"
	RemediationInProgress RemediationState = "InProgress"
	RemediationCompleted  RemediationState = "Completed"
)

// RemediationProgress is the progress of a cluster of the current batch.
type RemediationProgress struct {
	// +optional
	State RemediationState `json:"state,omitempty"`
	// PolicyIndex is the index in managedPoliciesForUpgrade of the policy that is remediated.
	// +optional
	PolicyIndex *int32 `json:"policyIndex,omitempty"`
	// ManifestWorkIndex is the index in manifestWorkTemplates of the manifest work that is remediated.
	// +optional
	ManifestWorkIndex *int32 `json:"manifestWorkIndex,omitempty"`
	// FirstCompliantAt is when a cluster that soaks became compliant with the policy.
	// +optional
	FirstCompliantAt *metav1.Time `json:"firstCompliantAt,omitempty"`
}

// Estimate is when a rollout is expected to have gone through its plan, from how long its clusters have taken so far.
type Estimate struct {
	End metav1.Time `json:"end"`
	// Earliest and Latest are the end if the remaining clusters take as long as the fastest and the slowest cluster so far.
	Earliest metav1.Time `json:"earliest"`
	Latest   metav1.Time `json:"latest"`
}

// ClusterStatus is the record of one cluster in a rollout.
type ClusterStatus struct {
	Name  string       `json:"name"`
	State ClusterState `json:"state"`
	// Batch counts from 1; 0 for a skipped cluster.
	// +optional
	Batch int32 `json:"batch,omitempty"`
	// Step is what is being done, e.g. "worker-3: Draining".
	// +optional
	Step string `json:"step,omitempty"`
	// Reason and Message say why it waits, or why it ended as it did.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when that reason began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the wait for that reason ends by itself, such as the deadline of a drain; absent: it does not (addition).
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Held is the emergency stop that holds the cluster; for a pending cluster only a hold of that cluster.
	// +optional
	Held *drydockv1.Hold `json:"held,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// CurrentPolicy is the policy that is remediated on the cluster, or was when the cluster ended without being complete.
	// +optional
	CurrentPolicy *PolicyStatus `json:"currentPolicy,omitempty"`
	// CurrentManifestWork is the same for manifest works.
	// +optional
	CurrentManifestWork *ManifestWorkStatus `json:"currentManifestWork,omitempty"`
	// Nodes counts the cluster's nodes.
	// +optional
	Nodes NodeCounts `json:"nodes,omitempty"`
	// LockProgress is how far the maintenance of the cluster has come with the nodes of each application that holds locks on them; absent once the cluster is
	// over (addition).
	// +optional
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
}

// PolicyStatus is how a cluster stands to a policy.
type PolicyStatus struct {
	Name string `json:"name"`
	// Status is Compliant, NonCompliant, Pending, or Unbound; empty before the cluster has said.
	// +optional
	Status string `json:"status,omitempty"`
}

// ManifestWorkStatus is the manifest work of a cluster.
type ManifestWorkStatus struct {
	// Name of the template.
	Name string `json:"name"`
	// Status is what the cluster reported of the manifests when it timed out, in short; absent if the work did not exist, or if the statuses of other
	// clusters of the rollout take the space.
	// +optional
	Status *ManifestResourceStatus `json:"status,omitempty"`
}

// ManifestResourceStatus is the status of the manifests of a work.
type ManifestResourceStatus struct {
	// +optional
	Manifests []ManifestCondition `json:"manifests,omitempty"`
}

// ManifestCondition is the status of one manifest. One that is applied, available and has its feedback keeps only its first condition; any other one has
// no feedback.
type ManifestCondition struct {
	ResourceMeta ManifestResourceMeta `json:"resourceMeta"`
	// +optional
	StatusFeedback StatusFeedbackResult `json:"statusFeedback,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`
}

// ManifestResourceMeta is the resource of a manifest.
type ManifestResourceMeta struct {
	// Ordinal is the index of the manifest in the work.
	Ordinal int32 `json:"ordinal"`
	// +optional
	Group string `json:"group,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Resource string `json:"resource,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// StatusFeedbackResult has the values that a cluster reports of a resource.
type StatusFeedbackResult struct {
	// +listType=map
	// +listMapKey=name
	// +optional
	Values []FeedbackValue `json:"values,omitempty"`
}

// FeedbackValue is a value that a cluster reports of a resource.
type FeedbackValue struct {
	Name       string     `json:"name"`
	FieldValue FieldValue `json:"fieldValue"`
}

// FieldValue is the value of a field, in the field of its type.
type FieldValue struct {
	// +kubebuilder:validation:Enum=Integer;String;Boolean;JsonRaw
	Type string `json:"type"`
	// +optional
	Integer *int64 `json:"integer,omitempty"`
	// +optional
	String *string `json:"string,omitempty"`
	// +optional
	Boolean *bool `json:"boolean,omitempty"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	JsonRaw *string `json:"jsonRaw,omitempty"`
}

// NodeCounts counts the nodes of a cluster in a rollout.
type NodeCounts struct {
	Total int32 `json:"total"`
	Done  int32 `json:"done"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Evicted pods, on all nodes so far.
	// +optional
	Evicted int32 `json:"evicted,omitempty"`
}

// ClusterCounts counts clusters by state.
type ClusterCounts struct {
	Total int32 `json:"total"`
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// +optional
	Offline int32 `json:"offline,omitempty"`
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Complete int32 `json:"complete,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	TimedOut int32 `json:"timedout,omitempty"`
	// +optional
	Cancelled int32 `json:"cancelled,omitempty"`
	// +optional
	Skipped int32 `json:"skipped,omitempty"`
}
