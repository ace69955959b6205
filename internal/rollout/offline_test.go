package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// statusWith has one cluster for each name in the batches. All are pending.
func statusWith(batches ...[]string) ranv1.ClusterGroupUpgradeStatus {
	status := ranv1.ClusterGroupUpgradeStatus{RemediationPlan: batches, ComputedMaxConcurrency: 2}
	for i, batch := range batches {
		for _, name := range batch {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: name, State: ranv1.ClusterPending, Batch: int32(i + 1)})
		}
	}
	return status
}

func TestOfflineClustersAreDeferred(t *testing.T) {
	status := statusWith([]string{"a"}, []string{"b", "c"}, []string{"d", "e"}, []string{"f"})
	require.EqualValues(t, 3, rollout.Defer(&status, 2, 4, []string{"b", "d"}))
	require.Equal(t, [][]string{{"a"}, {"c", "e"}, {"f"}, {"b", "d"}}, status.RemediationPlan)
	require.EqualValues(t, 4, status.Status.CatchUpBatch)
	require.Equal(t, []string{"b", "d"}, rollout.NamesInState(status.Clusters, ranv1.ClusterOffline))

	require.EqualValues(t, 2, rollout.Defer(&status, 3, 3, []string{"f"}))
	require.Equal(t, [][]string{{"a"}, {"c", "e"}, {"b", "d", "f"}}, status.RemediationPlan, "a batch without clusters is dropped")
	require.EqualValues(t, 3, status.Status.CatchUpBatch)
	require.Equal(t, 2, rollout.PlannedBatches(&status))

	require.EqualValues(t, 2, rollout.Defer(&status, 1, 2, nil))
	require.EqualValues(t, 3, status.Status.CatchUpBatch, "without an offline cluster nothing changes")
}

func TestABatchThatIsNotFilledUpLeavesTheLaterOnesAlone(t *testing.T) {
	status := statusWith([]string{"a", "b"}, []string{"c", "d"}, []string{"e"})
	require.EqualValues(t, 1, rollout.Defer(&status, 1, 1, []string{"a"}))
	require.Equal(t, [][]string{{"b"}, {"c", "d"}, {"e"}, {"a"}}, status.RemediationPlan)
	require.Zero(t, rollout.Defer(&status, 1, 1, []string{"b"}), "no cluster is left in it")
	require.Equal(t, [][]string{{"c", "d"}, {"e"}, {"a", "b"}}, status.RemediationPlan)
	require.EqualValues(t, 3, status.Status.CatchUpBatch)
}

func TestDeferredClustersLeaveNoPlaceFreeAndMoveNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var batches [][]string
		clusters := 0
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			var batch []string
			for range rapid.IntRange(1, 4).Draw(t, "size") {
				batch = append(batch, fmt.Sprintf("c%02d", clusters))
				clusters++
			}
			batches = append(batches, batch)
		}
		status := statusWith(batches...)
		states := []ranv1.ClusterState{ranv1.ClusterPending, ranv1.ClusterPending, ranv1.ClusterRunning, ranv1.ClusterComplete}
		for i := range status.Clusters {
			status.Clusters[i].State = rapid.SampledFrom(states).Draw(t, "state")
		}
		all := rollout.NamesOf(status.Clusters)
		first := int32(rapid.IntRange(1, len(batches)).Draw(t, "first"))
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			planned := status.RemediationPlan[:rollout.PlannedBatches(&status)]
			var pending, offline []string
			for _, c := range status.Clusters {
				if c.State == ranv1.ClusterPending && c.Batch >= first {
					pending = append(pending, c.Name)
					if rapid.Bool().Draw(t, "offline") {
						offline = append(offline, c.Name)
					}
				}
			}
			before := rollout.NamesInState(status.Clusters, ranv1.ClusterOffline)
			rollout.Defer(&status, first, int32(len(planned)), offline)

			require.ElementsMatch(t, all, slices.Concat(status.RemediationPlan...), "every cluster has one place")
			require.Equal(t, slices.Concat(status.RemediationPlan...), rollout.NamesOf(status.Clusters), "the status has the order of the plan")
			for i, batch := range status.RemediationPlan {
				require.NotEmpty(t, batch)
				for _, c := range status.Clusters {
					require.Equal(t, slices.Contains(batch, c.Name), int(c.Batch) == i+1)
				}
			}
			if deferred := slices.Concat(before, offline); len(deferred) > 0 {
				require.Equal(t, deferred, status.RemediationPlan[len(status.RemediationPlan)-1], "in the order in which they were deferred")
				require.EqualValues(t, len(status.RemediationPlan), status.Status.CatchUpBatch)
			}
			var left []string
			for _, c := range status.Clusters {
				if c.State == ranv1.ClusterPending && c.Batch >= first {
					left = append(left, c.Name)
				}
			}
			others := slices.DeleteFunc(pending, func(name string) bool { return slices.Contains(offline, name) })
			require.Equal(t, append([]string(nil), others...), left, "the others keep their order")
			for i, batch := range status.RemediationPlan[:rollout.PlannedBatches(&status)] {
				if len(batch) != len(planned[i]) {
					rest := slices.Concat(status.RemediationPlan[i+1 : rollout.PlannedBatches(&status)]...)
					require.False(t, slices.ContainsFunc(rest, func(name string) bool { return slices.Contains(left, name) }), "only the last batches have free places")
					break
				}
			}
			require.Equal(t, status.RemediationPlan, rollout.Expand(rollout.Compact(status)).RemediationPlan)
		}
	})
}

func TestARolloutWithOfflineClustersHasNotSucceeded(t *testing.T) {
	clusters := []ranv1.ClusterStatus{
		{Name: "c1", State: ranv1.ClusterComplete},
		{Name: "c2", State: ranv1.ClusterOffline, Reason: ranv1.ReasonClusterOffline},
		{Name: "c3", State: ranv1.ClusterSkipped, Reason: rollout.ReasonNotBound},
	}
	for _, end := range []rollout.End{rollout.EndFinished, rollout.EndTimedOut, rollout.EndBatchTimedOut} {
		require.Equal(t, rollout.Result{
			Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonClustersOffline,
			Message: "Complete on all clusters but 1; offline: c2; skipped because no policy of the rollout is bound to them: c3",
		}, rollout.Outcome(rollout.ManagedPolicies, clusters, end))
	}
	require.Zero(t, rollout.Failures(clusters))

	clusters = append(clusters, ranv1.ClusterStatus{Name: "c4", State: ranv1.ClusterFailed, StartedAt: ago(time.Minute)})
	require.Equal(t, rollout.Result{
		Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed, Message: "Failed on 1 of 4 clusters; failed: c4; offline: c2",
	}, rollout.Outcome(rollout.ManagedPolicies, clusters, rollout.EndFinished))

	clusters[3] = ranv1.ClusterStatus{Name: "c4", State: ranv1.ClusterFailed, Reason: ranv1.ReasonClusterOffline}
	require.Equal(t, 1, rollout.Failures(clusters), "offlineAction Fail")
}

func TestOfflineClustersAreFinishedOnlyWhenTheRolloutHasEnded(t *testing.T) {
	cgu := &ranv1.ClusterGroupUpgrade{Status: ranv1.ClusterGroupUpgradeStatus{
		Status:   ranv1.RunStatus{StartedAt: ago(time.Hour), CurrentBatch: 1},
		Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterOffline, Batch: 1}},
	}}
	running := rollout.Published(cgu, 1)
	require.Empty(t, running.Clusters)
	require.Equal(t, ranv1.RemediationNotStarted, running.Status.CurrentBatchRemediationProgress["c1"].State)
	cgu.Status.Status.CompletedAt = ago(0)
	require.Equal(t, cgu.Status.Clusters, rollout.Published(cgu, 1).Clusters)
}

func TestARetryTakesOfflineClustersInBatchesOfTheUsualSize(t *testing.T) {
	status := statusWith([]string{"a"}, []string{"b"}, []string{"c"}, []string{"d"}, []string{"e"})
	status.Clusters[0].State = ranv1.ClusterComplete
	rollout.Defer(&status, 2, 5, []string{"b", "c", "d"})
	status.Clusters[1].State = ranv1.ClusterComplete
	status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonClustersOffline}}
	retry, err := rollout.Retry(status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a"}, {"e"}, {"b", "c"}, {"d"}}, retry.RemediationPlan)
	require.Zero(t, retry.Status.CatchUpBatch)
	require.Equal(t, []string{"b", "c", "d"}, rollout.NamesInState(retry.Clusters, ranv1.ClusterPending))
}

func TestClustersThatJoinThePlanGoBeforeTheCatchUpBatch(t *testing.T) {
	status := statusWith([]string{"a", "b"}, []string{"c"})
	rollout.Defer(&status, 1, 2, []string{"a"})
	status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: "d", State: ranv1.ClusterPending}, ranv1.ClusterStatus{Name: "e", State: ranv1.ClusterPending})
	rollout.AddToPlan(&status, []string{"e"})
	require.Equal(t, [][]string{{"e"}, {"b", "c"}, {"d"}, {"a"}}, status.RemediationPlan)
	require.EqualValues(t, 4, status.Status.CatchUpBatch)
}

func TestNoEndIsExpectedWhileAClusterIsOffline(t *testing.T) {
	status := running(took(1, 10*time.Minute), waiting(2), ranv1.ClusterStatus{Name: "spoke-3", State: ranv1.ClusterOffline, Batch: 3})
	status.Counts = rollout.Count(status.Clusters)
	status.Status.Deadline = new(metav1.NewTime(noon.Add(time.Hour)))
	require.Nil(t, rollout.Estimate(status, 0, noon))
	require.Equal(t, rollout.Expectation{
		Unknown: "spoke-3 is offline", Bound: "the rollout times out", BoundAt: status.Status.Deadline,
	}, rollout.ExpectationOf(status, noon))
	status.Wait = &drydockv1.Wait{Reason: ranv1.ReasonClustersOffline}
	require.Equal(t, "Waiting for clusters", rollout.State(status, "", noon))
	status.Counts.Offline = 20
	require.Equal(t, "20 clusters are offline", rollout.ExpectationOf(status, noon).Unknown)
}

func TestOnlyDeferredClustersCanBeCaughtUp(t *testing.T) {
	spec := &ranv1.ClusterGroupUpgradeSpec{RemediationStrategy: ranv1.RemediationStrategy{CatchUp: 60}}
	require.Empty(t, rollout.CheckStrategy(spec))
	spec.RemediationStrategy.OfflineAction = ranv1.OfflineFail
	require.ErrorContains(t, rollout.CheckStrategy(spec).ToAggregate(), "spec.remediationStrategy.catchUp")
}
