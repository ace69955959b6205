package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func TestACordonWithALostReplyIsConfirmedDespiteNewLocks(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	before := activitytest.GetNode(t, ref.Node)
	lock := activitytest.HeldNode(t, "tf", ref.Node)
	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	activitytest.Settled(t, activitytest.SpokeName, lock)
	in := node.AcquireNodeInput{NodeRef: ref, Cordon: true, WithCluster: true, Preflight: drain.Preflight{Drain: &maintenancev1.DrainSpec{}}}
	defer func() {
		require.NoError(t, activitytest.Initiator().WithdrawClusterMaintenance(t.Context(), locks.ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	}()
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)

	activitytest.WriteLockState(t, lock, lcmv1.LockActive, "")
	activitytest.Settled(t, activitytest.SpokeName, lock)
	activitytest.Settled(t, activitytest.SpokeName, activitytest.HeldCluster(t, "ceph"))
	activitytest.Settled(t, activitytest.SpokeName, shop.Pod(t, ref.Node, "bare", activitytest.WithoutController))
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	again, err := activitytest.Nodes().AcquireNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, again.Cordon, "the node is cordoned, and is drained before it is returned")
	require.Equal(t, acquired.Cordon.CordonedByUs, again.Cordon.CordonedByUs)
	require.Equal(t, acquired.Cordon.NodeUID, again.Cordon.NodeUID)
	require.True(t, again.Locks.Asked)
	require.False(t, again.Locks.ClusterHeld, "the cluster lock is ignored")
	require.Equal(t, acquired.Locks.RequestUID, again.Locks.RequestUID)
	require.Equal(t, acquired.Locks.ClusterRequestUID, again.Locks.ClusterRequestUID)

	for number, expected := range map[int32]bool{1: false, 2: true} {
		found := !expected
		require.NoError(t, activitytest.RunAttempt(number, func(ctx context.Context, ref activitykit.NodeRef) (err error) {
			found, err = node.TakenBefore(ctx, activitytest.TestCluster(t), ref, before)
			return err
		}, ref))
		require.Equal(t, expected, found, "a later attempt ignores an outdated cache")
	}
}

func TestANodeIsRequestedBesideTheFirstCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if one waits for the end of the other
		checking, requested := make(chan struct{}), 0
		refused := errors.New("refused")
		check := node.FirstBeside(func(context.Context) error {
			requested++
			<-checking
			return refused
		}, func(context.Context) error {
			checking <- struct{}{}
			return errors.New("held")
		})
		require.ErrorContains(t, check(t.Context()), "refused", "there may be no request, so no check counts")
		refused = nil
		require.ErrorContains(t, check(t.Context()), "held")
		require.Equal(t, 2, requested)

		go func() { <-checking }()
		require.ErrorContains(t, check(t.Context()), "held")
		require.Equal(t, 2, requested, "it is requested already")
	})
}
