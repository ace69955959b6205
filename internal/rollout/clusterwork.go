package rollout

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// WorkState is the state of the work on one cluster, from its start until its slot is free.
type WorkState string

// The states of the work on a cluster.
const (
	// WorkRunning: the remediator works on the cluster.
	WorkRunning WorkState = "Running"
	// WorkChecking: the remediator is done, and the health checks of the rollout run.
	WorkChecking WorkState = "Checking"
	// WorkSoaking: the cluster is complete, and keeps its slot while it soaks.
	WorkSoaking WorkState = "Soaking"
	// WorkTimedOut: the work is being cancelled because it timed out.
	WorkTimedOut WorkState = "TimedOut"
	// WorkClusterDeleted: the work is being cancelled because the ManagedCluster was deleted. The cluster has failed.
	WorkClusterDeleted WorkState = "ClusterDeleted"
	// WorkEnded: the slot is free.
	WorkEnded WorkState = "Ended"
)

// Busy reports whether work on the cluster is in progress. Soaking needs no work.
func (s WorkState) Busy() bool { return s != WorkSoaking && s != WorkEnded }

// Timed reports whether the time limit of a cluster applies.
func (s WorkState) Timed() bool { return s == WorkRunning || s == WorkChecking }

// TimeOut is the state after the cluster, or its batch, has timed out.
func (s WorkState) TimeOut() WorkState {
	if s.Timed() {
		return WorkTimedOut
	}
	return s
}

// ClusterDeleted is the state after the ManagedCluster was deleted. Only busy clusters have work to cancel.
func (s WorkState) ClusterDeleted() WorkState {
	if s.Busy() {
		return WorkClusterDeleted
	}
	return WorkEnded
}

// WorkResult is the result of a remediator or of its health checks.
type WorkResult struct {
	State ranv1.ClusterState
	// HealthChecks: the rollout has health checks.
	HealthChecks bool
	// Soaks: other clusters wait until this one has soaked.
	Soaks bool
}

// End returns the next state after the remediator or the health checks ended, and the new state of the cluster.
func (s WorkState) End(result WorkResult) (WorkState, ranv1.ClusterState) {
	complete := result.State == ranv1.ClusterComplete
	switch {
	case s == WorkClusterDeleted:
		return WorkEnded, ranv1.ClusterFailed
	case complete && s == WorkRunning && result.HealthChecks:
		return WorkChecking, ranv1.ClusterRunning
	case complete && s == WorkTimedOut && result.HealthChecks: // no time is left for the checks
		return WorkEnded, ranv1.ClusterTimedOut
	case result.State == ranv1.ClusterCancelled && s == WorkTimedOut:
		return WorkEnded, ranv1.ClusterTimedOut
	case complete && result.Soaks:
		return WorkSoaking, ranv1.ClusterSoaking
	}
	return WorkEnded, result.State
}
