package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
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

// TestABackupIsRestoredOnPostgreSQL: the rollout of the backup has completed since. Nothing of it is repeated, and a cancel ends it.
func TestABackupIsRestoredOnPostgreSQL(t *testing.T) {
	if !devstacktest.OnPostgreSQL() {
		t.Skip("make e2e-postgres runs it")
	}
	spoke, backup := theFleet.Cluster("spoke-3"), t.TempDir()
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	startRollout(t, rollout("backed-up", "", 60, spoke.Name))
	awaitEviction(t, spoke, slowPod)
	require.NoError(t, theFleet.Temporal.BackUp(t.Context(), backup))
	releasePods(t, spoke, slowPod)
	succeeds(t, "upgrade", "status", "backed-up", "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	before := len(actionsOf(t, spoke))

	require.NoError(t, theFleet.Worker.Kill())
	services := theFleet.Temporal.Behind[:len(theFleet.Temporal.Behind)-1] // the last one is PostgreSQL
	for _, service := range append(slices.Clone(services), theFleet.Temporal.Process) {
		require.NoError(t, service.Stop())
	}
	require.NoError(t, theFleet.Temporal.Restore(t.Context(), backup))
	for _, service := range append([]*devstack.Process{theFleet.Temporal.Process}, services...) {
		require.NoError(t, service.Start(t.Context()))
	}
	require.Regexp(t, `every cluster is held: \d+ workflows are notified`, succeeds(t, "hold", "--all", "--restored", "--reason", "back from tape"))
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	awaitStatus(t, "backed-up", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Held != nil && clusterAt(s, 0).Reason == reasonHeld
	})
	succeeds(t, "upgrade", "cancel", "backed-up")
	require.Equal(t, 1, drydock(t, "upgrade", "status", "backed-up", "--watch", "--exit-status").code)
	succeeds(t, "release", "--all")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))

	since := actionsOf(t, spoke)[before:]
	require.Empty(t, fleet.Cordoned(since))
	require.Zero(t, fleet.Count(nil, since)[fleet.ActionJob])
	require.False(t, node(t, spoke, "worker-1").Spec.Unschedulable)
}
