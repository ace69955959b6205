package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/locks"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// crossed are two nodes with two applications, each of which has released the other node.
type crossed struct {
	older, younger locks.NodeLockInput
	// free releases the last lock of a node.
	free map[string]*lcmv1.NodeWorkloadLock
}

// newCrossed requests both nodes for these owners. Both requests are created in the same second, so the younger is the later one by name.
func newCrossed(t *testing.T, olderOwner, youngerOwner string) crossed {
	older, younger := locks.NodeLockInput{NodeRef: activitytest.TestNode(t)}, locks.NodeLockInput{NodeRef: activitytest.TestNode(t)}
	older.Owner, younger.Owner = olderOwner, youngerOwner
	c := crossed{older: older, younger: younger, free: map[string]*lcmv1.NodeWorkloadLock{}}
	for _, in := range []locks.NodeLockInput{older, younger} {
		request := &lcmv1.NodeMaintenanceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: map[bool]string{true: "a-", false: "b-"}[in == older] + in.Node},
			Spec:       lcmv1.NodeMaintenanceRequestSpec{NodeName: in.Node},
		}
		if in.Owner != "" {
			request.Annotations = map[string]string{kube.AnnotationOwner: in.Owner}
		}
		activitytest.Created(t, request)
	}
	// Each test has its own applications, because others have released other nodes.
	tf, ceph := "tf-"+older.Node, "ceph-"+older.Node
	activitytest.WriteLockState(t, activitytest.HeldNode(t, tf, older.Node), lcmv1.LockInactive, "")
	c.free[older.Node] = activitytest.HeldNode(t, ceph, older.Node)
	activitytest.WriteLockState(t, activitytest.HeldNode(t, ceph, younger.Node), lcmv1.LockInactive, "")
	c.free[younger.Node] = activitytest.HeldNode(t, tf, younger.Node)
	return c
}

func TestTheYoungerMaintenanceYieldsInALockCycle(t *testing.T) {
	c := newCrossed(t, "node/spoke/default/older/1", "node/spoke/default/younger/1")
	older := ended(func() error { return activitytest.Initiator().AwaitNodeLocks(t.Context(), c.older) })
	began := time.Now()
	err := activitytest.Initiator().AwaitNodeLocks(t.Context(), c.younger)
	require.Equal(t, temporal.ErrLockCycle, temporal.ErrorType(err), "%v", err)
	require.GreaterOrEqual(t, time.Since(began), locks.CycleStands)
	require.ErrorContains(t, err, "the maintenances of "+c.younger.Node+" and "+c.older.Node+" wait for each other's workload locks")
	require.Len(t, temporal.Blockers(err), 1)
	require.Empty(t, older, "the older request keeps waiting")

	first := locks.RequestsServedInput{Cluster: activitytest.SpokeName, Requests: []string{temporal.Blockers(err)[0].Name}, Deadline: soon(200 * time.Millisecond)}
	err = activitytest.Initiator().AwaitRequestsServed(t.Context(), first)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err))
	require.ErrorContains(t, err, "a-"+c.older.Node)
	first.Deadline = nil
	served := ended(func() error { return activitytest.Initiator().AwaitRequestsServed(t.Context(), first) })
	activitytest.WriteLockState(t, c.free[c.older.Node], lcmv1.LockInactive, "")
	require.NoError(t, <-older)
	require.NoError(t, <-served)
	require.NoError(t, activitytest.Initiator().AwaitRequestsServed(t.Context(), locks.RequestsServedInput{Cluster: activitytest.SpokeName, Requests: []string{"gone"}}))
}

func TestAYoungerRequestOfAnotherOwnerIsNotWithdrawn(t *testing.T) {
	c := newCrossed(t, "node/spoke/default/older/1", "")
	err := activitytest.Initiator().AwaitNodeLocks(t.Context(), c.older)
	require.Equal(t, temporal.ErrLockCycle, temporal.ErrorType(err), "%v", err)
}

func TestAResolvedCycleMakesNoMaintenanceYield(t *testing.T) {
	resolve := func() (after time.Duration, err error) {
		c := newCrossed(t, "node/spoke/default/older/1", "node/spoke/default/younger/1")
		began := time.Now()
		younger := ended(func() error { return activitytest.Initiator().AwaitNodeLocks(t.Context(), c.younger) })
		activitytest.WriteLockState(t, c.free[c.younger.Node], lcmv1.LockInactive, "") // its application may release two nodes
		after = time.Since(began)
		return after, <-younger
	}
	after, err := resolve()
	for range 10 {
		if after < locks.CycleStands {
			break
		}
		after, err = resolve() // the machine is too slow: the cycle lasted too long
	}
	require.NoError(t, err)

	c := newCrossed(t, "node/spoke/default/older/2", "node/spoke/default/younger/2")
	c.younger.Deadline = soon(locks.CycleStands / 20)
	err = activitytest.Initiator().AwaitNodeLocks(t.Context(), c.younger)
	require.Equal(t, temporal.ErrLockTimedOut, temporal.ErrorType(err), "the deadline comes first")
}
