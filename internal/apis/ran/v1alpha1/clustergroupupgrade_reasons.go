package v1alpha1

// Condition types of a ClusterGroupUpgrade. Two of them have the spelling of the published API.
const (
	ConditionClustersSelected    = "ClustersSelected"
	ConditionValidated           = "Validated"
	ConditionPrecacheSpecValid   = "PrecacheSpecValid"
	ConditionPrecachingSucceeded = "PrecachingSuceeded"
	ConditionBackupSucceeded     = "BackupSuceeded"
	ConditionProgressing         = "Progressing"
	ConditionSucceeded           = "Succeeded"
)

// Condition reasons.
const (
	ReasonClusterSelectionCompleted = "ClusterSelectionCompleted"
	ReasonClusterNotFound           = "ClusterNotFound"

	ReasonValidationCompleted           = "ValidationCompleted"
	ReasonNotAllManagedPoliciesExist    = "NotAllManagedPoliciesExist"
	ReasonAmbiguousManagedPoliciesNames = "AmbiguousManagedPoliciesNames"
	// ReasonUnresolvableDependency has the spelling of the published API.
	ReasonUnresolvableDependency       = "UnresolvableDenpendency"
	ReasonNotAllManifestTemplatesExist = "NotAllManifestTemplatesExist"
	// ReasonInvalidPlatformImage: it does not follow from the policies which release of the platform clusters go to.
	ReasonInvalidPlatformImage = "InvalidPlatformImage"
	// ReasonClusterUnreachable: no worker could do anything to a cluster of the plan.
	ReasonClusterUnreachable = "ClusterUnreachable"
	// ReasonBackupImageMissing: backups are asked for, and nothing says by what.
	ReasonBackupImageMissing = "BackupImageMissing"

	ReasonPrecacheSpecIsWellFormed = "PrecacheSpecIsWellFormed"
	ReasonPrecacheSpecIncomplete   = "PrecacheSpecIncomplete"
	ReasonPrecachingCompleted      = "PrecachingCompleted"
	ReasonBackupCompleted          = "BackupCompleted"
	ReasonPartiallyDone            = "PartiallyDone"

	ReasonInProgress = "InProgress"
	// ReasonInvalidPlan: the rollout of an object is enabled, and waits until its plan has no errors (addition).
	ReasonInvalidPlan = "InvalidPlan"
	// ReasonWaitingForPlacement: placements in the namespace of a policy cannot select clusters of the rollout yet.
	ReasonWaitingForPlacement = "WaitingForPlacement"
	ReasonNotEnabled          = "NotEnabled"
	// ReasonMissingBlockingCR and ReasonIncompleteBlockingCR: a rollout that must have succeeded first is not known, or has not succeeded.
	ReasonMissingBlockingCR    = "MissingBlockingCR"
	ReasonIncompleteBlockingCR = "IncompleteBlockingCR"
	ReasonNotStarted           = "NotStarted"
	ReasonCompleted            = "Completed"
	ReasonTimedOut             = "TimedOut"
	ReasonFailed               = "Failed"
	ReasonCancelled            = "Cancelled"
	// ReasonClustersOffline: the rollout is complete on all clusters but those that were offline (addition). It is also why a rollout waits for them.
	ReasonClustersOffline = "ClustersOffline"
	ReasonAborted         = "Aborted"
)

// Reasons why a rollout waits.
const (
	// ReasonBatchInProgress is what a rollout waits for without another reason: its running clusters.
	ReasonBatchInProgress = "BatchInProgress"
	// ReasonWaitingForApproval: the next batch needs an approval.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonSoaking: what has been done to clusters must last for a while before others follow.
	ReasonSoaking = "Soaking"
)

// Reasons of the Events on a ClusterGroupUpgrade. The last two are additions.
const (
	EventCreated               = "CguCreated"
	EventStarted               = "CguStarted"
	EventSuccess               = "CguSuccess"
	EventTimedOut              = "CguTimedout"
	EventValidationFailure     = "CguValidationFailure"
	EventFailed                = "CguFailed"
	EventApprovingInstallPlans = "CguApprovingInstallPlans"
)

// ReasonClusterDeleted is the reason of a cluster whose ManagedCluster, or namespace on the hub, was deleted while the rollout ran.
const ReasonClusterDeleted = "ClusterDeleted"

// ReasonClusterOffline is the reason of a cluster whose ManagedCluster is not Available.
const ReasonClusterOffline = "ClusterOffline"
