package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

var states = []ranv1.ClusterState{
	ranv1.ClusterPending, ranv1.ClusterRunning, ranv1.ClusterSoaking, ranv1.ClusterComplete,
	ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterCancelled, ranv1.ClusterSkipped,
}

// clusters in these states, named c1, c2 and so on.
func clusters(states ...ranv1.ClusterState) []ranv1.ClusterStatus {
	var list []ranv1.ClusterStatus
	for i, state := range states {
		list = append(list, ranv1.ClusterStatus{Name: fmt.Sprintf("c%d", i+1), State: state})
	}
	return list
}

func TestOutcome(t *testing.T) {
	const (
		complete, skipped, failed = ranv1.ClusterComplete, ranv1.ClusterSkipped, ranv1.ClusterFailed
		timedOut, cancelled       = ranv1.ClusterTimedOut, ranv1.ClusterCancelled
		running, pending          = ranv1.ClusterRunning, ranv1.ClusterPending
	)
	tests := []struct {
		name            string
		remediation     rollout.Remediation
		end             rollout.End
		clusters        []ranv1.ClusterStatus
		succeeded       metav1.ConditionStatus
		reason, message string
	}{
		{"every cluster complete or skipped", rollout.NodeMaintenance, rollout.EndFinished, clusters(complete, skipped), "True", "Completed", "Node maintenance is complete on all clusters"},
		{"clusters without bound policies", rollout.ManagedPolicies, rollout.EndFinished, []ranv1.ClusterStatus{
			{Name: "c1", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyCompliant},
			{Name: "c2", State: ranv1.ClusterSkipped, Reason: rollout.ReasonNotBound},
			{Name: "c3", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyEnforced},
		}, "True", "Completed", "All clusters are compliant with all the managed policies; skipped because no policy of the rollout is bound to them: c2" +
			"; skipped because they do not comply with policies that enforce already: c3"},
		{"no clusters at all", rollout.ManagedPolicies, rollout.EndFinished, nil, "True", "Completed", "All clusters are compliant with all the managed policies; no cluster was selected"},
		{"a timeout after every cluster is complete", rollout.ManifestWorks, rollout.EndTimedOut, clusters(complete), "True", "Completed", "All manifestworks rolled out successfully on all clusters"},
		{"a cluster that failed", rollout.NodeMaintenance, rollout.EndFinished, clusters(complete, failed), "False", "Failed", "Failed on 1 of 2 clusters; failed: c2"},
		{"a cluster that timed out, and one that failed", rollout.NodeMaintenance, rollout.EndFinished, clusters(timedOut, failed, complete), "False", "TimedOut", "Node maintenance took too long; failed: c2; timed out: c1"},
		{"the overall timeout", rollout.ManagedPolicies, rollout.EndTimedOut, clusters(complete, timedOut, pending, pending), "False", "TimedOut", "Policy remediation took too long; timed out: c2; not started: c3, c4"},
		{"a canary that timed out", rollout.ManagedPolicies, rollout.EndCanaryTimedOut, clusters(timedOut, pending), "False", "TimedOut", "Policy remediation took too long on canary clusters; timed out: c1; not started: c2"},
		{"a canary that failed", rollout.NodeMaintenance, rollout.EndCanaryFailed, clusters(failed, pending), "False", "Failed", "Failed on a canary cluster; failed: c1; not started: c2"},
		{"a batch that timed out and aborts", rollout.ManifestWorks, rollout.EndBatchTimedOut, clusters(timedOut, complete), "False", "TimedOut", "Manifestwork rollout took too long on some clusters; timed out: c1"},
		{"cancelled", rollout.NodeMaintenance, rollout.EndCancelled, clusters(complete, cancelled, pending), "False", "Cancelled", "Cancelled; cancelled: c2; not started: c3"},
		{"cancelled before it had clusters", rollout.NodeMaintenance, rollout.EndCancelled, nil, "False", "Cancelled", "Cancelled"},
		{"aborted", rollout.NodeMaintenance, rollout.EndAborted, clusters(failed, running), "False", "Aborted", "Aborted because too many clusters failed; failed: c1; unfinished: c2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, rollout.Result{Succeeded: test.succeeded, Reason: test.reason, Message: test.message},
				rollout.Outcome(test.remediation, test.clusters, test.end))
		})
	}
}

func TestARolloutSucceedsOnlyIfEveryClusterIsComplete(t *testing.T) {
	ends := []rollout.End{
		rollout.EndFinished, rollout.EndTimedOut, rollout.EndCanaryTimedOut, rollout.EndCanaryFailed, rollout.EndBatchTimedOut, rollout.EndCancelled, rollout.EndAborted,
	}
	rapid.Check(t, func(t *rapid.T) {
		list := clusters(rapid.SliceOf(rapid.SampledFrom(states)).Draw(t, "states")...)
		result := rollout.Outcome(rollout.NodeMaintenance, list, rapid.SampledFrom(ends).Draw(t, "end"))
		if result.Succeeded != metav1.ConditionTrue {
			return
		}
		for _, cluster := range list {
			require.Contains(t, []ranv1.ClusterState{ranv1.ClusterComplete, ranv1.ClusterSkipped}, cluster.State)
		}
	})
}

func TestALongListOfClustersIsShortenedInTheMessage(t *testing.T) {
	var many []ranv1.ClusterState
	for range 25 {
		many = append(many, ranv1.ClusterFailed)
	}
	require.Contains(t, rollout.Outcome(rollout.NodeMaintenance, clusters(many...), rollout.EndFinished).Message, "c19, c20 and 5 more")
}

func TestCountAndPercentage(t *testing.T) {
	all := clusters(states...)
	require.Equal(t, ranv1.ClusterCounts{Total: 8, Pending: 1, Running: 2, Complete: 1, Failed: 1, TimedOut: 1, Cancelled: 1, Skipped: 1}, rollout.Count(all))
	require.EqualValues(t, 14, rollout.Percentage(all), "one of the seven clusters of the plan is complete")
	all[1].Nodes, all[4].Nodes = ranv1.NodeCounts{Total: 4, Done: 3}, ranv1.NodeCounts{Total: 2, Done: 1, Failed: 1}
	require.EqualValues(t, 32, rollout.Percentage(all), "finished nodes of the others count as 1/2 and 3/4 of a cluster")
	require.EqualValues(t, 100, rollout.Percentage(nil))
	require.EqualValues(t, 0, rollout.Percentage(clusters(ranv1.ClusterPending, ranv1.ClusterSkipped)))
}

func TestAPagedStatusStartsWithTheMostImportantClusters(t *testing.T) {
	status := ranv1.ClusterGroupUpgradeStatus{
		Counts:   ranv1.ClusterCounts{Total: 6},
		Clusters: clusters(ranv1.ClusterComplete, ranv1.ClusterRunning, ranv1.ClusterFailed, ranv1.ClusterPending, ranv1.ClusterTimedOut, ranv1.ClusterFailed),
	}
	first, err := rollout.Page(status, rollout.Part{Limit: 4})
	require.NoError(t, err)
	require.Equal(t, []string{"c3", "c6", "c5", "c2"}, clusterNames(first))
	require.EqualValues(t, 6, first.Counts.Total, "the counts are those of all clusters")
	require.NotEmpty(t, first.NextCursor)

	second, err := rollout.Page(status, rollout.Part{Limit: 4, Cursor: first.NextCursor})
	require.NoError(t, err)
	require.Equal(t, []string{"c1", "c4"}, clusterNames(second))
	require.Empty(t, second.NextCursor)
}

func TestAStatusCanBeFilteredByStateOrName(t *testing.T) {
	status := ranv1.ClusterGroupUpgradeStatus{Clusters: clusters(ranv1.ClusterFailed, ranv1.ClusterRunning, ranv1.ClusterFailed)}
	for filter, want := range map[string][]string{"failed": {"c1", "c3"}, "c2": {"c2"}, "soaking": nil, "": {"c1", "c2", "c3"}} {
		page, err := rollout.Page(status, rollout.Part{Filter: filter})
		require.NoError(t, err)
		require.Equal(t, want, clusterNames(page), filter)
	}
}

func TestAnInvalidCursorIsRefused(t *testing.T) {
	for _, cursor := range []string{"x", "1", "1-", "1-2-3", "01-2", "-1--1 "} {
		_, err := rollout.Page(ranv1.ClusterGroupUpgradeStatus{}, rollout.Part{Limit: 1, Cursor: cursor})
		require.EqualError(t, err, fmt.Sprintf("cursor %q: use the nextCursor of the status before", cursor))
	}
}

func TestEveryUnchangedClusterIsOnExactlyOnePage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := ranv1.ClusterGroupUpgradeStatus{Clusters: clusters(rapid.SliceOfN(rapid.SampledFrom(states), 1, 20).Draw(t, "states")...)}
		limit, inPlanOrder := rapid.IntRange(1, 5).Draw(t, "limit"), rapid.Bool().Draw(t, "in plan order")
		seen, moved := map[string]int{}, map[string]bool{}
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := rollout.Page(status, rollout.Part{Limit: limit, Cursor: cursor, InPlanOrder: inPlanOrder})
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Clusters), limit)
			for _, name := range clusterNames(page) {
				seen[name]++
			}
			cursor = page.NextCursor
			// Between two reads the state of a cluster changes.
			i := rapid.IntRange(0, len(status.Clusters)-1).Draw(t, "moves")
			status.Clusters[i].State = rapid.SampledFrom(states).Draw(t, "to")
			moved[status.Clusters[i].Name] = true
		}
		for _, cluster := range status.Clusters {
			if !moved[cluster.Name] || inPlanOrder {
				require.Equal(t, 1, seen[cluster.Name], cluster.Name)
			}
		}
	})
}

func clusterNames(status ranv1.ClusterGroupUpgradeStatus) []string {
	var names []string
	for _, cluster := range status.Clusters {
		names = append(names, cluster.Name)
	}
	return names
}
