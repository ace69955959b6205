package locks_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func nodeLock(name, controller, node string, state lcmv1.LockState) lcmv1.NodeWorkloadLock {
	return lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: controller, NodeName: node},
		Status:     lcmv1.WorkloadLockStatus{State: state},
	}
}

func clusterLock(controller string, state lcmv1.LockState) lcmv1.ClusterWorkloadLock {
	return lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: controller},
		Spec:       lcmv1.ClusterWorkloadLockSpec{ControllerName: controller},
		Status:     lcmv1.WorkloadLockStatus{State: state},
	}
}

func TestANodeGateOpensOnlyWhenEveryLockOfTheNodeIsInactive(t *testing.T) {
	for _, test := range []struct {
		name    string
		locks   []lcmv1.NodeWorkloadLock
		holders []string
	}{
		{name: "without locks the gate is open"},
		{
			name:  "an inactive lock is released",
			locks: []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n1", lcmv1.LockInactive)},
		},
		{
			name:    "an active lock holds",
			locks:   []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n1", lcmv1.LockActive)},
			holders: []string{"tf"},
		},
		{
			name:    "a failed lock holds",
			locks:   []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n1", lcmv1.LockFailed)},
			holders: []string{"tf"},
		},
		{
			name:    "a lock without a status holds",
			locks:   []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n1", "")},
			holders: []string{"tf"},
		},
		{
			name: "an unknown state holds, even one that looks like inactive",
			locks: []lcmv1.NodeWorkloadLock{
				nodeLock("a", "ceph", "n1", "Inactive"), nodeLock("b", "tf", "n1", "paused"),
			},
			holders: []string{"ceph", "tf"},
		},
		{
			name: "one controller is not enough: every controller must release",
			locks: []lcmv1.NodeWorkloadLock{
				nodeLock("a", "tf", "n1", lcmv1.LockInactive), nodeLock("b", "openstack", "n1", lcmv1.LockActive), nodeLock("c", "ceph", "n1", lcmv1.LockActive),
			},
			holders: []string{"ceph", "openstack"},
		},
		{
			name:  "locks of other nodes do not count",
			locks: []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n2", lcmv1.LockActive)},
		},
		{
			name:    "the node is matched by the lock's spec, not by its name",
			locks:   []lcmv1.NodeWorkloadLock{nodeLock("tf-n2", "tf", "n1", lcmv1.LockActive), nodeLock("tf-n1", "tf", "n2", lcmv1.LockActive)},
			holders: []string{"tf"},
		},
		{
			name:    "two locks of one controller must both be released",
			locks:   []lcmv1.NodeWorkloadLock{nodeLock("a", "tf", "n1", lcmv1.LockInactive), nodeLock("b", "tf", "n1", lcmv1.LockActive)},
			holders: []string{"tf"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := locks.NodeGate(test.locks, "n1", "")
			var holders []string
			for _, holder := range gate.Holders {
				holders = append(holders, holder.Controller)
			}
			require.Equal(t, test.holders, holders)
			require.Equal(t, len(test.holders) == 0, gate.Open)
			require.Len(t, gate.Blockers(), len(test.holders))
		})
	}
}

func TestAClusterGateOpensOnlyWhenEveryClusterLockIsInactive(t *testing.T) {
	require.True(t, locks.ClusterGate(nil, "").Open)
	require.True(t, locks.ClusterGate([]lcmv1.ClusterWorkloadLock{clusterLock("tf", lcmv1.LockInactive)}, "").Open)
	gate := locks.ClusterGate([]lcmv1.ClusterWorkloadLock{clusterLock("tf", lcmv1.LockInactive), clusterLock("ceph", "")}, "")
	require.False(t, gate.Open)
	require.Len(t, gate.Holders, 1)
	require.Equal(t, "ceph", gate.Holders[0].Controller)
}

func TestAHolderReportsItsStateAndMessage(t *testing.T) {
	failed := nodeLock("ceph-n1", "ceph", "n1", lcmv1.LockFailed)
	failed.Status.ErrorMessage = "osd.3 is down"
	gate := locks.NodeGate([]lcmv1.NodeWorkloadLock{
		nodeLock("x", "tf", "n1", lcmv1.LockActive), failed, nodeLock("y", "vendor", "n1", ""), nodeLock("z", "web", "n1", "busy"),
	}, "n1", "")
	require.Equal(t, []drydockv1.Blocker{
		{Kind: "NodeWorkloadLock", Name: "ceph-n1", Reason: "LockFailed", Message: "ceph has failed: osd.3 is down"},
		{Kind: "NodeWorkloadLock", Name: "x", Reason: "LockHeld", Message: "tf holds it"},
		{Kind: "NodeWorkloadLock", Name: "y", Reason: "LockStateUnknown", Message: "vendor has not set a state"},
		{Kind: "NodeWorkloadLock", Name: "z", Reason: "LockStateUnknown", Message: `web set state "busy"; only "inactive" releases the lock`},
	}, gate.Blockers())
	require.Len(t, gate.Failed(), 1)
	require.Equal(t, "ceph", gate.Failed()[0].Controller)
}

func TestAfterAMaintenanceEveryLockThatIsNotActiveIsReported(t *testing.T) {
	missing := locks.NotActive([]lcmv1.NodeWorkloadLock{
		nodeLock("a", "tf", "n1", lcmv1.LockInactive), nodeLock("b", "ceph", "n1", lcmv1.LockFailed),
		nodeLock("c", "web", "n1", lcmv1.LockActive), nodeLock("d", "tf", "n2", lcmv1.LockInactive),
	}, "n1")
	require.Len(t, missing, 2)
	require.Equal(t, drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "b", Reason: "LockFailed", Message: "ceph has failed"}, missing[0].Blocker())
	require.Equal(t, drydockv1.Blocker{Kind: "NodeWorkloadLock", Name: "a", Reason: "LockInactive", Message: "tf has released it"}, missing[1].Blocker())
}

func TestTheGateHasTheDocumentedJSON(t *testing.T) {
	printed, err := json.Marshal(locks.NodeGate([]lcmv1.NodeWorkloadLock{nodeLock("a", "ceph", "n1", lcmv1.LockActive)}, "n1", ""))
	require.NoError(t, err)
	require.JSONEq(t, `{"open":false,"holders":[{"controller":"ceph","state":"active","message":""}]}`, string(printed))
	printed, err = json.Marshal(locks.ClusterGate(nil, ""))
	require.NoError(t, err)
	require.JSONEq(t, `{"open":true,"holders":[]}`, string(printed))
}
