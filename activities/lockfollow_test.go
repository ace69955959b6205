package activities

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// inBackground runs something that waits as an activity, which reports what it observes.
func inBackground(t *testing.T, wait func(context.Context, *Locks) error) (*signals, chan error) {
	t.Helper()
	reported := &signals{}
	l := &Locks{Clusters: clusters, Waits: Waits{Temporal: reported}}
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	Watching := func(ctx context.Context) error { return wait(ctx, l) }
	environment.RegisterActivity(Watching)
	return reported, ended(func() error {
		_, err := environment.ExecuteActivity(Watching)
		return err
	})
}

func TestALockThatHoldsANodeAgainIsSeenOnce(t *testing.T) {
	in := AwaitHeldAgainInput{NodeRef: testNode(t)}
	tf, ceph := heldNode(t, "tf", in.Node), heldNode(t, "ceph", in.Node)
	say(t, tf, lcmv1.LockInactive, "")
	say(t, ceph, lcmv1.LockInactive, "")
	heldNode(t, "tf", testNode(t).Node)
	seen := make(chan []drydockv1.Blocker, 1)
	follow := func() chan error {
		return ended(func() error {
			locks, err := initiator().AwaitHeldAgain(t.Context(), in)
			seen <- locks
			return err
		})
	}
	result := follow()
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	say(t, tf, lcmv1.LockActive, "it is back")
	require.NoError(t, <-result)
	locks := <-seen
	require.Len(t, locks, 1)
	require.Equal(t, tf.Name, locks[0].Name)
	require.Equal(t, "tf holds it: it is back", locks[0].Message)

	in.Known = []string{tf.Name}
	result = follow()
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond, "it is known")
	say(t, ceph, lcmv1.LockFailed, "")
	require.NoError(t, <-result)
	require.Equal(t, ceph.Name, (<-seen)[0].Name)
}

func TestHowFarApplicationsHaveComeIsReportedAsItChanges(t *testing.T) {
	ref := testNode(t)
	app := "tf-" + ref.Node
	lock := heldNode(t, app, ref.Node)
	in := ClusterLockInput{Cluster: spokeName}
	over := make(chan struct{})
	reported, result := inBackground(t, func(ctx context.Context, l *Locks) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { <-over; cancel() }()
		return l.FollowLocks(ctx, in)
	})
	updated := func() int32 {
		last, _ := reported.last()
		if i := slices.IndexFunc(last.LockProgress, func(p drydockv1.LockProgress) bool { return p.Controller == app }); i >= 0 {
			return last.LockProgress[i].Updated
		}
		return -1
	}
	require.Eventually(t, func() bool { return updated() == 0 }, time.Minute, 10*time.Millisecond)
	say(t, lock, lcmv1.LockInactive, "")
	require.Eventually(t, func() bool { return updated() == 1 }, time.Minute, 10*time.Millisecond, "no node is taken or returned")
	require.Empty(t, result, "it goes on")
	close(over)
	require.Error(t, <-result)

	in.Deadline = soon(0)
	require.NoError(t, initiator().FollowLocks(t.Context(), in), "until the deadline")
}

func TestALockOfTheClusterThatIsMadeDuringARolloutIsAskedBeforeTheNextNode(t *testing.T) {
	ref := testNode(t)
	in := TakeNodeInput{NodeRef: ref, Cordon: true}
	lock := heldCluster(t, "ceph")
	taken, err := nodes().TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.True(t, taken.Locks.ClusterHeld)
	require.Nil(t, taken.Cordon)
	require.Empty(t, requestsFor(t, ref.Node), "cluster first")
	require.Empty(t, clusterRequestsOf(t, ref.Owner), "nobody has said that it shall ask the cluster")

	_, err = nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true, Locked: true})
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err), "also right before the cordon")
	require.ErrorContains(t, err, "ClusterWorkloadLock "+lock.Name)
	require.False(t, getNode(t, ref.Node).Spec.Unschedulable)

	say(t, lock, lcmv1.LockInactive, "")
	taken, err = nodes().TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, taken.Cordon)
}

func TestAWaitForLocksEndsWhenItsRequestIsDeleted(t *testing.T) {
	ref := testNode(t)
	heldNode(t, "tf", ref.Node)
	taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, WithCluster: true})
	require.NoError(t, err)
	require.NotEmpty(t, taken.Locks.RequestUID)
	node := ended(func() error {
		return initiator().AwaitNodeLocks(t.Context(), NodeLockInput{NodeRef: ref, Requested: true})
	})
	heldCluster(t, "tf")
	whole := ended(func() error {
		return initiator().AwaitClusterLocks(t.Context(), ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner, Requested: true})
	})
	require.Never(t, func() bool { return len(node)+len(whole) > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	meta := requestMeta(ref.Owner, "drydock", ref.Node)
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), &lcmv1.NodeMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}}))
	err = <-node
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "somebody has deleted maintenance request "+meta.Name)

	meta = requestMeta(ref.Owner, "drydock")
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}}))
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(<-whole))
}
