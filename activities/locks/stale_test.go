package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestAClusterLockThatTheWatchMissesBlocksTheCluster(t *testing.T) {
	f, seen, ref := activitytest.StaleLocks(t, "stale-1", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	whole := locks.ClusterLockInput{Cluster: activitytest.HubName, Owner: ref.Owner}
	require.NoError(t, (&locks.Activities{Clusters: f.Clusters}).AwaitClusterLocks(t.Context(), whole), "no lock is active yet")
	hub := activitytest.BareCluster(t)
	lock := activitytest.Create(t, hub, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "ceph"},
	})
	gate, err := locks.ClusterGate(t.Context(), seen.Cache, "")
	require.NoError(t, err)
	require.True(t, gate.Open, "the cache does not have it")
	whole.Deadline = soon(300 * time.Millisecond)
	err = (&locks.Activities{Clusters: f.Clusters}).AwaitClusterLocks(t.Context(), whole)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err), "there is no other check before the first node is requested")
	acquired, err := (&nodeactivities.Activities{Clusters: f.Clusters}).AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	require.True(t, acquired.Locks.ClusterHeld)
	require.Nil(t, acquired.Cordon)
	require.Empty(t, acquired.Locks.RequestUID)
	requested := &lcmv1.NodeMaintenanceRequestList{}
	require.NoError(t, hub.Client.List(t.Context(), requested))
	require.False(t, slices.ContainsFunc(requested.Items, func(r lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName == ref.Node }), "the node is no longer requested")
	held := &corev1.Node{}
	require.NoError(t, hub.Client.Get(t.Context(), client.ObjectKey{Name: ref.Node}, held))
	require.Nil(t, kube.FindNodeCondition(held, kube.ConditionMaintenanceInProgress))
	require.NotNil(t, kube.FindNodeCondition(held, kube.ConditionMaintenancePlanned))
	require.NoError(t, (&locks.Activities{Clusters: f.Clusters}).WithdrawClusterMaintenance(t.Context(), whole))
	_, err = (&nodeactivities.Activities{Clusters: f.Clusters}).Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true})
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ClusterWorkloadLock "+lock.Name)
	node := &corev1.Node{}
	require.NoError(t, hub.Client.Get(t.Context(), client.ObjectKey{Name: ref.Node}, node))
	require.False(t, node.Spec.Unschedulable)
}

// writeState writes the state of a lock, which caches may miss.
func writeState(t *testing.T, lock client.Object, state lcmv1.LockState) {
	t.Helper()
	patch := client.MergeFrom(lock.DeepCopyObject().(client.Object))
	switch lock := lock.(type) {
	case *lcmv1.NodeWorkloadLock:
		lock.Status.State = state
	case *lcmv1.ClusterWorkloadLock:
		lock.Status.State = state
	}
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Patch(t.Context(), lock, patch))
}

func TestAnActiveClusterLockIsConfirmedWithTheAPIServer(t *testing.T) {
	lock := activitytest.Create(t, activitytest.BareCluster(t), &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "tf"},
	})
	writeState(t, lock, lcmv1.LockActive)
	f, seen, ref := activitytest.StaleLocks(t, "stale-3", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	writeState(t, lock, lcmv1.LockInactive)
	gate, err := locks.ClusterGate(t.Context(), seen.Cache, "")
	require.NoError(t, err)
	require.False(t, gate.Open, "the cache has the old state")
	acquired, err := (&nodeactivities.Activities{Clusters: f.Clusters}).AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.False(t, acquired.Locks.ClusterHeld)
	require.NotNil(t, acquired.Cordon)
	returned, err := (&nodeactivities.Activities{Clusters: f.Clusters}).ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true})
	require.NoError(t, err)
	require.False(t, returned.NotWithdrawn)
}

func TestANodeLockThatTheWatchMissesIsWaitedFor(t *testing.T) {
	f, seen, ref := activitytest.StaleLocks(t, "stale-4", "nodeworkloadlocks", &lcmv1.NodeWorkloadLockList{})
	hub := activitytest.BareCluster(t)
	lock := activitytest.Create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "ceph", NodeName: ref.Node},
	})
	require.True(t, locks.ReadNodeLocks(t.Context(), seen.Cache, ref.Node, "").Inactive, "the cache does not have it")
	in := nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true}
	acquired, err := (&nodeactivities.Activities{Clusters: f.Clusters}).AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.Nil(t, acquired.Cordon)
	require.False(t, acquired.Locks.Inactive, "the lock is active")
	require.NotEmpty(t, acquired.Locks.RequestUID, "the node is requested")
	writeState(t, lock, lcmv1.LockInactive)
	acquired, err = (&nodeactivities.Activities{Clusters: f.Clusters}).AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)
	_, err = (&nodeactivities.Activities{Clusters: f.Clusters}).ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true})
	require.NoError(t, err)
}

func TestAnActiveNodeLockIsConfirmedWithTheAPIServer(t *testing.T) {
	hub := activitytest.BareCluster(t)
	lock := activitytest.Create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: "stale-2"},
	})
	writeState(t, lock, lcmv1.LockActive)
	f, seen, ref := activitytest.StaleLocks(t, "stale-2", "nodeworkloadlocks", &lcmv1.NodeWorkloadLockList{})
	writeState(t, lock, lcmv1.LockInactive)
	require.True(t, locks.ReadNodeLocks(t.Context(), seen.Cache, ref.Node, "").Active, "the cache has the old state")

	l := &locks.Activities{Clusters: f.Clusters}
	news := ended(func() error {
		_, err := l.AwaitHeldAgain(t.Context(), locks.AwaitHeldAgainInput{NodeRef: ref})
		return err
	})
	require.Never(t, func() bool { return len(news) > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	found, err := l.WithdrawNodeMaintenance(t.Context(), locks.NodeLockInput{NodeRef: ref})
	require.NoError(t, err)
	require.False(t, found.Active, "the lock is active")
	missing, err := l.AwaitNodeLocksActive(t.Context(), locks.NodeLockInput{NodeRef: ref, Deadline: new(time.Now().Add(time.Second))})
	require.NoError(t, err)
	require.Len(t, missing, 1, "the lock is inactive")
	writeState(t, lock, lcmv1.LockActive)
	missing, err = l.AwaitNodeLocksActive(t.Context(), locks.NodeLockInput{NodeRef: ref})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Len(t, locks.HeldAgain(t.Context(), seen, ref.Node), 1)
}

func TestOtherRequestsForANodeAreConfirmedWithTheAPIServer(t *testing.T) {
	hub := activitytest.BareCluster(t)
	lock := activitytest.Create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: "stale-5"},
	})
	others := activitytest.Create(t, hub, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: "stale-5"},
	})
	f, _, ref := activitytest.StaleLocks(t, "stale-5", "nodemaintenancerequests", &lcmv1.NodeMaintenanceRequestList{})
	require.NoError(t, hub.Client.Delete(t.Context(), others))
	missing, err := (&locks.Activities{Clusters: f.Clusters}).AwaitNodeLocksActive(t.Context(), locks.NodeLockInput{NodeRef: ref, Deadline: new(time.Now().Add(time.Second))})
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.Contains(t, missing[0].Name, lock.Name)
}

// Its own locks are neither requested nor checked again.
func TestAClusterLockThatTheWatchMissesBlocksAnExcludedNode(t *testing.T) {
	f, _, ref := activitytest.StaleLocks(t, "stale-6", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	hub := activitytest.BareCluster(t)
	node := &corev1.Node{}
	node.Name = ref.Node
	skip := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+lcmv1.AnnotationSkipMaintenance+`":""}}}`))
	require.NoError(t, hub.Client.Patch(t.Context(), node, skip))
	nodes := &nodeactivities.Activities{Clusters: f.Clusters}
	require.Eventually(t, func() bool {
		seen, err := f.Clusters.Cluster(t.Context(), activitytest.HubName)
		if err != nil {
			return false
		}
		node, err := seen.Node(t.Context(), ref.Node)
		if err != nil {
			return false
		}
		_, skipped := node.Annotations[lcmv1.AnnotationSkipMaintenance]
		return skipped
	}, time.Minute, 10*time.Millisecond)
	activitytest.Create(t, hub, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "ceph"},
	})
	acquired, err := nodes.AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.True(t, acquired.Locks.ClusterHeld)
	require.Nil(t, acquired.Cordon)
	require.NoError(t, hub.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	require.False(t, node.Spec.Unschedulable)
}
