package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
	locksactivities "drydock.dev/drydock/activities/locks"
)

func TestALockRequestAndItsWithdrawalAreOneLogLineEach(t *testing.T) {
	in := locksactivities.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: "cgu/ops/logged/" + activitytest.SpokeName + "/first-run"}
	keys := "cluster=" + in.Cluster + " owner=" + in.Owner + " rollout=ops/logged"
	logged := activitytest.Logged(t, activitytest.Initiator().RequestClusterMaintenance, in)
	require.Contains(t, logged, `msg="Requested maintenance from workload locks"`)
	require.Contains(t, logged, keys)
	logged = activitytest.Logged(t, activitytest.Initiator().WithdrawClusterMaintenance, in)
	require.Contains(t, logged, `msg="Deleted maintenance request`)
	require.Contains(t, logged, keys)
}
