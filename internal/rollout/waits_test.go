package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
)

var waitNow = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

func waitsFor(reason string) *drydockv1.Wait {
	return &drydockv1.Wait{Reason: reason, Message: reason, Since: waitNow}
}

// inBatch is a rollout in the second of three batches.
func inBatch(states ...ranv1.ClusterState) *ranv1.ClusterGroupUpgradeStatus {
	status := &ranv1.ClusterGroupUpgradeStatus{RemediationPlan: make([][]string, 3)}
	status.Status.StartedAt, status.Status.CurrentBatchStartedAt, status.Status.CurrentBatch = &waitNow, &waitNow, 2
	for i, state := range states {
		cluster := ranv1.ClusterStatus{Name: string(rune('a' + i)), State: state}
		if state == ranv1.ClusterSoaking {
			cluster.CompletedAt = &waitNow
		}
		status.Clusters = append(status.Clusters, cluster)
	}
	return status
}

func TestARolloutShowsTheWaitWithTheHighestPriority(t *testing.T) {
	hold := &drydockv1.Hold{Scope: drydockv1.HoldAll, Since: waitNow, By: "ann"}
	held := inBatch(ranv1.ClusterRunning)
	held.Held = hold
	planned := &ranv1.ClusterGroupUpgradeStatus{Held: hold}
	paused := inBatch(ranv1.ClusterRunning)
	paused.Paused = true
	ended := inBatch(ranv1.ClusterComplete)
	ended.Status.CompletedAt = &waitNow
	blocked := inBatch(ranv1.ClusterRunning)
	blocked.ComputedMaxFailures = 2
	blocked.Clusters[0].Reason, blocked.Clusters[0].Message, blocked.Clusters[0].Step = "DisruptionBudget", "budget shop/web", "w1: Draining"
	tests := []struct {
		name    string
		waits   rollout.Waits
		status  *ranv1.ClusterGroupUpgradeStatus
		reason  string
		message string
		lead    string
	}{
		{"the clusters of a batch", rollout.Waits{}, inBatch(ranv1.ClusterRunning, ranv1.ClusterPending), ranv1.ReasonBatchInProgress, "batch 2 of 3: clusters running: 1", ""},
		{"the limit of failures", rollout.Waits{}, blocked, ranv1.ReasonBatchInProgress, "batch 2 of 3: clusters running: 1; failed: 0 of at most 2", ""},
		{"nothing when all clusters have ended", rollout.Waits{}, inBatch(ranv1.ClusterComplete, ranv1.ClusterFailed), "", "", ""},
		{"nothing before it starts", rollout.Waits{}, &ranv1.ClusterGroupUpgradeStatus{}, "", "", ""},
		{"clusters that soak", rollout.Waits{}, inBatch(ranv1.ClusterSoaking, ranv1.ClusterPending), ranv1.ReasonSoaking, "batch 2 of 3: clusters that soak before others start: 1", ranv1.ReasonSoaking},
		{"a hold before the batch", rollout.Waits{Health: waitsFor("Health")}, held, emergency.ReasonHeld, "", emergency.ReasonHeld},
		{"no hold before remediation starts", rollout.Waits{Before: waitsFor("NotEnabled")}, planned, "NotEnabled", "NotEnabled", emergency.ReasonHeld},
		{"an approval before a hold", rollout.Waits{Approval: waitsFor(ranv1.ReasonWaitingForApproval)}, held, ranv1.ReasonWaitingForApproval, "", emergency.ReasonHeld},
		{"a pause before an approval", rollout.Waits{Pause: waitsFor("Paused"), Approval: waitsFor("A"), Unknown: waitsFor("U")}, paused, "Paused", "", "Paused"},
		{"an unknown hold before the phases before the batch", rollout.Waits{Unknown: waitsFor("U"), Before: waitsFor("B")}, planned, "U", "", emergency.ReasonHeld},
		{
			"a cancellation before a pause",
			rollout.Waits{Cancellation: rollout.ReasonCancellingTimedOut, Pause: waitsFor("Paused")},
			paused,
			rollout.ReasonCancellingTimedOut, "batch 2 of 3: clusters that return their nodes: 1", "Paused",
		},
		{"the cleanup after a cancellation", rollout.Waits{Cancellation: rollout.ReasonCancelling}, inBatch(ranv1.ClusterCancelled), rollout.ReasonCancelling, "batch 2 of 3: cleaning up", ""},
		{"the person who cancelled a rollout before its first batch", rollout.Waits{Cancellation: rollout.ReasonCancelling, CancelledBy: " by ann"}, &ranv1.ClusterGroupUpgradeStatus{}, rollout.ReasonCancelling, "cancelled by ann; cleaning up", ""},
		{"no cancellation of clusters that soak", rollout.Waits{Cancellation: rollout.ReasonCancelling}, inBatch(ranv1.ClusterSoaking), ranv1.ReasonSoaking, "", ranv1.ReasonSoaking},
		{"a failing activity before all others", rollout.Waits{Retry: waitsFor("NoHub"), Cancellation: "W", Pause: waitsFor("P")}, inBatch(ranv1.ClusterRunning), "NoHub", "", ""},
		{"a failing activity even after the end", rollout.Waits{Retry: waitsFor("NoHub")}, ended, "NoHub", "", ""},
		{"nothing else after the end", rollout.Waits{Approval: waitsFor("A"), Cancellation: "W"}, ended, "", "", ranv1.ReasonWaitingForApproval},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wait, lead := test.waits.Current(rollout.NodeMaintenance, test.status, waitNow)
			require.Equal(t, test.lead, lead)
			if test.reason == "" {
				require.Nil(t, wait)
				return
			}
			require.NotNil(t, wait)
			require.Equal(t, test.reason, wait.Reason)
			if test.message != "" {
				require.Equal(t, test.message, wait.Message)
			}
		})
	}
	wait, _ := rollout.Waits{}.Current(rollout.NodeMaintenance, blocked, waitNow)
	require.Equal(t, []drydockv1.Blocker{{Kind: "ManagedCluster", Name: "a", Reason: "DisruptionBudget", Message: "w1: Draining: budget shop/web"}}, wait.Blockers)
}

func TestAnUnfinishedRolloutAlwaysHasAReason(t *testing.T) {
	states := []ranv1.ClusterState{ranv1.ClusterPending, ranv1.ClusterRunning, ranv1.ClusterSoaking, ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterTimedOut}
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(reason string) *drydockv1.Wait {
			if rapid.Bool().Draw(t, reason) {
				return waitsFor(reason)
			}
			return nil
		}
		waits := rollout.Waits{
			Retry: maybe("Trouble"), Pause: maybe("Pause"), Approval: maybe("Approval"), Unknown: maybe("Unknown"), Before: maybe("Before"), Health: maybe("Health"),
			Cancellation: rapid.SampledFrom([]string{"", rollout.ReasonCancelling, rollout.ReasonCancellingTimedOut}).Draw(t, "cancellation"),
		}
		status := inBatch(rapid.SliceOfN(rapid.SampledFrom(states), 1, 6).Draw(t, "clusters")...)
		wait, _ := waits.Current(rollout.ManagedPolicies, status, waitNow)
		left := false
		for i := range status.Clusters {
			left = left || !status.Clusters[i].State.Over()
		}
		if left {
			require.NotNil(t, wait)
			require.NotEmpty(t, wait.Message)
		}
		if wait != nil && waits.Pause != nil {
			wait.Message = "changed"
			require.Equal(t, "Pause", waits.Pause.Message, "a shown wait is a copy")
		}
	})
}
