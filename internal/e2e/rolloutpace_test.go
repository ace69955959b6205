package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

// withStrategy adds to the strategy of a rollout.
func withStrategy(manifest, more string) string {
	return strings.Replace(manifest, "remediationStrategy: {maxConcurrency: 1, ", "remediationStrategy: {"+more+", ", 1)
}

func requireSucceeded(t *testing.T, status ranv1.ClusterGroupUpgradeStatus) {
	t.Helper()
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded), "%+v", status.Conditions)
}

func TestARollingRolloutDoesNotWaitForASlowCluster(t *testing.T) {
	reserve(t, "spoke-1", "spoke-2", "spoke-3", "spoke-4")
	slow := theFleet.Cluster("spoke-1")
	slowPod := deploySlowPod(t, slow, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	startRollout(t, withStrategy(rollout("rolling", "", 60, "spoke-1", "spoke-2", "spoke-3", "spoke-4"), "maxConcurrency: 2, rollout: Rolling"))
	var status ranv1.ClusterGroupUpgradeStatus
	for complete := range int32(3) { // one after the other
		status = awaitStatus(t, "rolling", func(s ranv1.ClusterGroupUpgradeStatus) bool { return s.Counts.Complete > complete })
	}
	require.Equal(t, [][]string{{"spoke-1", "spoke-2"}, {"spoke-3", "spoke-4"}}, status.RemediationPlan)
	require.Equal(t, int32(1), status.Counts.Running, "spoke-1 is running all the time")
	require.Equal(t, int32(1), status.Status.CurrentBatch)

	endSlowTermination(t, slow, slowPod)
	status, code := awaitEnd(t, "rolling")
	require.Zero(t, code)
	requireSucceeded(t, status)
	// One other cluster may run at the same time as spoke-1.
	others := slices.Clone(status.Clusters[1:])
	for i, cluster := range others[1:] {
		require.False(t, cluster.StartedAt.Before(others[i].CompletedAt), "%s started while %s was running", cluster.Name, others[i].Name)
	}
}

func TestARetryRepeatsOnlyTheClustersThatTimedOut(t *testing.T) {
	reserve(t, "spoke-5", "spoke-6")
	late, done := theFleet.Cluster("spoke-5"), theFleet.Cluster("spoke-6")
	slowPod := deploySlowPod(t, late, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	withTimeout := func(minutes int) string {
		return rollout("retried", "batchTimeoutAction: Continue", minutes, "spoke-6", "spoke-5")
	}
	startRollout(t, withTimeout(60))
	awaitStatus(t, "retried", func(s ranv1.ClusterGroupUpgradeStatus) bool { return s.Counts.Complete == 1 && s.Counts.Running == 1 })
	shortenTimeout(t, withTimeout)
	ended, code := awaitEnd(t, "retried")
	require.Equal(t, 1, code)
	requireSucceededFalse(t, ended, ranv1.ReasonTimedOut)
	endSlowTermination(t, late, slowPod)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), late))
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), done))
	before, untouched := len(actionsOf(t, late)), len(actionsOf(t, done))

	succeeds(t, "upgrade", "retry", "retried", "--reason", "the pod is gone")
	editRollout(t, withTimeout(60))
	status, code := awaitEnd(t, "retried")
	require.Zero(t, code)
	requireSucceeded(t, status)
	require.Equal(t, ended.RemediationPlan, status.RemediationPlan)
	require.Len(t, fleet.Cordoned(actionsOf(t, late)[before:]), workers+1)
	require.Empty(t, fleet.Cordoned(actionsOf(t, done)[untouched:]), "a retry does not touch complete clusters")
	require.Equal(t, status, savedStatus(t, "retried"))
}

func TestABlockedRolloutStartsWhenItsBlockerSucceeds(t *testing.T) {
	reserve(t, "spoke-2", "spoke-3")
	startRollout(t, rollout("second", "blockingCRs: [{name: first, namespace: default}]", 60, "spoke-2"))
	blocked := awaitPhase(t, "second", ranv1.ReasonMissingBlockingCR)
	require.Equal(t, "Missing blocking CRs: [first]; waiting for default/first", meta.FindStatusCondition(blocked.Conditions, ranv1.ConditionProgressing).Message)
	require.Nil(t, blocked.Status.StartedAt)

	startRollout(t, rollout("first", "", 60, "spoke-3"))
	blocked = awaitPhase(t, "second", ranv1.ReasonIncompleteBlockingCR)
	require.Contains(t, meta.FindStatusCondition(blocked.Conditions, ranv1.ConditionProgressing).Message, "Blocking CRs that are not completed: [first]")
	first, code := awaitEnd(t, "first")
	require.Zero(t, code)
	second, code := awaitEnd(t, "second")
	require.Zero(t, code)
	requireSucceeded(t, second)
	require.False(t, second.Status.StartedAt.Before(first.Status.CompletedAt))
	requireNoTimerBefore(t, temporal.ClusterGroupUpgradeID("default", "second"), second.Status.StartedAt.Time)
}

// requireNoTimerBefore requires that until then only events made the workflow continue, without polling.
func requireNoTimerBefore(t *testing.T, workflowID string, then time.Time) {
	t.Helper()
	runs, err := history.Read(t.Context(), temporalClient(t), workflowID)
	require.NoError(t, err)
	for _, event := range runs[0].Events {
		if event.GetEventTime().AsTime().Before(then) {
			require.NotEqual(t, enumspb.EVENT_TYPE_TIMER_FIRED, event.GetEventType())
		}
	}
}

func TestARolloutThatWouldWaitForItselfDoesNotStart(t *testing.T) {
	reserve(t, "spoke-2", "spoke-3")
	startRollout(t, rollout("cycle-1", "blockingCRs: [{name: cycle-2, namespace: default}]", 60, "spoke-2"))
	awaitPhase(t, "cycle-1", ranv1.ReasonMissingBlockingCR)
	circular := rollout("cycle-2", "blockingCRs: [{name: cycle-1, namespace: default}]", 60, "spoke-3")
	refused := drydock(t, "upgrade", "start", "-f", rolloutFile(t, circular))
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "rollout default/cycle-2 was not started: ")
	startUnchecked(t, circular)
	second := awaitPhase(t, "cycle-2", ranv1.ReasonInvalidPlan)
	require.Contains(t, meta.FindStatusCondition(second.Conditions, ranv1.ConditionValidated).Message, "default/cycle-2 -> default/cycle-1 -> default/cycle-2")
	require.Contains(t, succeeds(t, "upgrade", "status", "cycle-1"), "Missing blocking CRs: [cycle-2]", "an invalid plan leaves no status on the hub")
	succeeds(t, "upgrade", "cancel", "cycle-2")
	succeeds(t, "upgrade", "cancel", "cycle-1")
	_, code := awaitEnd(t, "cycle-1")
	require.Equal(t, 1, code)
}
