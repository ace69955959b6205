package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestTheDetailsListClustersThatAreNotSummarizedByCounts(t *testing.T) {
	status := &ranv1.ClusterGroupUpgradeStatus{Clusters: []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterComplete}, {Name: "c2", Batch: 2, State: ranv1.ClusterPending}}}
	require.NotContains(t, groupDetails(status), "| cluster |", "a table without rows")
	status.Clusters[1].State, status.Clusters[1].Step = ranv1.ClusterRunning, "Nodes"
	require.Contains(t, groupDetails(status), `| cluster | batch | state | step | reason |
|---|---|---|---|---|
| c2 | 2 | running | Nodes |  |
`)
	require.NotContains(t, groupDetails(status), "| c1 |")
}

func TestTheDetailsOfARolloutWithoutClustersShowNoPercentage(t *testing.T) {
	details := groupDetails(&ranv1.ClusterGroupUpgradeStatus{Percentage: rollout.Percentage(nil), Wait: &drydockv1.Wait{Reason: "MissingBlockingCR", Message: "waiting for default/first"}})
	require.Contains(t, details, "waiting for default/first")
	require.NotContains(t, details, "100")
}
