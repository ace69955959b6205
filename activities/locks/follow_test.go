package locks_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// inBackground runs a wait as an activity, and records its reports.
func inBackground(t *testing.T, wait func(context.Context, *locks.Activities) error) (*activitytest.Signals, chan error) {
	t.Helper()
	reported := &activitytest.Signals{}
	l := &locks.Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Temporal: reported}}
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	Watching := func(ctx context.Context) error { return wait(ctx, l) }
	environment.RegisterActivity(Watching)
	return reported, ended(func() error {
		_, err := environment.ExecuteActivity(Watching)
		return err
	})
}

func TestAReactivatedLockIsReportedOnce(t *testing.T) {
	in := locks.AwaitHeldAgainInput{NodeRef: activitytest.TestNode(t)}
	tf, ceph := activitytest.HeldNode(t, "tf", in.Node), activitytest.HeldNode(t, "ceph", in.Node)
	activitytest.WriteLockState(t, tf, lcmv1.LockInactive, "")
	activitytest.WriteLockState(t, ceph, lcmv1.LockInactive, "")
	activitytest.HeldNode(t, "tf", activitytest.TestNode(t).Node)
	seen := make(chan []drydockv1.Blocker, 1)
	follow := func() chan error {
		return ended(func() error {
			locks, err := activitytest.Initiator().AwaitHeldAgain(t.Context(), in)
			seen <- locks
			return err
		})
	}
	result := follow()
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	activitytest.WriteLockState(t, tf, lcmv1.LockActive, "it is back")
	require.NoError(t, <-result)
	locks := <-seen
	require.Len(t, locks, 1)
	require.Equal(t, tf.Name, locks[0].Name)
	require.Equal(t, "tf holds it: it is back", locks[0].Message)

	in.Known = []string{tf.Name}
	result = follow()
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond, "the lock is known")
	activitytest.WriteLockState(t, ceph, lcmv1.LockFailed, "")
	require.NoError(t, <-result)
	require.Equal(t, ceph.Name, (<-seen)[0].Name)
}

func TestApplicationProgressIsReportedAsItChanges(t *testing.T) {
	ref := activitytest.TestNode(t)
	app := "tf-" + ref.Node
	lock := activitytest.HeldNode(t, app, ref.Node)
	in := locks.ClusterLockInput{Cluster: activitytest.SpokeName}
	over := make(chan struct{})
	reported, result := inBackground(t, func(ctx context.Context, l *locks.Activities) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { <-over; cancel() }()
		return l.FollowLocks(ctx, in)
	})
	updated := func() int32 {
		last, _ := reported.Last()
		if i := slices.IndexFunc(last.LockProgress, func(p drydockv1.LockProgress) bool { return p.Controller == app }); i >= 0 {
			return last.LockProgress[i].Updated
		}
		return -1
	}
	require.Eventually(t, func() bool { return updated() == 0 }, time.Minute, 10*time.Millisecond)
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	require.Eventually(t, func() bool { return updated() == 1 }, time.Minute, 10*time.Millisecond, "no node is cordoned or returned")
	require.Empty(t, result, "it continues")
	close(over)
	require.Error(t, <-result)

	in.Deadline = soon(0)
	require.NoError(t, activitytest.Initiator().FollowLocks(t.Context(), in), "until the deadline")
}

func TestAClusterLockCreatedDuringARolloutIsRequestedBeforeTheNextNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := node.AcquireNodeInput{NodeRef: ref, Cordon: true}
	lock := activitytest.HeldCluster(t, "ceph")
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.True(t, acquired.Locks.ClusterHeld)
	require.Nil(t, acquired.Cordon)
	require.Empty(t, activitytest.RequestsFor(t, ref.Node), "cluster first")
	require.Empty(t, clusterRequestsOf(t, ref.Owner), "a request for the cluster is not configured")

	_, err = activitytest.Nodes().Cordon(t.Context(), node.CordonInput{NodeRef: ref, Cordon: true, Locked: true})
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err), "also right before the cordon")
	require.ErrorContains(t, err, "ClusterWorkloadLock "+lock.Name)
	require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)

	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	acquired, err = activitytest.Nodes().AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)
}

func TestAWaitForLocksEndsWhenItsRequestIsDeleted(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.HeldNode(t, "tf", ref.Node)
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), node.AcquireNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	require.NotEmpty(t, acquired.Locks.RequestUID)
	node := ended(func() error {
		return activitytest.Initiator().AwaitNodeLocks(t.Context(), locks.NodeLockInput{NodeRef: ref, Requested: true})
	})
	activitytest.HeldCluster(t, "tf")
	whole := ended(func() error {
		return activitytest.Initiator().AwaitClusterLocks(t.Context(), locks.ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner, Requested: true})
	})
	require.Never(t, func() bool { return len(node)+len(whole) > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	meta := locks.RequestMeta(ref.Owner, "drydock", ref.Node)
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), &lcmv1.NodeMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}}))
	err = <-node
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "maintenance request "+meta.Name+" was deleted by another client")

	meta = locks.RequestMeta(ref.Owner, "drydock")
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}}))
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(<-whole))
}
