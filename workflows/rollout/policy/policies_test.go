package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestPoliciesAreEnforcedInOrderOnEachClusterAndBatchAfterBatch(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c2" {
			return 3 * time.Minute
		}
		return time.Minute
	}
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, ranv1.ClusterCounts{Total: 3, Complete: 3}, status.Counts)
	require.Equal(t, map[string]string{"june-kernel": "safe-kernel", "june-network": "safe-network"}, status.SafeResourceNames)
	require.Equal(t, map[string]string{"kernel": "policies", "network": "policies"}, status.ManagedPoliciesNs)
	require.Equal(t, []ranv1.ManagedPolicy{{Name: "kernel", Namespace: "policies"}, {Name: "network", Namespace: "policies"}}, status.ManagedPoliciesForUpgrade)
	require.Equal(t, map[string]string{"kernel": "[]"}, status.ManagedPoliciesContent)

	took := func(name string) time.Duration {
		c := status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == name })]
		return c.CompletedAt.Sub(c.StartedAt.Time).Round(time.Minute)
	}
	require.Equal(t, 2*time.Minute, took("c1"), "one does not wait for the other")
	require.Equal(t, 6*time.Minute, took("c2"))
	require.Equal(t, 8*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))

	var events [][]policies.DesiredPlacement
	for _, in := range w.InputsOf("PlacePolicies") {
		events = append(events, in.(policiesactivities.PlacePoliciesInput).Desired)
	}
	require.Equal(t, []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c1", "c2"}}}, events[0])
	require.Equal(t, []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c2"}}, {Item: 1, Clusters: []string{"c1"}}}, events[1])
	require.Equal(t, 2, w.MostEnforced)
	require.Len(t, w.InputsOf("CleanUpPolicies"), 1)
	require.Len(t, w.InputsOf("PreparePolicies"), 1)
}

// A worker runs a limited number of activities, and watches must leave capacity for other activities.
func TestARollingRolloutWatchesManyClustersWithFewActivities(t *testing.T) {
	var clusters []string
	for i := range 260 {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
	}
	w := workflowtest.NewPolicyWorld(t, clusters[:130], clusters[130:])
	w.ComplyAfter = func(cluster string, _ int) time.Duration { // one by one, so that other clusters start one by one
		return time.Minute + time.Duration(slices.Index(clusters, cluster)%130)*time.Second
	}
	w.Plan.ComputedMaxConcurrency = 130
	w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Rollout = ranv1.Rolling })
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, int32(260), status.Counts.Complete)
	require.LessOrEqual(t, w.MostWaits, 3)
	for _, in := range w.InputsOf("PlacePolicies") {
		for _, placed := range in.(policiesactivities.PlacePoliciesInput).Desired {
			require.LessOrEqual(t, len(placed.Clusters), 130)
		}
	}
}

func TestARecreatedPlacementIsNotedOnce(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	workflowtest.Simulate(w.World, "PlacePolicies", func(in policiesactivities.PlacePoliciesInput) any {
		placed := w.Place(in).(remediation.PlacementResult)
		placed.Recreated = []string{"PlacementBinding ops/safe-kernel"}
		return placed
	})
	w.Run()
	require.Equal(t, []string{"PlacementBinding ops/safe-kernel had been deleted, and was created again"}, workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Notes)
}

// One change is found when the second batch starts, in another run, and the other change at the end.
func TestAPolicyChangedDuringTheRolloutIsNotedOnce(t *testing.T) {
	for enforcement, means := range map[ranv1.PolicyEnforcement]string{
		ranv1.EnforceCopy:     "clusters get the copy of that generation, and must comply with the policy of today",
		ranv1.EnforceOverride: "clusters that completed it before keep that generation, the others get the policy of today",
	} {
		t.Run(string(enforcement), func(t *testing.T) {
			object := workflowtest.PolicyRollout()
			in := &rolloutworkflow.Input{Object: object}
			var w *workflowtest.PolicyWorld
			for runs := 0; in != nil; runs++ {
				before := w
				w = workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
				w.Plan.PolicyEnforcement.By = enforcement
				if before != nil {
					w.Compliance, w.Enforced = before.Compliance, before.Enforced
				} else {
					w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
				}
				workflowtest.Simulate(w.World, "PlacePolicies", func(in policiesactivities.PlacePoliciesInput) any {
					require.Equal(t, []string{"uid-of-kernel/3", "uid-of-network/3"}, in.Rollout.Pins)
					placed := w.Place(in).(remediation.PlacementResult)
					if runs > 0 && len(in.Desired) > 0 && in.Desired[0].Item == 0 {
						placed.Changed = []int{0}
					}
					return placed
				})
				workflowtest.Simulate(w.World, "CleanUpPolicies", func(policiesactivities.Rollout) any {
					return []int{0, 1}
				})
				w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
				in = workflowtest.NextRunInput[rolloutworkflow.Input](w.World)
			}
			note := func(policy string) string {
				return "policy policies/" + policy + " has been changed, or deleted, since the rollout began with its generation 3: " + means +
					"; to roll out the policy of today on all clusters, cancel the rollout if it still runs, and start it again"
			}
			require.Equal(t, []string{note("kernel"), note("network")}, workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Notes)
		})
	}
}

// Later, a worker with a hub runs.
func TestAWorkerWithoutAHubFailsNoCluster(t *testing.T) {
	none := kube.New(kube.FromConfigs(nil, nil), kube.Options{})
	t.Cleanup(none.Close)
	_, noHub := none.Hub(t.Context())
	for activity, summary := range map[string]string{
		"PlanRollout":     "plan the rollout",
		"PreparePolicies": "prepare the enforcement of policies",
		"PlacePolicies":   "enforce kernel on 1 clusters",
		"AwaitCompliance": "watch the compliance of 1 clusters",
		"ReadCompliance":  "read the compliance of 1 clusters",
		"LookUpClusters":  "look up the clusters of batch 1",
		"CleanUpPolicies": "delete the objects that enforce policies",
		"SaveRollout":     "save the final status on the hub",
	} {
		t.Run(activity, func(t *testing.T) {
			w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
			w.Soaks[0] = 10 * time.Minute
			var first time.Time
			reported := false
			w.Fail[activity] = func(call int) error {
				if activity == "SaveRollout" && call == 1 {
					return nil // the rollout does not wait for its registration on the hub
				}
				if first.IsZero() {
					first = w.Now()
					w.RegisterDelayedCallback(func() {
						status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
						require.NotNil(t, status.Wait)
						require.Equal(t, "NoHub: "+summary+": "+temporal.ErrorMessage(noHub), status.Wait.Reason+": "+status.Wait.Message)
						reported = true
					}, time.Minute)
				}
				if w.Now().Before(first.Add(2 * time.Minute)) {
					return noHub
				}
				return nil
			}
			w.Run()
			status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			require.True(t, reported)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, workflowtest.ClusterStates(status))
			require.Empty(t, status.Notes)
			w.RequireNothingEnforced()
		})
	}
}

func TestAnUnboundClusterFailsAndTheOthersContinue(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2", "c3"})
	w.Compliance["c3"] = []byte("--")
	w.RegisterDelayedCallback(func() { w.Comply("c2", 1, policies.Unbound) }, 30*time.Second)
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed", "c3": "failed"}, workflowtest.ClusterStates(status))
	messages := map[string]string{}
	for _, c := range status.Clusters {
		messages[c.Name] = c.Reason + ": " + c.Message
	}
	require.Contains(t, messages["c2"], "Unbound: policy policies/network is no longer bound to the cluster")
	require.Contains(t, messages["c3"], "Unbound: policy policies/kernel is no longer bound to the cluster")
	w.RequireNothingEnforced()
}

// A policy that was bound to the cluster in the plan is deleted or unbound before the cluster starts.
func TestAClusterThatLosesALaterPolicyFails(t *testing.T) {
	run := func(notBound map[int][]int, pieces bool) workflowtest.GroupStatus {
		w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
		w.Plan.NotBound = notBound
		w.RegisterDelayedCallback(func() {
			w.Comply("c2", 1, policies.Unbound)
			w.SetContinueAsNewSuggested(pieces)
		}, 30*time.Second)
		w.Run()
		if in := workflowtest.NextRunInput[rolloutworkflow.Input](w.World); in != nil {
			next := workflowtest.NewPolicyWorld(t)
			next.Compliance, next.Enforced = w.Compliance, w.Enforced
			next.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
			w = next
		}
		w.RequireNothingEnforced()
		if notBound != nil {
			return workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
		}
		return workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	}
	for _, pieces := range []bool{false, true} {
		lost := run(nil, pieces)
		require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed"}, workflowtest.ClusterStates(lost))
		require.Equal(t, "policy policies/network is no longer bound to the cluster: its compliance is unknown", workflowtest.StatusOfCluster(lost, "c2").Message)
		never := run(map[int][]int{1: {1}}, pieces)
		require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, workflowtest.ClusterStates(never), "it was not bound in the plan")
	}
}

func TestADeletedClusterOfAPolicyRolloutFails(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() { w.DeleteManagedCluster("c2") }, 30*time.Second)
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed"}, workflowtest.ClusterStates(status))
	require.Equal(t, ranv1.ReasonClusterDeleted, workflowtest.StatusOfCluster(status, "c2").Reason)
	require.Equal(t, 2*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute), "the rollout does not wait for it")
}

func TestPoliciesThatCannotBePreparedFailTheClustersWithTheReason(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.Fail["PreparePolicies"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "policy policies/kernel does not exist on the hub", nil))
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	for _, c := range status.Clusters {
		require.Equal(t, ranv1.ClusterFailed, c.State)
		require.Equal(t, temporal.ErrNotFound, c.Reason)
		require.Equal(t, "policy policies/kernel does not exist on the hub", c.Message)
	}
	require.Len(t, w.InputsOf("CleanUpPolicies"), 1, "some objects may exist")
	require.Empty(t, w.InputsOf("PlacePolicies"))
}

func TestKeptObjectsThatStillSelectAClusterAreNoted(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Fail["PlacePolicies"] = func(call int) error {
		if call < 3 {
			return nil
		}
		return errors.New("the hub does not answer")
	}
	w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	})
	require.Equal(t, []string{"the objects of the rollout on the hub were kept, but could not be removed from c1, where they still take effect"}, workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Notes)
}

func TestObjectsAreKeptOnlyAfterSuccessAndOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	workflowtest.Simulate(w.World, "ChangedPolicies", func(in policiesactivities.Rollout) any {
		require.Len(t, in.Pins, 2)
		return []int{1}
	})
	w.Run(keep)
	notes := workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Notes
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "policy policies/network has been changed, or deleted, since the rollout began with its generation 3", "the same note as without kept objects")
	require.Empty(t, w.InputsOf("CleanUpPolicies"))
	w.RequireNothingEnforced()

	w = workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Fail["ChangedPolicies"] = workflowtest.Always(errors.New("the hub does not answer"))
	w.Run(keep)
	require.Equal(t, []string{"could not check whether policies were changed during the rollout: the hub does not answer"}, workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Notes)

	w = workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Compliance["c1"] = []byte("--")
	w.Run(keep)
	workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonFailed)
	require.Len(t, w.InputsOf("CleanUpPolicies"), 1)
}
