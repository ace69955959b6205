package activities

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

func initiator() *Locks { return &Locks{Clusters: clusters} }

// ended runs something that waits, and tells how it ended.
func ended(wait func() error) chan error {
	result := make(chan error, 1)
	go func() { result <- wait() }()
	return result
}

func soon(within time.Duration) *time.Time {
	deadline := time.Now().Add(within)
	return &deadline
}

func TestATakenNodeAndAReturnedOneTellHowTheLocksStand(t *testing.T) {
	ref := testNode(t)
	app := "tf-" + ref.Node
	lock := heldNode(t, app, ref.Node)
	heldNode(t, app, testNode(t).Node)
	progress := func(all []drydockv1.LockProgress) drydockv1.LockProgress {
		return all[slices.IndexFunc(all, func(p drydockv1.LockProgress) bool { return p.Controller == app })]
	}
	half := drydockv1.LockProgress{Controller: app, Percentage: 50, Description: "1 out of 2 nodes updated", InactiveNow: 1, Updated: 1, Total: 2}
	say(t, lock, lcmv1.LockInactive, "")
	taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.Equal(t, half, progress(taken.Cordon.LockProgress))
	require.True(t, taken.Cordon.HasLocks, "they may hold it again")
	say(t, lock, lcmv1.LockActive, "")
	returned, err := nodes().ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true})
	require.NoError(t, err)
	require.Len(t, returned.LocksHeld, 1)
	require.Equal(t, lock.Name, returned.LocksHeld[0].Name)
	require.Zero(t, progress(returned.LockProgress).Updated, "no maintenance of the cluster is asked for")
}

func TestALockThatHoldsANodeAfterItWasReturnedHasNotHeldItBefore(t *testing.T) {
	ref := testNode(t)
	lock := heldNode(t, "tf", ref.Node)
	say(t, lock, lcmv1.LockInactive, "")
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	in := ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}
	returned, err := nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, returned.LocksHeld)
	say(t, lock, lcmv1.LockActive, "")
	returned, err = nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err, "again, as after a lost reply")
	require.Empty(t, returned.LocksHeld)
	require.True(t, returned.Locks.Active)
}

func TestANodeIsRequestedOnceAndTheRequestIsWithdrawn(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t), Scope: lcmv1.ScopeOS}
	for range 2 { // the second time as if the first reply had been lost
		taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: in.NodeRef, Cordon: true, Scope: in.Scope})
		require.NoError(t, err)
		requests := requestsFor(t, in.Node)
		require.Len(t, requests, 1)
		require.Equal(t, NodeLocks{Asked: true, Inactive: true, Active: true, RequestUID: requests[0].UID}, taken.Locks)
		require.Equal(t, &CordonResult{CordonedByUs: true, NodeUID: getNode(t, in.Node).UID}, taken.Cordon, "the node has no lock to wait for")
		require.True(t, getNode(t, in.Node).Spec.Unschedulable)
	}
	requests := requestsFor(t, in.Node)
	require.Equal(t, in.Owner, kube.Owner(&requests[0]))
	require.Equal(t, lcmv1.ScopeOS, requests[0].Spec.Scope)
	for range 2 {
		found, err := initiator().WithdrawNodeMaintenance(t.Context(), in)
		require.NoError(t, err)
		require.True(t, found.Active)
		require.Empty(t, requestsFor(t, in.Node))
	}
}

func TestAClusterIsRequestedOnceAndTheRequestIsWithdrawn(t *testing.T) {
	in := ClusterLockInput{Cluster: spokeName, Owner: "cgu/default/" + t.Name() + "/run", Scope: lcmv1.ScopeDrain}
	count := func() (n int) {
		var list lcmv1.ClusterMaintenanceRequestList
		require.NoError(t, testCluster(t).Client.List(t.Context(), &list))
		for i := range list.Items {
			if kube.OwnedBy(&list.Items[i], in.Owner) {
				n++
			}
		}
		return n
	}
	for range 2 {
		requested, err := initiator().RequestClusterMaintenance(t.Context(), in)
		require.NoError(t, err)
		require.True(t, requested)
		require.Equal(t, 1, count())
	}
	for range 2 {
		require.NoError(t, initiator().WithdrawClusterMaintenance(t.Context(), in))
		require.Zero(t, count())
	}
}

func TestARequestThatSomeoneElseMadeIsRespectedAndNeverDeleted(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t)}
	theirs := created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node},
	})
	lock := heldNode(t, "tf", in.Node)
	say(t, lock, lcmv1.LockInactive, "")
	taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.NoError(t, err)
	require.NotNil(t, taken.Cordon, "its lock has let go, for them")
	require.Len(t, requestsFor(t, in.Node), 2)
	require.NoError(t, initiator().AwaitNodeLocks(t.Context(), in))

	found, err := initiator().WithdrawNodeMaintenance(t.Context(), in)
	require.NoError(t, err)
	require.False(t, found.Active, "the node's lock has let go, for them")
	left := requestsFor(t, in.Node)
	require.Len(t, left, 1)
	require.Equal(t, theirs.UID, left[0].UID)
	notActive, err := initiator().AwaitNodeLocksActive(t.Context(), in)
	require.NoError(t, err, "while their request stands there is nothing to wait for")
	require.Empty(t, notActive)
}

func TestARequestByOurNameThatIsNotOursIsLeftAlone(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t)}
	meta := requestMeta(in.Owner, "drydock", in.Node)
	meta.Annotations = nil
	created(t, &lcmv1.NodeMaintenanceRequest{ObjectMeta: meta, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node}})
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.ErrorContains(t, err, "exists and is not ours")
	require.False(t, getNode(t, in.Node).Spec.Unschedulable)
	_, err = initiator().WithdrawNodeMaintenance(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, requestsFor(t, in.Node), 1)
}

func TestARequestOfOursThatIsStillBeingDeletedAsksNobody(t *testing.T) {
	in, cluster := NodeLockInput{NodeRef: testNode(t), Requested: true}, testCluster(t)
	heldNode(t, "tf", in.Node)
	meta := requestMeta(in.Owner, "drydock", in.Node)
	meta.Finalizers = []string{"ceph.example.com/slow"}
	ours := created(t, &lcmv1.NodeMaintenanceRequest{ObjectMeta: meta, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node}})
	t.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, cluster.Client.Patch(context.Background(), ours, patch))
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), ours))
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: in.NodeRef, Cordon: true})
	require.ErrorContains(t, err, "is still being deleted: one of its finalizers [ceph.example.com/slow] holds it")
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(initiator().AwaitNodeLocks(t.Context(), in)))
}

func TestANodeThatIsGoneIsNotRequested(t *testing.T) {
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: NodeRef{Cluster: spokeName, Node: "no-such-node", Owner: "me/1"}})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
}

func TestANodeThatNoMaintenanceMayBeRequestedForIsNotRequestedAndItsLocksAreNotOverrun(t *testing.T) {
	skipped := func(n *devstack.Node) { n.Annotations = map[string]string{lcmv1.AnnotationSkipMaintenance: ""} }
	in := TakeNodeInput{NodeRef: testNode(t, skipped), Cordon: true}
	for range 2 { // the second time as if the first reply had been lost, and a lock been made meanwhile
		taken, err := nodes().TakeNode(t.Context(), in)
		require.NoError(t, err)
		require.False(t, taken.Locks.Asked, "nobody holds it: there is nothing to ask")
		require.True(t, taken.Locks.Skipped)
		require.NotNil(t, taken.Cordon)
		settled(t, spokeName, getNode(t, in.Node))
		heldNode(t, "tf", in.Node)
	}
	in = TakeNodeInput{NodeRef: testNode(t, skipped), Cordon: true}
	heldNode(t, "tf", in.Node)
	_, err := nodes().TakeNode(t.Context(), in)
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "held by tf and annotation lcm.mirantis.com/skip-maintenance forbids to ask")
	require.Empty(t, requestsFor(t, in.Node))
}

func TestANodeIsLetGoWhenTheLastOfItsLocksIsInactiveOrDeleted(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t)}
	tf, ceph := heldNode(t, "tf", in.Node), heldNode(t, "ceph", in.Node)
	heldNode(t, "tf", testNode(t).Node)
	result := ended(func() error { return initiator().AwaitNodeLocks(t.Context(), in) })
	say(t, tf, lcmv1.LockInactive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond, "ceph still holds it")
	began := time.Now()
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), ceph))
	require.NoError(t, <-result)
	require.Less(t, time.Since(began), newsLimit)
}

func TestAWaitForANodesLocksEndsWithTheNode(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t)}
	heldNode(t, "tf", in.Node)
	result := ended(func() error { return initiator().AwaitNodeLocks(t.Context(), in) })
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), getNode(t, in.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-result))
}

func TestLocksThatAreHeldAtTheDeadlineAreNamed(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t), Deadline: soon(300 * time.Millisecond)}
	say(t, heldNode(t, "ceph", in.Node), lcmv1.LockFailed, "osd.3 is down")
	silent := created(t, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "silent-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: in.Node},
	})
	err := initiator().AwaitNodeLocks(t.Context(), in)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ceph, tf did not let go of node "+in.Node+" in time: ceph has failed: osd.3 is down")
	require.Len(t, temporal.Blockers(err), 2)
	require.Equal(t, silent.Name, temporal.Blockers(err)[1].Name)
	require.Equal(t, locks.ReasonLockUnknown, temporal.Blockers(err)[1].Reason)
}

func TestAClusterIsLetGoWhenTheLastOfItsLocksIsInactive(t *testing.T) {
	in := ClusterLockInput{Cluster: spokeName, Owner: "cgu/default/x/run"}
	require.NoError(t, initiator().AwaitClusterLocks(t.Context(), in), "nobody holds it")
	tf, ceph := heldCluster(t, "tf"), heldCluster(t, "ceph")
	result := ended(func() error { return initiator().AwaitClusterLocks(t.Context(), in) })
	say(t, tf, lcmv1.LockInactive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	say(t, ceph, lcmv1.LockInactive, "")
	require.NoError(t, <-result)

	say(t, ceph, "resting", "")
	in.Deadline = soon(200 * time.Millisecond)
	err := initiator().AwaitClusterLocks(t.Context(), in)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.Equal(t, ceph.Name, temporal.Blockers(err)[0].Name)
}

func TestAfterwardsTheNodesLocksAreAwaitedUntilTheyHoldAgain(t *testing.T) {
	in := NodeLockInput{NodeRef: testNode(t)}
	created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: testNode(t).Node},
	})
	tf, ceph := heldNode(t, "tf", in.Node), heldNode(t, "ceph", in.Node)
	say(t, tf, lcmv1.LockInactive, "")
	say(t, ceph, lcmv1.LockFailed, "osd.3 is down")
	result := ended(func() error {
		notActive, err := initiator().AwaitNodeLocksActive(t.Context(), in)
		require.Empty(t, notActive)
		return err
	})
	say(t, ceph, lcmv1.LockActive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	say(t, tf, lcmv1.LockActive, "")
	require.NoError(t, <-result)

	say(t, tf, lcmv1.LockInactive, "pod is not back")
	created(t, &lcmv1.NodeMaintenanceRequest{ // it could not be withdrawn
		ObjectMeta: requestMeta(in.Owner, "drydock", in.Node), Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node},
	})
	in.Deadline = soon(200 * time.Millisecond)
	notActive, err := initiator().AwaitNodeLocksActive(t.Context(), in)
	require.NoError(t, err, "it is reported, not failed")
	require.Len(t, notActive, 1)
	require.Equal(t, "tf has released it: pod is not back", notActive[0].Message)
}

func TestAWaitNamesTheHoldersAndThoseThatFailedFirst(t *testing.T) {
	lock := func(controller string, state lcmv1.LockState, message string) lcmv1.NodeWorkloadLock {
		return lcmv1.NodeWorkloadLock{
			Spec:   lcmv1.NodeWorkloadLockSpec{ControllerName: controller, NodeName: "n1"},
			Status: lcmv1.WorkloadLockStatus{State: state, ErrorMessage: message},
		}
	}
	list := []lcmv1.NodeWorkloadLock{lock("tf", lcmv1.LockActive, ""), lock("ceph", lcmv1.LockActive, ""), lock("web", lcmv1.LockInactive, "")}
	seen := held("node n1", locks.NodeGate(list, "n1"))
	require.False(t, seen.Urgent)
	wait := seen.Wait
	require.Equal(t, ReasonWorkloadLocksHeld, wait.Reason)
	require.Equal(t, "ceph, tf to let go of node n1", wait.Message)
	require.Len(t, wait.Blockers, 2)
	list[0].Status = lcmv1.WorkloadLockStatus{State: lcmv1.LockFailed, ErrorMessage: "agent crashes"}
	seen = held("node n1", locks.NodeGate(list, "n1"))
	require.True(t, seen.Urgent, "it is reported at once")
	wait = seen.Wait
	require.Equal(t, ReasonWorkloadLocksFailed, wait.Reason)
	require.Equal(t, "node n1: tf has failed: agent crashes; correct it, or delete the lock to do without", wait.Message)
}

func TestAClusterServesAllKindsOfWorkloadLocksOrNone(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{Name: "plain", ControlPlaneOnly: true}}})
	access := stack.Cluster("plain").Config
	clusters := kube.New(kube.FromConfigs(access, map[string]*rest.Config{"plain": access}), kube.Options{})
	t.Cleanup(clusters.Close)
	l := &Locks{Clusters: clusters}
	node := NodeLockInput{NodeRef: NodeRef{Cluster: "plain", Node: "n1", Owner: "me/1"}}
	whole := ClusterLockInput{Cluster: "plain", Owner: "me/1"}
	cluster, err := clusters.Cluster(t.Context(), "plain")
	require.NoError(t, err)
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))

	n := &Nodes{Clusters: clusters}
	taken, err := n.TakeNode(t.Context(), TakeNodeInput{NodeRef: node.NodeRef, Cordon: true})
	require.NoError(t, err)
	require.False(t, taken.Locks.Asked)
	require.NotNil(t, taken.Cordon)
	requested, err := l.RequestClusterMaintenance(t.Context(), whole)
	require.NoError(t, err)
	require.False(t, requested)
	require.NoError(t, l.AwaitClusterLocks(t.Context(), whole))
	_, err = l.WithdrawNodeMaintenance(t.Context(), node)
	require.NoError(t, err)
	require.NoError(t, l.WithdrawClusterMaintenance(t.Context(), whole))
	notActive, err := l.AwaitNodeLocksActive(t.Context(), node)
	require.NoError(t, err)
	require.Empty(t, notActive)

	_, err = envtest.InstallCRDs(access, envtest.CRDInstallOptions{Paths: []string{"../deploy/crds/lcm.mirantis.com_nodeworkloadlocks.yaml"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err = n.TakeNode(t.Context(), TakeNodeInput{NodeRef: node.NodeRef, Cordon: true})
		return temporal.ErrorType(err) == temporal.ErrNotFound
	}, newsLimit, 50*time.Millisecond, "the API server needs a moment to serve a new kind")
	require.ErrorContains(t, err, "but not ClusterMaintenanceRequest, NodeMaintenanceRequest, ClusterWorkloadLock")
}

// clusterRequestsOf are the requests for the cluster that were made in the name of an owner.
func clusterRequestsOf(t *testing.T, owner string) (found []lcmv1.ClusterMaintenanceRequest) {
	t.Helper()
	var list lcmv1.ClusterMaintenanceRequestList
	require.NoError(t, testCluster(t).Client.List(t.Context(), &list))
	for _, request := range list.Items {
		if kube.OwnedBy(&request, owner) {
			found = append(found, request)
		}
	}
	return found
}

func TestAMaintenanceOfItsOwnAsksTheClusterBeforeTheNodeAndWithdrawsBoth(t *testing.T) {
	requireClusterAskedFirst(t, testNode(t), 1)
}

func TestTheClusterIsAskedForANodeThatNoMaintenanceMayBeRequestedFor(t *testing.T) {
	requireClusterAskedFirst(t, testNode(t, func(n *devstack.Node) { n.Annotations = map[string]string{lcmv1.AnnotationSkipMaintenance: ""} }), 0)
}

// requireClusterAskedFirst takes and returns a node for which so many requests are made.
func requireClusterAskedFirst(t *testing.T, ref NodeRef, requests int) {
	t.Helper()
	lock := heldCluster(t, "ceph")
	in := TakeNodeInput{NodeRef: ref, Cordon: true, WithCluster: true, Scope: lcmv1.ScopeDrain}
	for range 2 { // the second time as if the first reply had been lost
		taken, err := nodes().TakeNode(t.Context(), in)
		require.NoError(t, err)
		require.True(t, taken.Locks.ClusterHeld)
		require.Nil(t, taken.Cordon)
		require.Len(t, clusterRequestsOf(t, ref.Owner), 1)
		require.Empty(t, requestsFor(t, ref.Node), "cluster first")
		require.False(t, getNode(t, ref.Node).Spec.Unschedulable)
	}

	say(t, lock, lcmv1.LockInactive, "")
	require.NoError(t, initiator().AwaitClusterLocks(t.Context(), ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	taken, err := nodes().TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.False(t, taken.Locks.ClusterHeld)
	require.NotNil(t, taken.Cordon)
	require.False(t, taken.Cordon.HasLocks, "nobody has to be followed")
	whole := clusterRequestsOf(t, ref.Owner)[0]
	require.Equal(t, whole.UID, taken.Locks.ClusterRequestUID)
	require.Equal(t, lcmv1.ScopeDrain, whole.Spec.Scope)
	require.Len(t, requestsFor(t, ref.Node), requests)

	for range 2 {
		result, err := nodes().ReturnNode(t.Context(), ReturnNodeInput{
			NodeRef: ref, Withdraw: true, WithdrawCluster: true, RequestUID: taken.Locks.RequestUID, ClusterRequestUID: taken.Locks.ClusterRequestUID,
		})
		require.NoError(t, err)
		require.True(t, result.ClusterWithdrawn)
		require.Empty(t, clusterRequestsOf(t, ref.Owner))
		require.Empty(t, requestsFor(t, ref.Node))
	}
}

func TestTheRequestForTheClusterStandsUntilTheLocksOfTheNodeAreActiveAgain(t *testing.T) {
	ref := testNode(t)
	lock := heldNode(t, "tf", ref.Node)
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	say(t, lock, lcmv1.LockInactive, "")
	result, err := nodes().ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref, Withdraw: true, WithdrawCluster: true})
	require.NoError(t, err)
	require.False(t, result.ClusterWithdrawn)
	require.Len(t, clusterRequestsOf(t, ref.Owner), 1)
	require.NoError(t, initiator().WithdrawClusterMaintenance(t.Context(), ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	require.Empty(t, clusterRequestsOf(t, ref.Owner))
}
