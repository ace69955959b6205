package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesactivities "drydock.dev/drydock/activities/policies"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// relapsing is a rollout whose canary c1 relapses while c2 runs.
func relapsing(t *testing.T) *workflowtest.PolicyWorld {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.ComplyAfter = func(cluster string, _ int) time.Duration {
		if cluster == "c2" {
			return 10 * time.Minute
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.NonCompliant) }, 15*time.Minute)
	return w
}

// placedOn is how often an item was placed on a cluster.
func placedOn(w *workflowtest.PolicyWorld, cluster string, item int) (times int) {
	placed := false
	for _, in := range w.InputsOf("PlacePolicies") {
		now := false
		for _, desired := range in.(policiesactivities.PlacePoliciesInput).Desired {
			for _, name := range desired.Clusters {
				now = now || name == cluster && desired.Item == item
			}
		}
		if now && !placed {
			times++
		}
		placed = now
	}
	return times
}

func TestARelapsedClusterIsNamedAndRetriedAfterTheLastBatch(t *testing.T) {
	w := relapsing(t)
	var during workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 16*time.Minute)
	w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Canaries = []string{"c1"} })

	named := workflowtest.StatusOfCluster(during, "c1")
	require.Equal(t, rollout.ReasonRelapsed, named.Reason)
	require.Equal(t, "policy network is no longer Compliant, but NonCompliant", named.Message)
	require.Equal(t, &ranv1.PolicyStatus{Name: "network", Status: "NonCompliant"}, named.CurrentPolicy)
	require.Equal(t, []string{"clusters that no longer comply, although they were complete: c1"}, during.Notes)

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Empty(t, workflowtest.StatusOfCluster(status, "c1").Reason)
	require.Equal(t, 2, placedOn(w, "c1", 1), "network is enforced again")
	require.Equal(t, 1, placedOn(w, "c1", 0), "kernel is not")
	w.RequireNothingEnforced()
}

func TestAClusterThatCompliesAgainByItselfIsNotRetried(t *testing.T) {
	w := relapsing(t)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Compliant) }, 17*time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, 1, placedOn(w, "c1", 1))
	require.Equal(t, "complied again when the last batch had ended", workflowtest.StatusOfCluster(status, "c1").Message)
}

func TestARelapseThatIsNotRetriedFailsTheRollout(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*workflowtest.PolicyWorld, *ranv1.ClusterGroupUpgradeSpec)
		reason  string
		state   ranv1.ClusterState
		message string
		times   int
	}{
		{"Abort", func(_ *workflowtest.PolicyWorld, spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
		}, ranv1.ReasonFailed, ranv1.ClusterFailed, "it is not retried because batchTimeoutAction is Abort", 1},
		{"again and again", func(w *workflowtest.PolicyWorld, _ *ranv1.ClusterGroupUpgradeSpec) {
			w.Fail["FindRelapses"] = func(int) error { // it relapses whenever it is complete
				w.Mu.Lock()
				defer w.Mu.Unlock()
				w.Compliance["c1"][1], w.Enforced[1] = byte(policies.NonCompliant), nil
				return nil
			}
		}, ranv1.ReasonFailed, ranv1.ClusterFailed, "relapsed clusters have been retried 3 times", 0},
		{"no time", func(w *workflowtest.PolicyWorld, spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.RemediationStrategy.Timeout = 20
			w.ComplyAfter = func(cluster string, _ int) time.Duration {
				if cluster == "c2" {
					return -1
				}
				return time.Minute
			}
		}, ranv1.ReasonTimedOut, ranv1.ClusterTimedOut, "no time is left to retry it", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := relapsing(t)
			w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) { test.change(w, spec) })
			status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, test.reason)
			relapsed := workflowtest.StatusOfCluster(status, "c1")
			require.Equal(t, test.state, relapsed.State)
			require.Equal(t, rollout.ReasonRelapsed, relapsed.Reason)
			require.Contains(t, relapsed.Message, test.message)
			require.Contains(t, status.Conditions[len(status.Conditions)-1].Message, "complete before, and no longer compliant: c1")
			if test.times > 0 {
				require.Equal(t, test.times, placedOn(w, "c1", 1))
			}
			w.RequireNothingEnforced()
		})
	}
}

func TestAClusterThatNeededNoWorkIsRetriedWhenItRelapses(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Compliance["c2"] = []byte("CC")
	w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c2", Reason: rollout.ReasonAlreadyCompliant}}
	w.RegisterDelayedCallback(func() { w.Comply("c2", 0, policies.NonCompliant) }, time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
	require.Equal(t, 1, placedOn(w, "c2", 0))
}

func TestARelapseIsRetriedInTheNextRun(t *testing.T) {
	w := relapsing(t)
	w.Plan.StartPolicyIndex["c1"] = 1
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 16*time.Minute)
	w.Run()
	in := workflowtest.NextRunInput[rolloutworkflow.Input](w.World)
	require.NotNil(t, in)
	again := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	again.Compliance, again.Enforced = w.Compliance, w.Enforced
	again.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
	status := workflowtest.RequireResult[workflowtest.GroupStatus](again.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Equal(t, 1, placedOn(again, "c1", 1))
}

func TestARelapseIsRetriedWhileTheRolloutWaitsForOfflineClusters(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.GoOffline("c2")
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.NonCompliant) }, 15*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
		require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(status, "c1").State)
		require.Equal(t, ranv1.ReasonClustersOffline, status.Wait.Reason)
		require.Equal(t, 2, placedOn(w, "c1", 1), "network is enforced again")
		w.ComeBack("c2")
	}, 30*time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Equal(t, [][]string{{"c1"}, {"c2"}}, status.RemediationPlan)
	w.RequireNothingEnforced()
}

func TestAFailingLookAtCompleteClustersIsNoted(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Fail["FindRelapses"] = func(int) error {
		return temporal.Error(temporal.ErrForbidden, "may not list policies", errors.New("403"))
	}
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Contains(t, status.Notes[0], "could not look at complete clusters again: ")
}

// catchingUp is a rollout whose c1 is complete, and whose c2 is offline.
func catchingUp(t *testing.T) *workflowtest.PolicyWorld {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.GoOffline("c2")
	return w
}

func TestARelapseBeforeAContinueAsNewIsRetriedWhileClustersAreOffline(t *testing.T) {
	w := catchingUp(t)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.ComeBack("c2") }, 11*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.NonCompliant) }, 12*time.Minute)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 13*time.Minute)
	w.Run()
	in := workflowtest.NextRunInput[rolloutworkflow.Input](w.World)
	require.NotNil(t, in)

	again := catchingUp(t)
	again.Compliance, again.Enforced = w.Compliance, w.Enforced
	again.RegisterDelayedCallback(func() { again.SignalWorkflow(temporal.SignalResume, nil) }, time.Minute)
	again.RegisterDelayedCallback(func() {
		require.Equal(t, 1, placedOn(again, "c1", 1), "network is enforced again")
		again.ComeBack("c2")
	}, 10*time.Minute)
	again.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
	status := workflowtest.RequireResult[workflowtest.GroupStatus](again.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
}

func TestARelapseInTheTimeToCatchUpDoesNotEndTheCatchUpBatch(t *testing.T) {
	w := catchingUp(t)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.NonCompliant) }, 70*time.Minute)
	w.RegisterDelayedCallback(func() {
		relapsed := workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1")
		require.Equal(t, rollout.ReasonRelapsed, relapsed.Reason)
		require.Equal(t, ranv1.ClusterComplete, relapsed.State, "it may comply again until the end")
		w.Comply("c1", 1, policies.Compliant)
		w.ComeBack("c2")
	}, 80*time.Minute)
	w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.RemediationStrategy.Timeout, spec.RemediationStrategy.CatchUp = 60, 60
	})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
}
