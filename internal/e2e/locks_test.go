package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	locksworkflow "drydock.dev/drydock/workflows/locks"
)

// The actions and their order are read from watches, not from Drydock's status.
func TestMaintenanceWithLockHoldingApplications(t *testing.T) {
	shared(t)
	t.Run("locks are released and held in order for each node of a fleet", updateFleetWithLocks)
	t.Run("a deadlock of two applications is resolved", breakLockCycle)
}

// ceph is an application with its own lock controller.
const ceph = "ceph"

// Three spokes have eight nodes and two applications each. On the first spoke, ceph releases a node late and a pod of storage is slow to become
// ready. On the second, ceph deletes its lock instead of releasing it, and a lock of the cluster is created during the maintenance. On the third,
// ceph releases the cluster late.
func updateFleetWithLocks(t *testing.T) {
	reserve(t, "spoke-1", "spoke-2", "spoke-3")
	spokes := theFleet.Spokes[:3]
	extra := []string{"worker-3", "worker-4", "worker-5", "worker-6", "worker-7"}
	all := workers + len(extra)
	for _, spoke := range spokes {
		addTaintedWorkers(t, spoke, extra...)
		deployStorage(t, spoke, all)
		deployTenants(t, spoke, 5)
		allow(t, spoke, 2)
	}
	late := &lcmv1.NodeWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: ceph, NodeName: "worker-4"}}
	deleted := &lcmv1.NodeWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: "deleted"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: ceph, NodeName: "worker-5"}}
	ofCluster := &lcmv1.ClusterWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: ceph}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: ceph}}
	putLock(t, spokes[0], late)
	putLock(t, spokes[1], deleted)
	putLock(t, spokes[2], ofCluster)
	var recorders []*lockRecorder
	for _, spoke := range spokes {
		recorders = append(recorders, recordLocks(t, spoke))
	}
	startRollout(t, fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: with-locks, namespace: default}
spec:
  clusters: [%s, %s, %s]
  remediationStrategy: {maxConcurrency: 3, timeout: 60}
  nodeMaintenance: {drainSpec: {timeoutSeconds: 0}}
`, spokes[0].Name, spokes[1].Name, spokes[2].Name))

	awaitStatus(t, "with-locks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterAt(s, 2).Reason == "WorkloadLocksHeld" && clusterAt(s, 2).Message == "ceph to release cluster "+spokes[2].Name
	})
	setState(t, spokes[2], ofCluster, lcmv1.LockInactive)

	awaitReleased(t, spokes[0], storage, late.Spec.NodeName)
	awaitStatus(t, "with-locks", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterAt(s, 0).Reason == "WorkloadLocksHeld" })
	t.Log(succeeds(t, "upgrade", "status", "with-locks"))
	setState(t, spokes[0], late, lcmv1.LockInactive)
	delayStorage(t, spokes[0], late.Spec.NodeName)
	awaitRequested(t, spokes[0], late.Spec.NodeName, false)
	setState(t, spokes[0], late, lcmv1.LockActive)

	awaitReleased(t, spokes[1], storage, deleted.Spec.NodeName)
	awaitStatus(t, "with-locks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterAt(s, 1).Reason == "WorkloadLocksHeld" && slices.ContainsFunc(clusterAt(s, 1).LockProgress, func(p drydockv1.LockProgress) bool {
			return p.Controller == storage && p.Updated > 2 && int(p.Total) == all
		})
	})
	awaitRequests(t, spokes[1], 2) // one more waits for storage, so that no other is requested until the lock is released
	created := &lcmv1.ClusterWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: ceph}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: ceph}}
	putLock(t, spokes[1], created)
	watched, err := theFleet.Watch(t.Context(), spokes[1])
	require.NoError(t, err)
	require.NoError(t, watched.Client.Delete(t.Context(), deleted))
	awaitStatus(t, "with-locks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterAt(s, 1).Message == "ceph to release cluster "+spokes[1].Name
	})
	setState(t, spokes[1], created, lcmv1.LockInactive)

	ask(t, temporal.WorkloadLockControllerID(spokes[0].Name, storage), func(s locksworkflow.Status) bool {
		return s.Wait != nil && s.Wait.Reason == string(locks.PodNotBack)
	})
	completeStorage(t, spokes[0], late.Spec.NodeName)
	status, code := awaitEnd(t, "with-locks")
	require.Zero(t, code, "%+v", status.Conditions)
	setState(t, spokes[1], created, lcmv1.LockActive)
	setState(t, spokes[2], ofCluster, lcmv1.LockActive)
	for i, spoke := range spokes {
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
		s := recorders[i].awaitEnd(t, router, storage)
		require.Empty(t, s.violations, "in %s", spoke.Name)
		requireNodesUpdatedOnce(t, s, all)
		require.Empty(t, status.Clusters[i].LockProgress)
	}
	recorders[0].awaitEnd(t, router, storage).requireOrder(t, late.Spec.NodeName, stepRequest, stepInactive+storage, stepInactive+ceph, stepCordon, stepWithdraw, stepActive+storage)
	recorders[1].awaitEnd(t, router, storage).requireOrder(t, deleted.Spec.NodeName, stepRequest, stepInactive+storage, stepGone+ceph, stepCordon, stepWithdraw, stepActive+storage)
}

// requireNodesUpdatedOnce requires that each node is maintained once, the control plane first, with its locks in order.
func requireNodesUpdatedOnce(t *testing.T, s *lockChecker, workers int) {
	t.Helper()
	require.Len(t, s.steps, workers+1)
	first := slices.IndexFunc(s.all, func(n nodeStep) bool { return n.step == stepCordon })
	require.Equal(t, controlPlane, s.all[first].node)
	for node, steps := range s.steps {
		count := func(step string) (n int) {
			for _, other := range steps {
				if other == step {
					n++
				}
			}
			return n
		}
		require.Equal(t, 1, count(stepCordon), "%s: %v", node, steps)
		require.Equal(t, 1, count(stepUncordon), "%s: %v", node, steps)
		s.requireOrder(t, node, stepRequest, stepCordon, stepUncordon, stepWithdraw)
		if node == controlPlane {
			continue
		}
		for _, application := range []string{router, storage} {
			s.requireOrder(t, node, stepRequest, stepInactive+application, stepCordon, stepUncordon, stepWithdraw, stepActive+application)
		}
	}
}

// Storage releases worker-2 but not worker-1, which is requested first; the router has released worker-1.
func breakLockCycle(t *testing.T) {
	reserve(t, "spoke-4")
	spoke := theFleet.Cluster("spoke-4")
	deployStorage(t, spoke, workers)
	allow(t, spoke, 2)
	disturbStorage(t, spoke, "worker-1")
	w := recordLocks(t, spoke)
	older, younger := target{spoke, "worker-1"}, target{spoke, "worker-2"}
	startMaintenance(t, older, maintenancev1.NodeMaintenanceSpec{})
	awaitReleased(t, spoke, router, older.node)
	startMaintenance(t, younger, maintenancev1.NodeMaintenanceSpec{})
	awaitReleased(t, spoke, storage, younger.node)

	awaitReason("LockCycle")(t, younger)
	t.Log(succeeds(t, "node", "status", younger.name(), "--cluster", spoke.Name))
	awaitReason("WorkloadLocksHeld")(t, older)
	requireLocksShown(t, spoke, older)
	completeStorage(t, spoke, older.node)
	awaitNodeState(t, older.workflowID(), maintenancev1.NodeReady)
	awaitRequested(t, spoke, younger.node, true)
	for _, at := range []target{older, younger} {
		awaitDone(t, at.name(), spoke)
		succeeds(t, "node", "status", at.name(), "--cluster", spoke.Name, "--watch")
	}
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	s := w.awaitEnd(t, router, storage)
	require.Empty(t, s.violations)
	s.requireOrder(t, older.node, stepRequest, stepInactive+router, stepInactive+storage, stepCordon, stepUncordon, stepWithdraw)
	s.requireOrder(t, younger.node, stepRequest, stepInactive+storage, stepWithdraw, stepActive+storage, stepRequest, stepInactive+storage, stepCordon)
	require.Less(t, s.indexOf(younger.node, stepActive+storage), s.indexOf(older.node, stepInactive+storage), "the younger request is withdrawn first")
	require.Less(t, s.indexOf(older.node, stepUncordon), s.indexOf(younger.node, stepCordon))
}

// requireLocksShown checks the lock commands: storage holds the requested node, because its pod is not ready.
func requireLocksShown(t *testing.T, spoke *devstack.Cluster, requested target) {
	t.Helper()
	lock := func(args ...string) answer {
		return drydock(t, append(append([]string{"lock"}, args...), "--kubeconfig", spoke.KubeconfigFile)...)
	}
	require.Regexp(t, `^the cluster of context \S+ \(--context\) is not held\n$`, lock("gate").out)
	held := lock("gate", "--node", requested.node)
	require.Equal(t, 1, held.code)
	require.Contains(t, held.err, "node "+requested.node+" is held: storage holds it: pod storage/")
	list := lock("list").out
	require.Regexp(t, `node `+requested.node+` +os +`+requested.workflowID(), list)
	require.Contains(t, list, "2 requests, 1 requested and not released", "the request for the cluster and the older request")
	require.Regexp(t, `vrouter +50% +1 of 2 +1 +50% 1 out of 2 nodes updated`, lock("progress").out)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(storagePolicy), 0o600))
	require.Regexp(t, `node `+requested.node+` +active +PodNotReady +pod storage/`, lock("evaluate", "-f", policy).out)
}
