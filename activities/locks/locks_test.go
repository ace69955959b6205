package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	locksactivities "drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// ended runs a wait, and returns a channel with its result.
func ended(wait func() error) chan error {
	result := make(chan error, 1)
	go func() { result <- wait() }()
	return result
}

func soon(within time.Duration) *time.Time {
	deadline := time.Now().Add(within)
	return &deadline
}

func TestCordonAndUncordonReportTheStateOfTheLocks(t *testing.T) {
	ref := activitytest.TestNode(t)
	app := "tf-" + ref.Node
	lock := activitytest.HeldNode(t, app, ref.Node)
	activitytest.HeldNode(t, app, activitytest.TestNode(t).Node)
	progress := func(all []drydockv1.LockProgress) drydockv1.LockProgress {
		return all[slices.IndexFunc(all, func(p drydockv1.LockProgress) bool { return p.Controller == app })]
	}
	half := drydockv1.LockProgress{Controller: app, Percentage: 50, Description: "1 out of 2 nodes updated", InactiveNow: 1, Updated: 1, Total: 2}
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.Equal(t, half, progress(acquired.Cordon.LockProgress))
	require.True(t, acquired.Cordon.HasLocks, "the locks may become active again")
	activitytest.WriteLockState(t, lock, lcmv1.LockActive, "")
	returned, err := activitytest.Nodes().ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true})
	require.NoError(t, err)
	require.Len(t, returned.LocksHeld, 1)
	require.Equal(t, lock.Name, returned.LocksHeld[0].Name)
	require.Zero(t, progress(returned.LockProgress).Updated, "there is no request for the cluster")
}

func TestALockReactivatedAfterTheReturnDidNotBlockTheNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	lock := activitytest.HeldNode(t, "tf", ref.Node)
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	in := nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}
	returned, err := activitytest.Nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, returned.LocksHeld)
	activitytest.WriteLockState(t, lock, lcmv1.LockActive, "")
	returned, err = activitytest.Nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err, "again, as after a lost reply")
	require.Empty(t, returned.LocksHeld)
	require.True(t, returned.Locks.Active)
}

func TestANodeIsReleasedWhenItsLastLockIsInactiveOrDeleted(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	tf, ceph := activitytest.HeldNode(t, "tf", in.Node), activitytest.HeldNode(t, "ceph", in.Node)
	activitytest.HeldNode(t, "tf", activitytest.TestNode(t).Node)
	result := ended(func() error { return activitytest.Initiator().AwaitNodeLocks(t.Context(), in) })
	activitytest.WriteLockState(t, tf, lcmv1.LockInactive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond, "ceph still holds it")
	began := time.Now()
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), ceph))
	require.NoError(t, <-result)
	require.Less(t, time.Since(began), activitytest.EventTimeout)
}

func TestAWaitForNodeLocksEndsWithTheNode(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	activitytest.HeldNode(t, "tf", in.Node)
	result := ended(func() error { return activitytest.Initiator().AwaitNodeLocks(t.Context(), in) })
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, in.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-result))
}

func TestATimedOutWaitNamesTheActiveLocks(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t), Deadline: soon(300 * time.Millisecond)}
	activitytest.WriteLockState(t, activitytest.HeldNode(t, "ceph", in.Node), lcmv1.LockFailed, "osd.3 is down")
	silent := activitytest.Created(t, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "silent-"}, Spec: lcmv1.NodeWorkloadLockSpec{ControllerName: "tf", NodeName: in.Node},
	})
	err := activitytest.Initiator().AwaitNodeLocks(t.Context(), in)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ceph, tf did not release node "+in.Node+" in time: ceph has failed: osd.3 is down")
	require.Len(t, temporal.Blockers(err), 2)
	require.Equal(t, silent.Name, temporal.Blockers(err)[1].Name)
	require.Equal(t, locks.ReasonLockUnknown, temporal.Blockers(err)[1].Reason)
}

func TestAClusterIsReleasedWhenItsLastLockIsInactive(t *testing.T) {
	in := locksactivities.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: "cgu/default/x/run"}
	require.NoError(t, activitytest.Initiator().AwaitClusterLocks(t.Context(), in), "no lock is active")
	tf, ceph := activitytest.HeldCluster(t, "tf"), activitytest.HeldCluster(t, "ceph")
	result := ended(func() error { return activitytest.Initiator().AwaitClusterLocks(t.Context(), in) })
	activitytest.WriteLockState(t, tf, lcmv1.LockInactive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	activitytest.WriteLockState(t, ceph, lcmv1.LockInactive, "")
	require.NoError(t, <-result)

	activitytest.WriteLockState(t, ceph, "resting", "")
	in.Deadline = soon(200 * time.Millisecond)
	err := activitytest.Initiator().AwaitClusterLocks(t.Context(), in)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.Equal(t, ceph.Name, temporal.Blockers(err)[0].Name)
}

func TestAReturnedNodeWaitsUntilItsLocksAreActive(t *testing.T) {
	in := locksactivities.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: activitytest.TestNode(t).Node},
	})
	tf, ceph := activitytest.HeldNode(t, "tf", in.Node), activitytest.HeldNode(t, "ceph", in.Node)
	activitytest.WriteLockState(t, tf, lcmv1.LockInactive, "")
	activitytest.WriteLockState(t, ceph, lcmv1.LockFailed, "osd.3 is down")
	result := ended(func() error {
		notActive, err := activitytest.Initiator().AwaitNodeLocksActive(t.Context(), in)
		require.Empty(t, notActive)
		return err
	})
	activitytest.WriteLockState(t, ceph, lcmv1.LockActive, "")
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	activitytest.WriteLockState(t, tf, lcmv1.LockActive, "")
	require.NoError(t, <-result)

	activitytest.WriteLockState(t, tf, lcmv1.LockInactive, "pod is not back")
	activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{ // it could not be withdrawn
		ObjectMeta: locksactivities.RequestMeta(in.Owner, "drydock", in.Node), Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node},
	})
	in.Deadline = soon(200 * time.Millisecond)
	notActive, err := activitytest.Initiator().AwaitNodeLocksActive(t.Context(), in)
	require.NoError(t, err, "it is reported, not failed")
	require.Len(t, notActive, 1)
	require.Equal(t, "tf has released it: pod is not back", notActive[0].Message)
}

func TestAWaitNamesFailedHoldersFirst(t *testing.T) {
	lock := func(controller string, state lcmv1.LockState, message string) lcmv1.NodeWorkloadLock {
		return lcmv1.NodeWorkloadLock{
			Spec:   lcmv1.NodeWorkloadLockSpec{ControllerName: controller, NodeName: "n1"},
			Status: lcmv1.WorkloadLockStatus{State: state, ErrorMessage: message},
		}
	}
	list := []lcmv1.NodeWorkloadLock{lock("tf", lcmv1.LockActive, ""), lock("ceph", lcmv1.LockActive, ""), lock("web", lcmv1.LockInactive, "")}
	seen := locksactivities.HeldObservation("node n1", locks.NodeGate(list, "n1", ""))
	require.False(t, seen.Urgent)
	wait := seen.Wait
	require.Equal(t, locksactivities.ReasonWorkloadLocksHeld, wait.Reason)
	require.Equal(t, "ceph, tf to release node n1", wait.Message)
	require.Len(t, wait.Blockers, 2)
	list[0].Status = lcmv1.WorkloadLockStatus{State: lcmv1.LockFailed, ErrorMessage: "agent crashes"}
	seen = locksactivities.HeldObservation("node n1", locks.NodeGate(list, "n1", ""))
	require.True(t, seen.Urgent, "it is reported immediately")
	wait = seen.Wait
	require.Equal(t, locksactivities.ReasonWorkloadLocksFailed, wait.Reason)
	require.Equal(t, "node n1: tf has failed: agent crashes; correct it, or delete the lock to do without", wait.Message)
}

func TestAClusterServesAllKindsOfWorkloadLocksOrNone(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{Name: "plain", ControlPlaneOnly: true}}})
	access := stack.Cluster("plain").Config
	clusters := kube.New(kube.FromConfigs(access, map[string]*rest.Config{"plain": access}), kube.Options{})
	t.Cleanup(clusters.Close)
	l := &locksactivities.Activities{Clusters: clusters}
	node := locksactivities.NodeLockInput{NodeRef: activitykit.NodeRef{Cluster: "plain", Node: "n1", Owner: "me/1"}}
	whole := locksactivities.ClusterLockInput{Cluster: "plain", Owner: "me/1"}
	cluster, err := clusters.Cluster(t.Context(), "plain")
	require.NoError(t, err)
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))

	n := &nodeactivities.Activities{Clusters: clusters}
	acquired, err := n.AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: node.NodeRef, Cordon: true})
	require.NoError(t, err)
	require.False(t, acquired.Locks.Asked)
	require.NotNil(t, acquired.Cordon)
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

	_, err = envtest.InstallCRDs(access, envtest.CRDInstallOptions{Paths: []string{"../../deploy/crds/lcm.mirantis.com_nodeworkloadlocks.yaml"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err = n.AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: node.NodeRef, Cordon: true})
		return temporal.ErrorType(err) == temporal.ErrNotFound
	}, activitytest.EventTimeout, 50*time.Millisecond, "the API server needs a moment to serve a new kind")
	require.ErrorContains(t, err, "but not ClusterMaintenanceRequest, NodeMaintenanceRequest, ClusterWorkloadLock")
}
