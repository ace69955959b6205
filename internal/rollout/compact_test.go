package rollout_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// drawRunning draws the status of a running rollout. Some clusters may have been removed from its plan, others skipped.
func drawRunning(t *rapid.T) ranv1.ClusterGroupUpgradeStatus {
	var status ranv1.ClusterGroupUpgradeStatus
	for i, size := range rapid.SliceOfN(rapid.IntRange(1, 4), 0, 6).Draw(t, "sizes of batches") {
		var batch []string
		for j := range size {
			cluster := ranv1.ClusterStatus{Name: fmt.Sprintf("c%d-%d", i, j), Batch: int32(i + 1), State: rapid.SampledFrom(states).Draw(t, "state")}
			status.Clusters, batch = append(status.Clusters, cluster), append(batch, cluster.Name)
		}
		status.RemediationPlan = append(status.RemediationPlan, batch)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "in no batch") {
		status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("left%d", i), State: rapid.SampledFrom(states).Draw(t, "state")})
	}
	if rapid.Bool().Draw(t, "precached") {
		status.Precaching = &ranv1.PrecachingStatus{Image: "pull:1", Status: drawPreparation(t, status.Clusters)}
	}
	if rapid.Bool().Draw(t, "backed up") {
		status.Backup = &ranv1.BackupStatus{Image: "save:1", Status: drawPreparation(t, status.Clusters)}
	}
	return status
}

func TestExpandRestoresACompactStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := drawRunning(t)
		before, err := json.Marshal(whole)
		require.NoError(t, err)
		compact := rollout.Compact(whole)
		require.Nil(t, compact.RemediationPlan, "the clusters have their batches")
		after, err := json.Marshal(rollout.Expand(compact))
		require.NoError(t, err)
		require.JSONEq(t, string(before), string(after))
		again, err := json.Marshal(whole)
		require.NoError(t, err)
		require.JSONEq(t, string(before), string(again), "the status itself is unchanged")
	})
}

func TestExpandRestoresNotBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z]{1,3}"), 0, 8, rapid.ID).Draw(t, "clusters")
		notBound := map[string][]int{}
		for _, name := range clusters {
			if rapid.Bool().Draw(t, "lacks some") {
				notBound[name] = rapid.SliceOfN(rapid.IntRange(0, 9), 1, 3).Draw(t, "policies")
			}
		}
		require.Equal(t, notBound, rollout.ExpandNotBound(rollout.CompactNotBound(notBound, clusters), clusters))
	})
}

// A plan in another order than the clusters cannot be restored from them.
func TestAPlanThatClustersDoNotDetermineIsNotCompacted(t *testing.T) {
	status := ended(ranv1.ClusterComplete, ranv1.ClusterPending)
	slices.Reverse(status.RemediationPlan)
	require.Equal(t, status.RemediationPlan, rollout.Expand(rollout.Compact(status)).RemediationPlan)
}

// Temporal refuses an answer of 2 MiB.
func TestAnAnswerIsLimitedToItsSize(t *testing.T) {
	status := ended(slices.Repeat([]ranv1.ClusterState{ranv1.ClusterFailed}, 10_000)...)
	for i := range status.Clusters {
		status.Clusters[i].Message = strings.Repeat("x", i)
	}
	for _, part := range []rollout.Part{{}, {Limit: 10_000}, {InPlanOrder: true}, {Filter: "failed"}} {
		seen := 0
		for more := true; more; more = part.Cursor != "" {
			answer, err := rollout.Page(status, part)
			require.NoError(t, err)
			text, err := json.Marshal(answer)
			require.NoError(t, err)
			require.Less(t, len(text), 256<<10)
			require.NotEmpty(t, answer.Clusters)
			seen += len(answer.Clusters)
			part.Cursor = answer.NextCursor
		}
		require.Equal(t, 10_000, seen, "the second part has the others")
	}
}

func TestASmallStatusIsCompleteWithItsPlan(t *testing.T) {
	status := ended(slices.Repeat([]ranv1.ClusterState{ranv1.ClusterFailed}, 100)...)
	whole, err := rollout.Page(status, rollout.Part{})
	require.NoError(t, err)
	require.Equal(t, status, whole)
}
