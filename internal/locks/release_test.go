package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestALockOfAnotherReleaseHolds(t *testing.T) {
	older := nodeLock("a", "tf", "n1", inactive)
	older.Status.Release = "25.1"
	current := nodeLock("b", "ceph", "n1", inactive)
	current.Status.Release = "25.2"
	silent := nodeLock("c", "rack", "n1", inactive)
	all := []lcmv1.NodeWorkloadLock{older, current, silent}
	require.True(t, locks.NodeGate(all, "n1", "").Open, "no release is requested")
	gate := locks.NodeGate(all, "n1", "25.2")
	require.Equal(t, []drydockv1.Blocker{{
		Kind: "NodeWorkloadLock", Name: "a", Reason: "LockOfAnotherRelease",
		Message: "tf has released it; its release is 25.1, and 25.2 is requested",
	}}, gate.Blockers())

	ofCluster := clusterLock("tf", inactive)
	ofCluster.Status.Release = "25.1"
	require.True(t, locks.ClusterGate([]lcmv1.ClusterWorkloadLock{ofCluster}, "25.1").Open)
	require.False(t, locks.ClusterGate([]lcmv1.ClusterWorkloadLock{ofCluster}, "25.2").Open)

	older.Status.State = active
	gate = locks.NodeGate([]lcmv1.NodeWorkloadLock{older}, "n1", "25.2")
	require.Equal(t, "LockHeld", gate.Blockers()[0].Reason)
	require.Equal(t, "tf holds it; its release is 25.1, and 25.2 is requested", gate.Blockers()[0].Message)
}

func TestAnApplicationReportsItsReleaseOnAllItsLocks(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.policy.Release = "25.1"
	w.settle()
	require.Equal(t, "25.1", w.lock("n1").Status.Release)
	require.Equal(t, "25.1", w.lock("n2").Status.Release)
	require.Equal(t, "25.1", w.clusterLock().Status.Release)
	w.policy.Release = ""
	w.settle()
	require.Empty(t, w.lock("n1").Status.Release)
	require.Empty(t, w.clusterLock().Status.Release)
}

func TestRequestsOfAnotherReleaseWaitUntilTheApplicationHasIt(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.policy.Release = "25.1"
	w.settle()
	w.requestCluster()
	w.snapshot.ClusterRequests[0].Spec.Release = "25.2"
	w.request("n1")
	w.snapshot.NodeRequests[0].Spec.Release = "25.2"
	report := w.settle().Report()
	require.Equal(t, active, w.state("n1"))
	require.Equal(t, "request n1 is for release 25.2, and the application has release 25.1", w.lock("n1").Status.ErrorMessage)
	require.Equal(t, active, w.clusterLock().Status.State)
	require.Equal(t, locks.OtherRelease, report.Cluster.Reason)
	require.Equal(t, string(locks.OtherRelease), report.Wait().Reason)

	w.request("n2")
	w.settle()
	require.Equal(t, []string{"n2"}, w.inactive(), "a request without a release suits, and n1 takes no turn")
	w.withdraw("n2")
	w.settle()

	w.policy.Release = "25.2"
	w.settle()
	require.Equal(t, []string{"n1"}, w.inactive())
	require.Equal(t, inactive, w.clusterLock().Status.State)
	require.Empty(t, w.lock("n1").Status.ErrorMessage)
}

func TestAnyRequestOfTheReleaseIsEnough(t *testing.T) {
	w := newWorld(t, "n1")
	w.policy.Release = "25.1"
	w.settle()
	w.request("n1")
	w.snapshot.NodeRequests[0].Spec.Release = "25.2"
	w.request("n1")
	w.snapshot.NodeRequests[1].Spec.Release = "25.1"
	w.settle()
	require.Equal(t, inactive, w.state("n1"))
}

func TestAFailedLockStaysFailedForARequestOfAnotherRelease(t *testing.T) {
	w := newWorld(t, "n1")
	w.policy.Release = "25.1"
	w.settle()
	w.requestCluster()
	w.snapshot.ClusterRequests[0].Spec.Release = "25.2"
	w.request("n1")
	w.snapshot.NodeRequests[0].Spec.Release = "25.2"
	w.lock("n1").Status.State, w.lock("n1").Status.ErrorMessage = failed, "broken by hand"
	w.clusterLock().Status.State = failed
	w.settle()
	require.Equal(t, failed, w.state("n1"))
	require.Equal(t, "broken by hand", w.lock("n1").Status.ErrorMessage)
	require.Equal(t, failed, w.clusterLock().Status.State)
}

func TestAChangedReleaseChecksTheClusterAgainAndLeavesTheNodeInMaintenance(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.policy.Release, w.policy.ClusterHealth = "25.1", []drydockv1.HealthCheck{{Name: "tf"}}
	w.settle()
	w.requestCluster()
	w.request("n1")
	w.snapshot.Health = []locks.CheckResult{{Check: "tf", Healthy: true}}
	w.settle()
	require.Equal(t, inactive, w.clusterLock().Status.State)

	w.policy.Release = "25.2"
	w.snapshot.Health = []locks.CheckResult{{Check: "tf", Message: "not ready"}}
	w.request("n2")
	w.settle()
	require.Equal(t, active, w.clusterLock().Status.State)
	require.Equal(t, "tf: not ready", w.clusterLock().Status.ErrorMessage)
	require.Equal(t, []string{"n1"}, w.inactive(), "the node is out of service already, and no second one follows")
	require.Equal(t, "25.2", w.lock("n1").Status.Release)
}
