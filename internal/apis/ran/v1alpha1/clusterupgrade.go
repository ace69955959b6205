package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ClusterStep is what is being done to a cluster.
type ClusterStep string

// The steps of a cluster, in the order they happen.
const (
	StepInspect      ClusterStep = "Inspecting"
	StepClusterLocks ClusterStep = "ClusterWorkloadLocks"
	StepControlPlane ClusterStep = "ControlPlaneNodes"
	StepWorkers      ClusterStep = "WorkerNodes"
	StepHealthChecks ClusterStep = "HealthChecks"
	StepCleaningUp   ClusterStep = "CleaningUp"
	StepOver         ClusterStep = "Over"
)

// ClusterSteps are all steps, in the order they happen.
func ClusterSteps() []ClusterStep {
	return []ClusterStep{StepInspect, StepClusterLocks, StepControlPlane, StepWorkers, StepHealthChecks, StepCleaningUp, StepOver}
}

// ClusterUpgradeStatus is what is known of one cluster of a rollout, node by node.
type ClusterUpgradeStatus struct {
	Cluster string       `json:"cluster"`
	State   ClusterState `json:"state"`
	Step    ClusterStep  `json:"step"`
	// +optional
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Held is the emergency stop that holds the cluster: no node is started.
	// +optional
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Nodes in the order of the plan.
	// +optional
	Nodes []ClusterNodeStatus `json:"nodes,omitempty"`
	// Stages of the cluster's own locks, with their times.
	// +optional
	Stages []drydockv1.StageRecord `json:"stages,omitempty"`
	// LockProgress is how far the maintenance has come with the nodes of each application that holds locks on them.
	// +optional
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
	// +optional
	Notes []string `json:"notes,omitempty"`
	// +optional
	Failure *maintenancev1.Failure `json:"failure,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// The stages of the cluster's own locks, in the order they happen.
const (
	StageClusterMaintenanceRequested  drydockv1.Stage = "ClusterMaintenanceRequested"
	StageClusterWorkloadLocksInactive drydockv1.Stage = "ClusterWorkloadLocksInactive"
	StageClusterMaintenanceRemoved    drydockv1.Stage = "ClusterMaintenanceRemoved"
)

// ClusterNodeStatus is the record of one node.
type ClusterNodeStatus struct {
	Name string `json:"name"`
	// +optional
	ControlPlane bool                    `json:"controlPlane,omitempty"`
	State        maintenancev1.NodeState `json:"state"`
	// +optional
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Evicted pods so far.
	// +optional
	Evicted int32 `json:"evicted,omitempty"`
	// LockTimeLeft is the remainder of lockTimeoutSeconds for the workload locks of a node that waits for a slot again.
	// +optional
	LockTimeLeft *maintenancev1.LockTimeLeft `json:"lockTimeLeft,omitempty"`
	// LockProgress as the node reports it; it is kept for the cluster.
	// +optional
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
	// +optional
	Failure *maintenancev1.Failure `json:"failure,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}
