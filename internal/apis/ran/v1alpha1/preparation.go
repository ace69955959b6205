package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PreparationState is where the precaching or the backup of a cluster stands.
type PreparationState string

// The states of precaching and backup. The last four are final.
const (
	PreparationNotStarted PreparationState = "NotStarted"
	// PreparationPreparingToStart: its preparation is next.
	PreparationPreparingToStart PreparationState = "PreparingToStart"
	// PreparationStarting: its Job is there, and does not run yet.
	PreparationStarting  PreparationState = "Starting"
	PreparationActive    PreparationState = "Active"
	PreparationSucceeded PreparationState = "Succeeded"
	// PrecacheTimeout and BackupTimeout: the Job did not end in time.
	PrecacheTimeout PreparationState = "PrecacheTimeout"
	BackupTimeout   PreparationState = "BackupTimeout"
	// PreparationFailed: the Job failed, or could not be made.
	PreparationFailed PreparationState = "UnrecoverableError"
)

// Over reports whether the state is final.
func (s PreparationState) Over() bool {
	switch s {
	case PreparationSucceeded, PrecacheTimeout, BackupTimeout, PreparationFailed:
		return true
	}
	return false
}

// PrecachingSpec is what is pulled onto the clusters of a rollout.
type PrecachingSpec struct {
	// +optional
	PlatformImage string `json:"platformImage,omitempty"`
	// +optional
	OperatorsIndexes []string `json:"operatorsIndexes,omitempty"`
	// +optional
	OperatorsPackagesAndChannels []string `json:"operatorsPackagesAndChannels,omitempty"`
	// +optional
	ExcludePrecachePatterns []string `json:"excludePrecachePatterns,omitempty"`
	// SpaceRequired in GiB.
	// +optional
	SpaceRequired string `json:"spaceRequired,omitempty"`
	// +optional
	AdditionalImages []string `json:"additionalImages,omitempty"`
}

// PrecachingStatus is how the precaching of a rollout stands.
type PrecachingStatus struct {
	// +optional
	Spec *PrecachingSpec `json:"spec,omitempty"`
	// Image of the Jobs (addition).
	// +optional
	Image string `json:"image,omitempty"`
	// Status of each cluster.
	// +optional
	Status map[string]PreparationState `json:"status,omitempty"`
	// Outcomes, where Status does not have all, are the states of the clusters of remediationPlan and leftPlan, in their order (addition).
	// +optional
	Outcomes []PreparationOutcome `json:"outcomes,omitempty"`
}

// BackupStatus is how the backup of a rollout's clusters stands.
type BackupStatus struct {
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// Image of the Jobs (addition).
	// +optional
	Image string `json:"image,omitempty"`
	// Status of each cluster.
	// +optional
	Status map[string]PreparationState `json:"status,omitempty"`
	// Outcomes, where Status does not have all, are the states of the clusters of remediationPlan and leftPlan, in their order (addition).
	// +optional
	Outcomes []PreparationOutcome `json:"outcomes,omitempty"`
}

// PreparationOutcome is the state of the precaching, or of the backup, of some clusters that follow each other.
type PreparationOutcome struct {
	// State is empty where nothing was asked of them.
	// +optional
	State    PreparationState `json:"state,omitempty"`
	Clusters int32            `json:"clusters"`
}
