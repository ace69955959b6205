package e2e

import (
	"testing"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// TestTheCoreOnPostgreSQL repeats tests with Temporal as it runs in production. Those that kill something are in internal/chaos.
func TestTheCoreOnPostgreSQL(t *testing.T) {
	if !devstacktest.OnPostgreSQL() {
		t.Skip("make e2e-postgres runs it")
	}
	t.Run("the demo", TestAFleetIsMaintainedCanaryFirstAndFullyRestored)
	t.Run("a rollout is planned, then enabled", TestAPlannedRolloutChangesNothingUntilEnabled)
	t.Run("a rollout is cancelled", TestCancelDuringADrainReturnsTheNodeAndStartsNoOther)
	t.Run("a drain is blocked", TestADrainReportsABlockingBudgetAndResumes)
	t.Run("a rollout is an object", TestAnAppliedClusterGroupUpgradeIsPlannedEnabledAndDeleted)
}
