package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
)

// blockedBatch is a rollout in its second batch: cluster a waits for a budget, b can never be drained, c only evicts.
func blockedBatch() *ranv1.ClusterGroupUpgradeStatus {
	status := inBatch(ranv1.ClusterRunning, ranv1.ClusterRunning, ranv1.ClusterRunning)
	for i, reason := range []string{"DisruptionBudget", "DisruptionBudgetNever", "Evicting"} {
		c := &status.Clusters[i]
		c.Step, c.Reason, c.Message, c.Since = "w1: Draining", reason, "1 pod blocked by PodDisruptionBudget shop/"+c.Name+" (0 of 3)", &waitNow
	}
	status.Clusters[1].Until = new(metav1.NewTime(waitNow.Add(5 * time.Minute)))
	status.Status.CurrentBatchDeadline = new(metav1.NewTime(waitNow.Add(time.Hour)))
	end := metav1.NewTime(waitNow.Add(time.Minute))
	status.Status.Estimate = &ranv1.Estimate{Earliest: end, End: end, Latest: end}
	status.Wait = &drydockv1.Wait{Reason: ranv1.ReasonBatchInProgress, Message: "batch 2 of 3: clusters running: 3", Until: status.Status.CurrentBatchDeadline}
	return status
}

func TestTheDeepestBlockingReasonIsThatOfTheRollout(t *testing.T) {
	status := blockedBatch()
	wait := rollout.DeepestWait(status)
	require.Equal(t, "DisruptionBudgetNever", wait.Reason)
	require.Equal(t, "batch 2 of 3: b: w1: Draining: 1 pod blocked by PodDisruptionBudget shop/b (0 of 3); blocked clusters: 2", wait.Message)
	require.Equal(t, waitNow, wait.Since)
	require.Equal(t, status.Clusters[1].Until, wait.Until)
	require.Equal(t, ranv1.ReasonBatchInProgress, status.Wait.Reason, "the status itself stays")

	status.Clusters[0].Reason, status.Clusters[1].State = "Evicting", ranv1.ClusterFailed
	require.Equal(t, status.Wait, rollout.DeepestWait(status), "no running cluster is blocked")
	status.Wait = waitsFor("Paused")
	require.Equal(t, "Paused", rollout.DeepestWait(status).Reason)
}

func TestABlockedOrOutdatedRolloutHasABoundInsteadOfAnEstimate(t *testing.T) {
	status, later := blockedBatch(), waitNow.Add(30*time.Second)
	require.Equal(t, rollout.Expectation{
		Unknown: "b is blocked: 1 pod blocked by PodDisruptionBudget shop/b", Bound: "this step gives up", BoundAt: status.Clusters[1].Until,
	}, rollout.ExpectationOf(status, later))

	status.Clusters[1].Reason = ""
	require.NotNil(t, rollout.ExpectationOf(status, waitNow.Time).Estimate, "most waits for a budget are short")
	require.Equal(t, "a is blocked: 1 pod blocked by PodDisruptionBudget shop/a", rollout.ExpectationOf(status, later).Unknown)

	for message, unknown := range map[string]string{
		"acquire w1: cluster a: its API server forbids the request: grant the role": "a is blocked: acquire w1",
		"cluster a: its API server does not answer: connection refused":             "a is blocked: its API server does not answer",
	} {
		status.Clusters[0].Message = message
		require.Equal(t, unknown, rollout.ExpectationOf(status, later).Unknown, "the wait says the rest")
	}
	status.Clusters[0].Reason = ""
	require.Equal(t, rollout.Expectation{Estimate: status.Status.Estimate, Bound: "the batch times out", BoundAt: status.Status.CurrentBatchDeadline}, rollout.ExpectationOf(status, later))
	require.Equal(t, rollout.Expectation{Unknown: "it takes longer than expected", Bound: "the batch times out", BoundAt: status.Status.CurrentBatchDeadline},
		rollout.ExpectationOf(status, waitNow.Add(2*time.Minute)), "an estimate is never in the past")
	require.Equal(t, rollout.Expectation{Unknown: "it takes longer than expected"}, rollout.ExpectationOf(status, waitNow.Add(2*time.Hour)), "nor is a bound")

	status.Wait = waitsFor(ranv1.ReasonWaitingForApproval)
	require.Equal(t, "the rollout waits for an approval", rollout.ExpectationOf(status, later).Unknown)
	status.Paused = true
	require.Empty(t, rollout.ExpectationOf(status, later))
}

func TestTheSearchAttributesTellTheStateOfARollout(t *testing.T) {
	for _, c := range []struct {
		phase, reason string
		paused        bool
		state         string
	}{
		{"", "", false, ""},
		{ranv1.ReasonNotEnabled, ranv1.ReasonNotEnabled, false, "Not enabled"},
		{ranv1.ReasonInProgress, ranv1.ReasonBatchInProgress, false, rollout.StateRunning},
		{ranv1.ReasonInProgress, ranv1.ReasonBatchInProgress, true, rollout.StatePaused},
		{ranv1.ReasonInProgress, ranv1.ReasonWaitingForApproval, false, rollout.StateWaitingForApproval},
		{ranv1.ReasonInProgress, "DisruptionBudgetNever", false, rollout.StateBlocked},
		{ranv1.ReasonInProgress, emergency.ReasonHeld, false, rollout.StateHeld},
		{ranv1.ReasonInProgress, emergency.ReasonWaitingForWindow, false, rollout.StateWaitingForWindow},
	} {
		require.Equal(t, c.state, rollout.VisibleState(c.phase, c.reason, c.paused), "%+v", c)
	}
}

func TestTheStateOfARolloutIsInPlainWords(t *testing.T) {
	later := waitNow.Add(time.Minute)
	for state, change := range map[string]func(*ranv1.ClusterGroupUpgradeStatus){
		rollout.StateBlocked:            func(*ranv1.ClusterGroupUpgradeStatus) {},
		rollout.StateRunning:            func(s *ranv1.ClusterGroupUpgradeStatus) { s.Clusters = nil },
		rollout.StatePaused:             func(s *ranv1.ClusterGroupUpgradeStatus) { s.Paused = true },
		rollout.StateHeld:               func(s *ranv1.ClusterGroupUpgradeStatus) { s.Held = &drydockv1.Hold{} },
		rollout.StateWaitingForWindow:   func(s *ranv1.ClusterGroupUpgradeStatus) { s.Held = &drydockv1.Hold{Window: "ops/night"} },
		rollout.StateWaitingForApproval: func(s *ranv1.ClusterGroupUpgradeStatus) { s.Wait = waitsFor(ranv1.ReasonWaitingForApproval) },
		rollout.StateCancelling:         func(s *ranv1.ClusterGroupUpgradeStatus) { s.Wait = waitsFor(rollout.ReasonCancelling) },
		"Timed out":                     func(s *ranv1.ClusterGroupUpgradeStatus) { s.Status.CompletedAt = &waitNow },
	} {
		status := blockedBatch()
		change(status)
		require.Equal(t, state, rollout.State(status, ranv1.ReasonTimedOut, later))
	}
	brief := blockedBatch()
	brief.Clusters[1].Reason = "Evicting"
	require.Equal(t, rollout.StateRunning, rollout.State(brief, ranv1.ReasonInProgress, waitNow.Time), "not yet blocked for long")
	require.Equal(t, rollout.StateBlocked, rollout.State(brief, ranv1.ReasonInProgress, later))
	require.Equal(t, rollout.StateRunning, rollout.State(brief, ranv1.ReasonInProgress, time.Time{}))
}

func TestAResumedRolloutShowsNoPausedClusters(t *testing.T) {
	paused := ranv1.ClusterStatus{Name: "a", State: ranv1.ClusterRunning, Step: "worker-1: Draining", Reason: rollout.ReasonPaused, Message: "paused", Since: &metav1.Time{}}
	blocked := ranv1.ClusterStatus{Name: "b", State: ranv1.ClusterRunning, Reason: "DisruptionBudget"}
	clusters := []ranv1.ClusterStatus{paused, blocked}
	require.Equal(t, clusters, rollout.Resumed(clusters, true))
	require.Equal(t, []ranv1.ClusterStatus{{Name: "a", State: ranv1.ClusterRunning, Step: "worker-1: Draining"}, blocked}, rollout.Resumed(clusters, false))
	require.Equal(t, rollout.ReasonPaused, clusters[0].Reason, "the status itself stays")
}

func TestAWaitBlocksUntilAPersonActs(t *testing.T) {
	wait := func(reason string) *drydockv1.Wait { return &drydockv1.Wait{Reason: reason, Since: waitNow} }
	require.True(t, rollout.Blocks(wait("DisruptionBudgetNever"), waitNow.Time))
	require.False(t, rollout.Blocks(wait("DisruptionBudget"), waitNow.Add(time.Second)), "it is brief")
	require.True(t, rollout.Blocks(wait("DisruptionBudget"), waitNow.Add(time.Minute)))
	require.False(t, rollout.Blocks(wait("Soaking"), waitNow.Add(time.Hour)))
	require.False(t, rollout.Blocks(nil, waitNow.Time))
	require.Equal(t, "Disruption budget allows none", rollout.Words("DisruptionBudgetNever"))
}
