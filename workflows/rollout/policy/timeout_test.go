package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A timed-out cluster that complied later counts as complete, however the batches end.
func TestALateCompliantClusterIsCompleteInARolloutThatStopsEarly(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration { return -1 }
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 21*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Compliant) }, 21*time.Minute)
	w.Plan.ComputedMaxFailures = 2
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonAborted)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "timedout", "c3": "pending"}, workflowtest.ClusterStates(status))
}

func TestATimedOutClusterIsCleanedUpBeforeTheNextBatch(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c2" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "timedout", "c3": "complete"}, workflowtest.ClusterStates(status))
	late := status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == "c2" })]
	require.Equal(t, &ranv1.PolicyStatus{Name: "network", Status: "NonCompliant"}, late.CurrentPolicy)
	require.Contains(t, late.Message, "policy network: NonCompliant")
	require.Equal(t, 2, w.MostEnforced, "the next batch starts after its cleanup")
	w.RequireNothingEnforced()
}

func TestALateCompliantClusterIsCompleteAtTheEnd(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c1" {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 31*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Compliant) }, 31*time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, workflowtest.ClusterStates(status))
}

func TestATimedOutClusterUnboundFromItsPolicyIsNotComplete(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c1" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Unbound) }, 31*time.Minute)
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, workflowtest.ClusterStates(status))

	next, err := rollout.Retry(status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	again := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	again.Compliance["c1"] = []byte("C-")
	object := workflowtest.PolicyRollout()
	again.LoadedRollout = rollouts.LoadedRollout{Object: object}
	again.LoadedRollout.Object.Status = next
	again.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{
		Object: ranv1.ClusterGroupUpgrade{ObjectMeta: object.ObjectMeta}, Retry: &rollout.RetryRequest{},
	})
	retried := workflowtest.StatusOfCluster(workflowtest.RequireFailure[workflowtest.GroupStatus](again.World, ranv1.ReasonFailed), "c1")
	require.Equal(t, ranv1.ClusterFailed, retried.State)
	require.Equal(t, "policy policies/network is no longer bound to the cluster: its compliance is unknown", retried.Message)
}

func TestATimedOutClusterUnboundFromALaterPolicyIsNotComplete(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c1" && policy == 0 {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() {
		w.Comply("c1", 0, policies.Compliant)
		w.Comply("c1", 1, policies.Unbound)
	}, 31*time.Minute)
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, workflowtest.ClusterStates(status))
}

func TestARetryEnforcesTheSamePoliciesOnTimedOutClusters(t *testing.T) {
	first := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	first.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c2" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	first.Run()
	over := workflowtest.RequireFailure[workflowtest.GroupStatus](first.World, ranv1.ReasonTimedOut)
	planned := first.InputsOf("PreparePolicies")[0].(policiesactivities.Rollout)
	next, err := rollout.Retry(over, nil, rollout.RetryRequest{})
	require.NoError(t, err)

	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.Compliance = map[string][]byte{"c1": []byte("CC"), "c2": []byte("CN")}
	object := workflowtest.PolicyRollout()
	w.LoadedRollout = rollouts.LoadedRollout{Object: object}
	w.LoadedRollout.Object.Status = next
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{
		Object: ranv1.ClusterGroupUpgrade{ObjectMeta: object.ObjectMeta}, Retry: &rollout.RetryRequest{},
	})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Equal(t, planned.Policies, w.InputsOf("PreparePolicies")[0].(policiesactivities.Rollout).Policies, "by name and namespace")
	require.Equal(t, []policies.DesiredPlacement{{Item: 1, Clusters: []string{"c2"}}}, w.InputsOf("PlacePolicies")[0].(policiesactivities.PlacePoliciesInput).Desired)
}
