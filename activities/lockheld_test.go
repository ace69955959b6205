package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestALaterAttemptRequestsNoLocksOfAClusterThatIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	locks := &Locks{Clusters: clusters, Waits: waits}
	ask := ClusterLockInput{Cluster: spokeName, Owner: "cgu/ops/held/" + spokeName + "/first-run"}
	workflow.requireHeld(t, locks.RequestClusterMaintenance, ask, temporal.QueryStatus)
	requests := &lcmv1.ClusterMaintenanceRequestList{}
	require.NoError(t, testCluster(t).Client.List(t.Context(), requests))
	for i := range requests.Items {
		require.NotEqual(t, ask.Owner, kube.Owner(&requests.Items[i]))
	}
}
