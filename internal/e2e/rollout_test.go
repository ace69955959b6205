package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
)

// The example of the documentation runs on all spokes: a canary, then batches of two.
func TestAFleetIsMaintainedCanaryFirstAndFullyRestored(t *testing.T) {
	reserve(t, "spoke-1", "spoke-2", "spoke-3", "spoke-4", "spoke-5", "spoke-6")
	before := map[string]int{}
	for _, spoke := range theFleet.Spokes {
		before[spoke.Name] = len(actionsOf(t, spoke))
	}
	succeeds(t, "upgrade", "start", "-f", filepath.Join("..", "..", "docs", "examples", "node-maintenance-rollout.yaml"))
	status, code := awaitEnd(t, "june-maintenance")

	require.Zero(t, code)
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded))
	require.Equal(t, status, savedStatus(t, "june-maintenance"), "the status is saved on the hub")
	require.Equal(t, [][]string{{"spoke-1"}, {"spoke-2", "spoke-3"}, {"spoke-4", "spoke-5"}, {"spoke-6"}}, status.RemediationPlan)
	var canaryDone time.Time
	for _, spoke := range theFleet.Spokes {
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
		actions := actionsOf(t, spoke)[before[spoke.Name]:]
		requireEveryNodeMaintainedInOrder(t, actions)
		first, last := actions[indexOf(actions, fleet.ActionRequestCluster)].At, actions[indexOf(actions, fleet.ActionWithdrawCluster)].At
		if spoke.Name == "spoke-1" {
			canaryDone = last
			continue
		}
		require.True(t, first.After(canaryDone), "%s started before the canary was done", spoke.Name)
	}
}

// requireEveryNodeMaintainedInOrder requires that the audit log of a spoke follows the runbook.
func requireEveryNodeMaintainedInOrder(t *testing.T, actions []fleet.Action) {
	t.Helper()
	nodes := fleet.Cordoned(actions)
	require.Equal(t, "control-plane-1", nodes[0], "the control plane goes first")
	require.Len(t, nodes, workers+1)
	out := ""
	for _, action := range actions {
		switch action.What {
		case fleet.ActionCordon:
			require.Empty(t, out, "%s is cordoned while %s is out of service", action.Object, out)
			out = action.Object
		case fleet.ActionUncordon:
			require.Equal(t, out, action.Object)
			out = ""
		case fleet.ActionEviction, fleet.ActionJob:
			require.NotEmpty(t, out, "%s of %s while no node is out of service", action.What, action.Object)
		}
	}
	require.Empty(t, out)
	// The vRouter holds a lock on every worker, and none on the control plane.
	runbook := []string{fleet.ActionRequestNode, fleet.ActionLockInactive, fleet.ActionCordon, fleet.ActionJob, fleet.ActionUncordon, fleet.ActionWithdrawNode, fleet.ActionLockActive}
	for _, node := range nodes[1:] {
		at := 0
		for _, step := range runbook {
			i := slices.IndexFunc(actions[at:], func(d fleet.Action) bool { return d.What == step })
			require.GreaterOrEqual(t, i, 0, "no %s for %s after %d", step, node, at)
			at += i
		}
	}
	requireNoPodEvictedTwice(t, actions)
}

func TestAPlannedRolloutChangesNothingUntilEnabled(t *testing.T) {
	reserve(t, "spoke-1")
	spoke := theFleet.Cluster("spoke-1")
	before := len(initiatorActions(t, spoke))
	startRollout(t, rollout("planned", "enable: false", 60, "spoke-1"))
	succeeds(t, "upgrade", "list")
	planned := awaitPhase(t, "planned", ranv1.ReasonNotEnabled)
	require.Equal(t, [][]string{{"spoke-1"}}, planned.RemediationPlan)
	require.Len(t, initiatorActions(t, spoke), before)

	succeeds(t, "upgrade", "enable", "planned")
	status, code := awaitEnd(t, "planned")
	require.Zero(t, code)
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded))
	require.Len(t, fleet.Cordoned(initiatorActions(t, spoke)[before:]), workers+1)
}

func TestCancelDuringADrainReturnsTheNodeAndStartsNoOther(t *testing.T) {
	reserve(t, "spoke-2")
	spoke := theFleet.Cluster("spoke-2")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	before := len(actionsOf(t, spoke))
	startRollout(t, rollout("cancelled", "", 60, "spoke-2"))
	awaitEviction(t, spoke, slowPod)

	succeeds(t, "upgrade", "cancel", "cancelled", "--reason", "not today")
	status, code := awaitEnd(t, "cancelled")
	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonCancelled)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	require.NotContains(t, fleet.Cordoned(actionsOf(t, spoke)[before:]), "worker-2", "nothing starts after the cancel")
}

func TestADrainReportsABlockingBudgetAndResumes(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	release := deployBlocked(t, spoke)
	startRollout(t, rollout("blocked", "", 60, "spoke-3"))

	awaitStatus(t, "blocked", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		// The budget of other pods may block for a moment, too.
		return clusterAt(s, 0).Reason == "DisruptionBudget" && strings.Contains(clusterAt(s, 0).Message, "shop/guarded")
	})
	release()
	status, code := awaitEnd(t, "blocked")
	require.Zero(t, code)
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded))
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

func TestAFailedJobOnACanaryReturnsItsNodeAndEndsTheRollout(t *testing.T) {
	reserve(t, "spoke-4")
	canary, next := theFleet.Cluster("spoke-4"), theFleet.Cluster("spoke-3")
	before := len(actionsOf(t, canary))
	startRollout(t, withCanary(rolloutWithJob("broken", "1", canary.Name, next.Name), canary.Name))
	status, code := awaitEnd(t, "broken")

	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterFailed, status.Clusters[0].State)
	require.Equal(t, "JobFailed", status.Clusters[0].Reason)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), canary))
	require.Equal(t, []string{"control-plane-1"}, fleet.Cordoned(actionsOf(t, canary)[before:]), "no other node is touched")
	require.False(t, slices.ContainsFunc(actionsOf(t, next), func(d fleet.Action) bool {
		return d.What == fleet.ActionJob && strings.Contains(d.Object, "broken")
	}), "no other cluster is touched")
}

func TestAClusterWithoutItsOwnWorkerReportsThat(t *testing.T) {
	reserve(t)
	const cluster = "remote-1"
	register(t, cluster, map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	startRollout(t, rollout("no-worker", "", 60, cluster))

	waiting := awaitStatus(t, "no-worker", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterAt(s, 0).Reason == "NoWorker" })
	require.Contains(t, waiting.Clusters[0].Message, "serves task queue drydock."+cluster)
	succeeds(t, "upgrade", "cancel", "no-worker")
	status, _ := awaitEnd(t, "no-worker")
	requireSucceededFalse(t, status, ranv1.ReasonCancelled)
}

func TestABatchTimesOut(t *testing.T) {
	shared(t)
	t.Run("with Continue the next batch follows", func(t *testing.T) {
		reserve(t, "spoke-5", "spoke-6")
		late, next := theFleet.Cluster("spoke-5"), theFleet.Cluster("spoke-6")
		deploySlowPod(t, late, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
		before := len(actionsOf(t, next))
		withTimeout := func(minutes int) string {
			return rollout("continued", "batchTimeoutAction: Continue", minutes, late.Name, next.Name)
		}
		startRollout(t, withTimeout(4))
		awaitStatus(t, "continued", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterAt(s, 0).State == ranv1.ClusterTimedOut })
		editRollout(t, withTimeout(60)) // spoke-6 has enough time
		status, code := awaitEnd(t, "continued")
		require.Equal(t, 1, code)
		requireSucceededFalse(t, status, ranv1.ReasonTimedOut)
		require.Contains(t, conditionMessage(status, ranv1.ConditionProgressing), "False TimedOut: ")
		require.Equal(t, ranv1.ClusterTimedOut, status.Clusters[0].State)
		require.Equal(t, ranv1.ClusterComplete, status.Clusters[1].State)
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), late))
		require.Len(t, fleet.Cordoned(actionsOf(t, next)[before:]), workers+1)
	})
	t.Run("with Abort the rollout ends", func(t *testing.T) {
		reserve(t, "spoke-1", "spoke-2")
		late, next := theFleet.Cluster("spoke-1"), theFleet.Cluster("spoke-2")
		deploySlowPod(t, late, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
		before := len(actionsOf(t, next))
		startRollout(t, rollout("aborted", "batchTimeoutAction: Abort", 1, late.Name, next.Name))
		status, code := awaitEnd(t, "aborted")
		require.Equal(t, 1, code)
		requireSucceededFalse(t, status, ranv1.ReasonTimedOut)
		require.Equal(t, ranv1.ClusterPending, status.Clusters[1].State)
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), late))
		require.Len(t, actionsOf(t, next), before)
	})
	t.Run("a canary batch ends the rollout", func(t *testing.T) {
		reserve(t, "spoke-3", "spoke-4")
		late, next := theFleet.Cluster("spoke-3"), theFleet.Cluster("spoke-4")
		deploySlowPod(t, late, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
		before := len(actionsOf(t, next))
		startRollout(t, withCanary(rollout("stuck-canary", "batchTimeoutAction: Continue", 1, late.Name, next.Name), late.Name))
		status, code := awaitEnd(t, "stuck-canary")
		require.Equal(t, 1, code)
		requireSucceededFalse(t, status, ranv1.ReasonTimedOut)
		require.Equal(t, ranv1.ClusterTimedOut, status.Clusters[0].State)
		require.Equal(t, ranv1.ClusterPending, status.Clusters[1].State)
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), late))
		require.Len(t, actionsOf(t, next), before)
	})
}

func requireSucceededFalse(t *testing.T, status ranv1.ClusterGroupUpgradeStatus, reason string) {
	t.Helper()
	condition := meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded)
	require.NotNil(t, condition)
	require.Equal(t, metav1.ConditionFalse, condition.Status)
	require.Equal(t, reason, condition.Reason, condition.Message)
}
