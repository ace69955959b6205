package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// staleLocks is a cluster with a node whose cache has these locks as they are now and does not see what becomes of them.
func staleLocks(t *testing.T, name, resource string, list client.ObjectList) (faultyClusters, *kube.Cluster, NodeRef) {
	t.Helper()
	bareNodes(t, name)
	f := newFaultyClusters(t)
	seen, err := f.clusters.Cluster(t.Context(), hubName)
	require.NoError(t, err)
	require.NoError(t, seen.Cache.List(t.Context(), list))
	f.loseWatch(t, seen, "default", resource)
	return f, seen, NodeRef{Cluster: hubName, Node: name, Owner: "node/" + hubName + "/default/" + name + "/first-run"}
}

func TestALockOfTheClusterThatTheWatchDoesNotShowHoldsIt(t *testing.T) {
	f, seen, ref := staleLocks(t, "stale-1", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	whole := ClusterLockInput{Cluster: hubName, Owner: ref.Owner}
	require.NoError(t, (&Locks{Clusters: f.clusters}).AwaitClusterLocks(t.Context(), whole), "nobody holds it yet")
	hub := bareCluster(t)
	lock := create(t, hub, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "ceph"},
	})
	gate, err := clusterGate(t.Context(), seen.Cache)
	require.NoError(t, err)
	require.True(t, gate.Open, "the cache does not have it")
	whole.Deadline = soon(300 * time.Millisecond)
	err = (&Locks{Clusters: f.clusters}).AwaitClusterLocks(t.Context(), whole)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err), "nobody looks again before the first node is asked for")
	taken, err := (&Nodes{Clusters: f.clusters}).TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	require.True(t, taken.Locks.ClusterHeld)
	require.Empty(t, taken.Locks.RequestUID, "the node is not asked for")
	require.NoError(t, (&Locks{Clusters: f.clusters}).WithdrawClusterMaintenance(t.Context(), whole))
	_, err = (&Nodes{Clusters: f.clusters}).Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true, Locked: true})
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ClusterWorkloadLock "+lock.Name)
	node := &corev1.Node{}
	require.NoError(t, hub.Client.Get(t.Context(), client.ObjectKey{Name: ref.Node}, node))
	require.False(t, node.Spec.Unschedulable)
}

// becomes writes the state of a lock, which need not be seen by anybody.
func becomes(t *testing.T, lock client.Object, state lcmv1.LockState) {
	t.Helper()
	patch := client.MergeFrom(lock.DeepCopyObject().(client.Object))
	switch lock := lock.(type) {
	case *lcmv1.NodeWorkloadLock:
		lock.Status.State = state
	case *lcmv1.ClusterWorkloadLock:
		lock.Status.State = state
	}
	require.NoError(t, bareCluster(t).Client.Status().Patch(t.Context(), lock, patch))
}

func TestThatALockHoldsTheClusterIsBelievedOnlyFromTheAPIServer(t *testing.T) {
	lock := create(t, bareCluster(t), &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "tf"},
	})
	becomes(t, lock, lcmv1.LockActive)
	f, seen, ref := staleLocks(t, "stale-3", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	becomes(t, lock, lcmv1.LockInactive)
	gate, err := clusterGate(t.Context(), seen.Cache)
	require.NoError(t, err)
	require.False(t, gate.Open, "the cache has it so")
	taken, err := (&Nodes{Clusters: f.clusters}).TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.False(t, taken.Locks.ClusterHeld)
	require.NotNil(t, taken.Cordon)
	returned, err := (&Nodes{Clusters: f.clusters}).ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref, Withdraw: true})
	require.NoError(t, err)
	require.False(t, returned.NotWithdrawn)
}

func TestALockOfANodeThatTheWatchDoesNotShowIsWaitedFor(t *testing.T) {
	f, seen, ref := staleLocks(t, "stale-4", "nodeworkloadlocks", &lcmv1.NodeWorkloadLockList{})
	hub := bareCluster(t)
	lock := create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "ceph", NodeName: ref.Node},
	})
	require.True(t, nodeLocks(t.Context(), seen.Cache, ref.Node).Inactive, "the cache does not have it")
	in := TakeNodeInput{NodeRef: ref, Cordon: true}
	taken, err := (&Nodes{Clusters: f.clusters}).TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.Nil(t, taken.Cordon)
	require.False(t, taken.Locks.Inactive, "it has to be waited for")
	require.NotEmpty(t, taken.Locks.RequestUID, "it is asked to let go")
	becomes(t, lock, lcmv1.LockInactive)
	taken, err = (&Nodes{Clusters: f.clusters}).TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, taken.Cordon)
	_, err = (&Nodes{Clusters: f.clusters}).ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref, Withdraw: true})
	require.NoError(t, err)
}

func TestThatALockHoldsANodeIsBelievedOnlyFromTheAPIServer(t *testing.T) {
	hub := bareCluster(t)
	lock := create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: "stale-2"},
	})
	becomes(t, lock, lcmv1.LockActive)
	f, seen, ref := staleLocks(t, "stale-2", "nodeworkloadlocks", &lcmv1.NodeWorkloadLockList{})
	becomes(t, lock, lcmv1.LockInactive)
	require.True(t, nodeLocks(t.Context(), seen.Cache, ref.Node).Active, "the cache has it so")

	l := &Locks{Clusters: f.clusters}
	news := ended(func() error {
		_, err := l.AwaitHeldAgain(t.Context(), AwaitHeldAgainInput{NodeRef: ref})
		return err
	})
	require.Never(t, func() bool { return len(news) > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	found, err := l.WithdrawNodeMaintenance(t.Context(), NodeLockInput{NodeRef: ref})
	require.NoError(t, err)
	require.False(t, found.Active, "it has to be waited for")
	missing, err := l.AwaitNodeLocksActive(t.Context(), NodeLockInput{NodeRef: ref, Deadline: new(time.Now().Add(time.Second))})
	require.NoError(t, err)
	require.Len(t, missing, 1, "and is")
	becomes(t, lock, lcmv1.LockActive)
	missing, err = l.AwaitNodeLocksActive(t.Context(), NodeLockInput{NodeRef: ref})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Len(t, heldAgain(t.Context(), seen, ref.Node), 1)
}

func TestThatOthersWantANodeIsBelievedOnlyFromTheAPIServer(t *testing.T) {
	hub := bareCluster(t)
	lock := create(t, hub, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: "stale-5"},
	})
	others := create(t, hub, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: "stale-5"},
	})
	f, _, ref := staleLocks(t, "stale-5", "nodemaintenancerequests", &lcmv1.NodeMaintenanceRequestList{})
	require.NoError(t, hub.Client.Delete(t.Context(), others))
	missing, err := (&Locks{Clusters: f.clusters}).AwaitNodeLocksActive(t.Context(), NodeLockInput{NodeRef: ref, Deadline: new(time.Now().Add(time.Second))})
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.Contains(t, missing[0].Name, lock.Name)
}

// Its own locks are not asked, and are not looked at once more either.
func TestALockOfTheClusterThatTheWatchDoesNotShowHoldsANodeThatIsSkippedToo(t *testing.T) {
	f, _, ref := staleLocks(t, "stale-6", "clusterworkloadlocks", &lcmv1.ClusterWorkloadLockList{})
	hub := bareCluster(t)
	node := &corev1.Node{}
	node.Name = ref.Node
	skip := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+lcmv1.AnnotationSkipMaintenance+`":""}}}`))
	require.NoError(t, hub.Client.Patch(t.Context(), node, skip))
	nodes := &Nodes{Clusters: f.clusters}
	require.Eventually(t, func() bool {
		seen, err := f.clusters.Cluster(t.Context(), hubName)
		require.NoError(t, err)
		node, err := seen.Node(t.Context(), ref.Node)
		require.NoError(t, err)
		_, skipped := node.Annotations[lcmv1.AnnotationSkipMaintenance]
		return skipped
	}, time.Minute, 10*time.Millisecond)
	create(t, hub, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: "ceph"},
	})
	taken, err := nodes.TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.True(t, taken.Locks.ClusterHeld)
	require.Nil(t, taken.Cordon)
	require.NoError(t, hub.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	require.False(t, node.Spec.Unschedulable)
}
