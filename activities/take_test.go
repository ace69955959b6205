package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func TestANodeWhoseTakingNobodyHeardOfIsTakenWhateverHoldsItMeanwhile(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	before := getNode(t, ref.Node)
	lock := heldNode(t, "tf", ref.Node)
	say(t, lock, lcmv1.LockInactive, "")
	settled(t, spokeName, lock)
	in := TakeNodeInput{NodeRef: ref, Cordon: true, WithCluster: true, Departure: Departure{Drain: &maintenancev1.DrainSpec{}}}
	defer func() {
		require.NoError(t, initiator().WithdrawClusterMaintenance(t.Context(), ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner}))
	}()
	taken, err := nodes().TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, taken.Cordon)

	say(t, lock, lcmv1.LockActive, "")
	settled(t, spokeName, lock)
	settled(t, spokeName, heldCluster(t, "ceph"))
	settled(t, spokeName, shop.pod(t, ref.Node, "bare", withoutController))
	settled(t, spokeName, getNode(t, ref.Node))
	again, err := nodes().TakeNode(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, again.Cordon, "it is out of service, and drained before it is returned")
	require.Equal(t, taken.Cordon.CordonedByUs, again.Cordon.CordonedByUs)
	require.Equal(t, taken.Cordon.NodeUID, again.Cordon.NodeUID)
	require.True(t, again.Locks.Asked)
	require.False(t, again.Locks.ClusterHeld, "it is not waited for")
	require.Equal(t, taken.Locks.RequestUID, again.Locks.RequestUID)
	require.Equal(t, taken.Locks.ClusterRequestUID, again.Locks.ClusterRequestUID)

	for number, expected := range map[int32]bool{1: false, 2: true} {
		found := !expected
		require.NoError(t, runAttempt(number, func(ctx context.Context, ref NodeRef) (err error) {
			found, err = takenBefore(ctx, testCluster(t), ref, before)
			return err
		}, ref))
		require.Equal(t, expected, found, "a later attempt does not believe a cache that is behind")
	}
}

func TestACheckThatWasBegunAheadIsMadeAnewWhenItIsAskedAgain(t *testing.T) {
	asked := make(chan struct{}, 2)
	answers := make(chan error, 2)
	check := ahead(t.Context(), func(context.Context) error {
		asked <- struct{}{}
		return <-answers
	})
	<-asked // before anybody wants the answer
	held := errors.New("held")
	answers <- held
	require.ErrorIs(t, check(t.Context()), held)
	answers <- nil
	require.NoError(t, check(t.Context()))
	require.Len(t, asked, 1)
}
