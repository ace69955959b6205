package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

func TestTheRolloutOfAWorkflow(t *testing.T) {
	for id, rollout := range map[string]string{
		temporal.ClusterGroupUpgradeID("ops", "june"):                 "ops/june",
		temporal.ClusterUpgradeID("ops", "june", "c1"):                "ops/june",
		temporal.ClusterUpgradeID("ops", "june", "c1") + "/first-run": "ops/june",
		temporal.PreparationID("ops", "june", "precaching", "run", 1): "ops/june",
		temporal.NodeMaintenanceID("c1", "ops", "n1"):                 "",
		temporal.SweeperID("c1"):                                      "",
	} {
		require.Equal(t, rollout, temporal.RolloutOf(id), id)
	}
}
