package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	locksactivities "drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeIsRequestedOnceAndTheRequestIsWithdrawn(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t), Scope: lcmv1.ScopeOS}
	for range 2 { // the second call is a retry after a lost reply
		acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: in.NodeRef, Cordon: true, Scope: in.Scope})
		require.NoError(t, err)
		requests := activitytest.RequestsFor(t, in.Node)
		require.Len(t, requests, 1)
		require.Equal(t, locksactivities.NodeLocks{Asked: true, Inactive: true, Active: true, RequestUID: requests[0].UID}, acquired.Locks)
		require.Equal(t, &nodeactivities.CordonResult{CordonedByUs: true, NodeUID: activitytest.GetNode(t, in.Node).UID}, acquired.Cordon, "the node has no lock to wait for")
		require.True(t, activitytest.GetNode(t, in.Node).Spec.Unschedulable)
	}
	requests := activitytest.RequestsFor(t, in.Node)
	require.Equal(t, in.Owner, kube.Owner(&requests[0]))
	require.Equal(t, lcmv1.ScopeOS, requests[0].Spec.Scope)
	for range 2 {
		found, err := activitytest.Initiator().WithdrawNodeMaintenance(t.Context(), in)
		require.NoError(t, err)
		require.True(t, found.Active)
		require.Empty(t, activitytest.RequestsFor(t, in.Node))
	}
}

func TestAClusterIsRequestedOnceAndTheRequestIsWithdrawn(t *testing.T) {
	in := locksactivities.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: "cgu/default/" + t.Name() + "/run", Scope: lcmv1.ScopeDrain}
	count := func() (n int) {
		var list lcmv1.ClusterMaintenanceRequestList
		require.NoError(t, activitytest.TestCluster(t).Client.List(t.Context(), &list))
		for i := range list.Items {
			if kube.OwnedBy(&list.Items[i], in.Owner) {
				n++
			}
		}
		return n
	}
	for range 2 {
		requested, err := activitytest.Initiator().RequestClusterMaintenance(t.Context(), in)
		require.NoError(t, err)
		require.True(t, requested)
		require.Equal(t, 1, count())
	}
	for range 2 {
		require.NoError(t, activitytest.Initiator().WithdrawClusterMaintenance(t.Context(), in))
		require.Zero(t, count())
	}
}

func TestARequestOfAnotherOwnerDuringAMaintenanceIsNeverDeleted(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	lock := activitytest.HeldNode(t, "tf", in.Node)
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	activitytest.Settled(t, activitytest.SpokeName, lock)
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)
	theirs := activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node},
	})
	activitytest.Settled(t, activitytest.SpokeName, theirs)
	require.Len(t, activitytest.RequestsFor(t, in.Node), 2)
	require.NoError(t, activitytest.Initiator().AwaitNodeLocks(t.Context(), in))

	found, err := activitytest.Initiator().WithdrawNodeMaintenance(t.Context(), in)
	require.NoError(t, err)
	require.False(t, found.Active, "the node lock was released for the other request")
	left := activitytest.RequestsFor(t, in.Node)
	require.Len(t, left, 1)
	require.Equal(t, theirs.UID, left[0].UID)
	notActive, err := activitytest.Initiator().AwaitNodeLocksActive(t.Context(), in)
	require.NoError(t, err, "the other request still exists, so there is nothing to wait for")
	require.Empty(t, notActive)
}

func TestAForeignRequestWithOurNameIsNotTouched(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	meta := locksactivities.RequestMeta(in.Owner, "drydock", in.Node)
	meta.Annotations = nil
	activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{ObjectMeta: meta, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node + "-other"}})
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.ErrorContains(t, err, "exists and is not ours")
	require.False(t, activitytest.GetNode(t, in.Node).Spec.Unschedulable)
	_, err = activitytest.Initiator().WithdrawNodeMaintenance(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, activitytest.RequestsFor(t, in.Node+"-other"), 1)
}

func TestATerminatingRequestDoesNotCount(t *testing.T) {
	in, cluster := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t), Requested: true}, activitytest.TestCluster(t)
	activitytest.HeldNode(t, "tf", in.Node)
	meta := locksactivities.RequestMeta(in.Owner, "drydock", in.Node)
	meta.Finalizers = []string{"ceph.example.com/slow"}
	ours := activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{ObjectMeta: meta, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node}})
	t.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, cluster.Client.Patch(context.Background(), ours, patch))
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), ours))
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.ErrorContains(t, err, "is still being deleted: one of its finalizers [ceph.example.com/slow] holds it")
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(activitytest.Initiator().AwaitNodeLocks(t.Context(), in)))
}

func TestADeletedNodeIsNotRequested(t *testing.T) {
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: activitykit.NodeRef{Cluster: activitytest.SpokeName, Node: "no-such-node", Owner: "me/1"}})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
}

func TestAnExcludedNodeIsNotRequestedAndItsLocksAreRespected(t *testing.T) {
	skipped := func(n *devstack.Node) { n.Annotations = map[string]string{lcmv1.AnnotationSkipMaintenance: ""} }
	in := nodeactivities.AcquireNodeInput{NodeRef: activitytest.TestNode(t, skipped), Cordon: true}
	for range 2 { // the second call is a retry after a lost reply, with a new lock
		acquired, err := activitytest.Nodes().AcquireNode(t.Context(), in)
		require.NoError(t, err)
		require.False(t, acquired.Locks.Asked, "no lock is active, so no request is needed")
		require.True(t, acquired.Locks.Skipped)
		require.NotNil(t, acquired.Cordon)
		activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, in.Node))
		activitytest.HeldNode(t, "tf", in.Node)
	}
	in = nodeactivities.AcquireNodeInput{NodeRef: activitytest.TestNode(t, skipped), Cordon: true}
	activitytest.HeldNode(t, "tf", in.Node)
	_, err := activitytest.Nodes().AcquireNode(t.Context(), in)
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "held by tf and annotation lcm.mirantis.com/skip-maintenance forbids a request")
	require.Empty(t, activitytest.RequestsFor(t, in.Node))
}

// clusterRequestsOf returns the requests of an owner for the cluster.
func clusterRequestsOf(t *testing.T, owner string) (found []lcmv1.ClusterMaintenanceRequest) {
	t.Helper()
	var list lcmv1.ClusterMaintenanceRequestList
	require.NoError(t, activitytest.TestCluster(t).Client.List(t.Context(), &list))
	for _, request := range list.Items {
		if kube.OwnedBy(&request, owner) {
			found = append(found, request)
		}
	}
	return found
}

func TestAMaintenanceWithoutARolloutRequestsTheClusterThenTheNode(t *testing.T) {
	requireClusterRequestedFirst(t, activitytest.TestNode(t), 1)
}

func TestTheClusterIsRequestedForAnExcludedNode(t *testing.T) {
	requireClusterRequestedFirst(t, activitytest.TestNode(t, func(n *devstack.Node) { n.Annotations = map[string]string{lcmv1.AnnotationSkipMaintenance: ""} }), 0)
}

// requireClusterRequestedFirst cordons and returns a node, with that many requests.
func requireClusterRequestedFirst(t *testing.T, ref activitykit.NodeRef, requests int) {
	t.Helper()
	lock := activitytest.HeldCluster(t, "ceph")
	in := nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, WithCluster: true, Scope: lcmv1.ScopeDrain}
	for range 2 { // the second call is a retry after a lost reply
		acquired, err := activitytest.Nodes().AcquireNode(t.Context(), in)
		require.NoError(t, err)
		require.True(t, acquired.Locks.ClusterHeld)
		require.Nil(t, acquired.Cordon)
		require.Len(t, clusterRequestsOf(t, ref.Owner), 1)
		require.Empty(t, activitytest.RequestsFor(t, ref.Node), "cluster first")
		require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
	}

	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	require.NoError(t, activitytest.Initiator().AwaitClusterLocks(t.Context(), locksactivities.ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.False(t, acquired.Locks.ClusterHeld)
	require.NotNil(t, acquired.Cordon)
	require.False(t, acquired.Cordon.HasLocks, "there are no locks to follow")
	whole := clusterRequestsOf(t, ref.Owner)[0]
	require.Equal(t, whole.UID, acquired.Locks.ClusterRequestUID)
	require.Equal(t, lcmv1.ScopeDrain, whole.Spec.Scope)
	require.Len(t, activitytest.RequestsFor(t, ref.Node), requests)

	for range 2 {
		result, err := activitytest.Nodes().ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{
			NodeRef: ref, Withdraw: true, WithdrawCluster: true, RequestUID: acquired.Locks.RequestUID, ClusterRequestUID: acquired.Locks.ClusterRequestUID,
		})
		require.NoError(t, err)
		require.True(t, result.ClusterWithdrawn)
		require.Empty(t, clusterRequestsOf(t, ref.Owner))
		require.Empty(t, activitytest.RequestsFor(t, ref.Node))
	}
}

func TestTheClusterRequestStaysUntilTheNodeLocksAreActive(t *testing.T) {
	ref := activitytest.TestNode(t)
	lock := activitytest.HeldNode(t, "tf", ref.Node)
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	result, err := activitytest.Nodes().ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, WithdrawCluster: true})
	require.NoError(t, err)
	require.False(t, result.ClusterWithdrawn)
	require.Len(t, clusterRequestsOf(t, ref.Owner), 1)
	require.NoError(t, activitytest.Initiator().WithdrawClusterMaintenance(t.Context(), locksactivities.ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	require.Empty(t, clusterRequestsOf(t, ref.Owner))
}

func TestARequestHasTheReleaseAndALockOfAnotherReleaseHoldsTheNode(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t), Release: "25.2"}
	lock := activitytest.HeldNode(t, "tf", in.Node)
	activitytest.WriteLock(t, lock, lcmv1.WorkloadLockStatus{State: lcmv1.LockInactive, Release: "25.1"})
	acquire := nodeactivities.AcquireNodeInput{NodeRef: in.NodeRef, Cordon: true, WithCluster: true, Release: in.Release}
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), acquire)
	require.NoError(t, err)
	require.Nil(t, acquired.Cordon, "the lock was released for an older release")
	requests := activitytest.RequestsFor(t, in.Node)
	require.Len(t, requests, 1)
	require.Equal(t, "25.2", requests[0].Spec.Release)
	ofCluster := &lcmv1.ClusterMaintenanceRequest{}
	key := client.ObjectKey{Name: locksactivities.RequestMeta(in.Owner, "drydock").Name}
	require.NoError(t, activitytest.TestCluster(t).Client.Get(t.Context(), key, ofCluster))
	require.Equal(t, "25.2", ofCluster.Spec.Release)

	_, err = activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: in.NodeRef, Cordon: true, Locked: true, Release: in.Release})
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "tf has released it; its release is 25.1, and 25.2 is requested")
	result := ended(func() error { return activitytest.Initiator().AwaitNodeLocks(t.Context(), in) })
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	activitytest.WriteLock(t, lock, lcmv1.WorkloadLockStatus{State: lcmv1.LockInactive, Release: "25.2"})
	require.NoError(t, <-result)
	acquired, err = activitytest.Nodes().AcquireNode(t.Context(), acquire)
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)
}

func TestAClusterLockOfAnotherReleaseHolds(t *testing.T) {
	lock := activitytest.HeldCluster(t, "tf")
	activitytest.WriteLock(t, lock, lcmv1.WorkloadLockStatus{State: lcmv1.LockInactive, Release: "25.1"})
	in := locksactivities.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: "cgu/default/x/run", Release: "25.2", Deadline: soon(200 * time.Millisecond)}
	err := activitytest.Initiator().AwaitClusterLocks(t.Context(), in)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.Equal(t, locks.ReasonLockOfAnotherRelease, temporal.Blockers(err)[0].Reason)
	in.Release = "25.1"
	require.NoError(t, activitytest.Initiator().AwaitClusterLocks(t.Context(), in))
}
