package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	locksactivities "drydock.dev/drydock/activities/locks"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestARetryRequestsNoLocksOfAHeldCluster(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	locks := &locksactivities.Activities{Clusters: activitytest.Clusters, Waits: waits}
	ask := locksactivities.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: "cgu/ops/held/" + activitytest.SpokeName + "/first-run"}
	workflow.RequireHeld(t, locks.RequestClusterMaintenance, ask, temporal.QueryStatus)
	requests := &lcmv1.ClusterMaintenanceRequestList{}
	require.NoError(t, activitytest.TestCluster(t).Client.List(t.Context(), requests))
	for i := range requests.Items {
		require.NotEqual(t, ask.Owner, kube.Owner(&requests.Items[i]))
	}
}
