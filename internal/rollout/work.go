package rollout

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// WorkState is the state of the work on one cluster, from its start until its place is free for another cluster.
type WorkState string

// The states of the work on a cluster.
const (
	// WorkRunning: the remediator works on the cluster.
	WorkRunning WorkState = "Running"
	// WorkChecking: the remediator is done, and the health checks of the rollout must hold.
	WorkChecking WorkState = "Checking"
	// WorkSoaking: the cluster is complete, and keeps its place until it has soaked.
	WorkSoaking WorkState = "Soaking"
	// WorkTimedOut: the work is being withdrawn because its time is over.
	WorkTimedOut WorkState = "TimedOut"
	// WorkVanished: the work is being withdrawn because the ManagedCluster is gone. The cluster has failed.
	WorkVanished WorkState = "Vanished"
	// WorkEnded: the place is free.
	WorkEnded WorkState = "Ended"
)

// Busy reports whether work on the cluster is still in progress. A cluster that soaks needs none.
func (s WorkState) Busy() bool { return s != WorkSoaking && s != WorkEnded }

// Timed reports whether the time limit of a cluster applies.
func (s WorkState) Timed() bool { return s == WorkRunning || s == WorkChecking }

// TimeOut is the state after the time of the cluster, or of its batch, is over.
func (s WorkState) TimeOut() WorkState {
	if s.Timed() {
		return WorkTimedOut
	}
	return s
}

// Vanish is the state after the ManagedCluster was found gone. There is nothing to withdraw from a cluster that soaks.
func (s WorkState) Vanish() WorkState {
	if s.Busy() {
		return WorkVanished
	}
	return WorkEnded
}

// WorkResult is how the work of a remediator, or its health checks, ended.
type WorkResult struct {
	State ranv1.ClusterState
	// HealthChecks: the rollout has some.
	HealthChecks bool
	// Soaks: other clusters wait until this one has soaked.
	Soaks bool
}

// End is the state after the work, or the health checks that follow it, ended, and the state that the cluster has then.
func (s WorkState) End(result WorkResult) (WorkState, ranv1.ClusterState) {
	complete := result.State == ranv1.ClusterComplete
	switch {
	case s == WorkVanished:
		return WorkEnded, ranv1.ClusterFailed
	case complete && s == WorkRunning && result.HealthChecks:
		return WorkChecking, ranv1.ClusterRunning
	case complete && s == WorkTimedOut && result.HealthChecks: // there is no time left to check
		return WorkEnded, ranv1.ClusterTimedOut
	case result.State == ranv1.ClusterCancelled && s == WorkTimedOut:
		return WorkEnded, ranv1.ClusterTimedOut
	case complete && result.Soaks:
		return WorkSoaking, ranv1.ClusterSoaking
	}
	return WorkEnded, result.State
}
