package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestTheDetailsListClustersThatAreNotSummarizedByCounts(t *testing.T) {
	status := &ranv1.ClusterGroupUpgradeStatus{Clusters: []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterComplete}, {Name: "c2", Batch: 2, State: ranv1.ClusterPending}}}
	require.NotContains(t, groupDetails("fleet/june", status), "| cluster |", "a table without rows")
	status.Clusters[1].State, status.Clusters[1].Step = ranv1.ClusterRunning, "Nodes"
	require.Contains(t, groupDetails("fleet/june", status), `| cluster | batch | state | step | reason |
|---|---|---|---|---|
| c2 | 2 | running | Nodes |  |
`)
	require.NotContains(t, groupDetails("fleet/june", status), "| c1 |")
}

func TestTheDetailsOfARolloutWithoutClustersShowNoPercentage(t *testing.T) {
	details := groupDetails("fleet/june", &ranv1.ClusterGroupUpgradeStatus{Percentage: rollout.Percentage(nil), Wait: &drydockv1.Wait{Reason: "MissingBlockingCR", Message: "waiting for default/first"}})
	require.Contains(t, details, "waiting for default/first")
	require.NotContains(t, details, "100")
}

func TestTheDetailsHaveTheCommandThatEndsAWait(t *testing.T) {
	ended := metav1.Now()
	tests := []struct {
		name, command string
		status        ranv1.ClusterGroupUpgradeStatus
	}{
		{"planned", "drydock upgrade enable fleet/june", ranv1.ClusterGroupUpgradeStatus{Wait: &drydockv1.Wait{Reason: ranv1.ReasonNotEnabled}}},
		{"waiting for an approval", "drydock upgrade approve fleet/june", ranv1.ClusterGroupUpgradeStatus{Wait: &drydockv1.Wait{Reason: ranv1.ReasonWaitingForApproval}}},
		{"paused", "drydock upgrade resume fleet/june", ranv1.ClusterGroupUpgradeStatus{Wait: &drydockv1.Wait{Reason: "Paused"}}},
		{"failed", "drydock upgrade retry fleet/june", ranv1.ClusterGroupUpgradeStatus{Status: ranv1.RunStatus{CompletedAt: &ended}, Counts: ranv1.ClusterCounts{Failed: 1}}},
		{"running", "", ranv1.ClusterGroupUpgradeStatus{Wait: &drydockv1.Wait{Reason: ranv1.ReasonBatchInProgress}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			details := groupDetails("fleet/june", &test.status)
			if test.command == "" {
				require.NotContains(t, details, "to do")
				return
			}
			require.Contains(t, details, "| **to do** | `"+test.command+"` |\n")
		})
	}
}
