package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestTheEndOfWorkOnAClusterLeadsToTheNextState(t *testing.T) {
	complete, cancelled, failed := ranv1.ClusterComplete, ranv1.ClusterCancelled, ranv1.ClusterFailed
	tests := []struct {
		name    string
		state   rollout.WorkState
		result  rollout.WorkResult
		next    rollout.WorkState
		cluster ranv1.ClusterState
	}{
		{"complete", rollout.WorkRunning, rollout.WorkResult{State: complete}, rollout.WorkEnded, complete},
		{"failed", rollout.WorkRunning, rollout.WorkResult{State: failed, HealthChecks: true, Soaks: true}, rollout.WorkEnded, failed},
		{"health checks come first", rollout.WorkRunning, rollout.WorkResult{State: complete, HealthChecks: true, Soaks: true}, rollout.WorkChecking, ranv1.ClusterRunning},
		{"a healthy cluster soaks", rollout.WorkChecking, rollout.WorkResult{State: complete, HealthChecks: true, Soaks: true}, rollout.WorkSoaking, ranv1.ClusterSoaking},
		{"a healthy cluster is complete", rollout.WorkChecking, rollout.WorkResult{State: complete, HealthChecks: true}, rollout.WorkEnded, complete},
		{"a cancelled cluster is timed out", rollout.WorkTimedOut, rollout.WorkResult{State: cancelled}, rollout.WorkEnded, ranv1.ClusterTimedOut},
		{"a cluster that completed during its cancellation is complete", rollout.WorkTimedOut, rollout.WorkResult{State: complete, Soaks: true}, rollout.WorkSoaking, ranv1.ClusterSoaking},
		{"a cluster that was cancelled before its health checks is timed out", rollout.WorkTimedOut, rollout.WorkResult{State: complete, HealthChecks: true}, rollout.WorkEnded, ranv1.ClusterTimedOut},
		{"a failure overrides a timeout", rollout.WorkTimedOut, rollout.WorkResult{State: failed}, rollout.WorkEnded, failed},
		{"a deleted cluster has failed, regardless of the result of its work", rollout.WorkClusterDeleted, rollout.WorkResult{State: complete, HealthChecks: true}, rollout.WorkEnded, failed},
		{"cancelled with the rollout", rollout.WorkRunning, rollout.WorkResult{State: cancelled}, rollout.WorkEnded, cancelled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			next, cluster := test.state.End(test.result)
			require.Equal(t, test.next, next)
			require.Equal(t, test.cluster, cluster)
		})
	}
}

func TestACancelledClusterStaysCancelled(t *testing.T) {
	states := []rollout.WorkState{rollout.WorkRunning, rollout.WorkChecking, rollout.WorkSoaking, rollout.WorkTimedOut, rollout.WorkClusterDeleted, rollout.WorkEnded}
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SampledFrom(states).Draw(t, "state")
		require.Equal(t, state.ClusterDeleted(), state.ClusterDeleted().TimeOut(), "a timeout does not hide the deletion of a cluster")
		require.Equal(t, state.TimeOut(), state.TimeOut().TimeOut())
		require.Equal(t, state.Busy(), state.TimeOut().Busy(), "a timeout frees no slot")
		require.False(t, state.TimeOut().Timed(), "a cluster times out once")
		result := rollout.WorkResult{
			State:        rapid.SampledFrom([]ranv1.ClusterState{ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterCancelled}).Draw(t, "result"),
			HealthChecks: rapid.Bool().Draw(t, "health checks"), Soaks: rapid.Bool().Draw(t, "soaks"),
		}
		next, cluster := state.End(result)
		require.Equal(t, next == rollout.WorkEnded, cluster.Over(), "a cluster has ended when its slot is free")
	})
}
