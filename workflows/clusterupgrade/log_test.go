package clusterupgrade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/workflowtest"
)

// The log shows what the requests for workload locks led to, and why a node failed.
func TestAClusterCanBeFollowedFromTheLog(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	w.Fail["AwaitClusterLocks"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrLockRefused, "maintenance request drydock-1234 was deleted by another client", nil)
		}
		return nil
	}
	nodes.Outcomes["w0"] = failsWith(maintenancev1.NodeFailed, temporal.ErrDrainTimedOut)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, []string{
		"Cluster enters a step step=Inspecting",
		"Cluster enters a step step=ClusterWorkloadLocks",
		"Workload locks requested answer=Requested",
		"Workload locks not released reason=LockRefused message=maintenance request drydock-1234 was deleted by another client",
		"Cluster has a note note=requesting the workload locks again: maintenance request drydock-1234 was deleted by another client",
		"Wait started reason=LockRefused message=maintenance request drydock-1234 was deleted by another client",
		"Wait ended",
		"Workload locks requested answer=Requested",
		"Workload locks released",
		"Cluster enters a step step=ControlPlaneNodes",
		"Cluster enters a step step=WorkerNodes",
		"Node maintenance started node=w0",
		"Node maintenance ended node=w0 state=Failed reason=DrainTimedOut message=it broke",
		"Cluster failed reason=DrainTimedOut message=node w0: it broke",
		"Cluster enters a step step=CleaningUp",
		"Cleanup step ended step=withdraw the request for c1",
		"Cluster enters a step step=Over",
	}, w.Log.Lines("answer", "step", "node", "state", "reason", "message", "note"))
}
