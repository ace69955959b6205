package rollout_test

import (
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

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-d)} }

func took(batch int32, d time.Duration) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterComplete, StartedAt: ago(d), CompletedAt: ago(0)}
}

func started(batch int32, since time.Duration, done, total int32) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterRunning, StartedAt: ago(since), Nodes: ranv1.NodeCounts{Done: done, Total: total}}
}

func waiting(batch int32) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterPending}
}

func running(clusters ...ranv1.ClusterStatus) *ranv1.ClusterGroupUpgradeStatus {
	return &ranv1.ClusterGroupUpgradeStatus{Clusters: clusters, Status: ranv1.RunStatus{StartedAt: ago(time.Hour)}}
}

func TestTheEstimateFollowsFromTheDurationsOfClusters(t *testing.T) {
	const m = time.Minute
	tests := []struct {
		name                       string
		status                     *ranv1.ClusterGroupUpgradeStatus
		earliest, expected, latest time.Duration
	}{
		{"one sample has a wide range", running(took(1, 10*m), waiting(2)), 5 * m, 10 * m, 20 * m},
		{"more samples narrow the range", running(took(1, 10*m), took(1, 10*m), took(1, 10*m), took(1, 10*m), waiting(2)), 8 * m, 10 * m, 12*m + 30*time.Second},
		{"batches one after the other", running(took(1, 10*m), waiting(2), waiting(3)), 10 * m, 20 * m, 40 * m},
		{"clusters of a batch at the same time", running(took(1, 10*m), waiting(2), waiting(2)), 5 * m, 10 * m, 20 * m},
		{"one cluster takes the mean", running(took(1, 10*m), took(2, 20*m), waiting(3)), 6*m + 40*time.Second, 15 * m, 30 * m},
		{"three clusters take as long as their slowest", running(took(1, 10*m), took(2, 20*m), waiting(3), waiting(3), waiting(3)), 6*m + 40*time.Second, 17*m + 30*time.Second, 30 * m},
		{"the time that a cluster has run counts", running(took(1, 10*m), started(2, 4*m, 0, 3), waiting(3)), 6 * m, 16 * m, 36 * m},
		{"a batch lasts until its last cluster", running(took(1, 10*m), started(2, 4*m, 0, 3), started(2, 1*m, 0, 3)), 4 * m, 9 * m, 19 * m},
		{"a cluster that exceeds all samples may end now, or take as long again", running(took(1, 10*m), started(2, 30*m, 0, 3)), 0, 15 * m, 30 * m},
		{"so may the clusters after it", running(took(1, 10*m), started(2, 30*m, 0, 3), waiting(3)), 5 * m, 25 * m, 90 * m},
		{"the number of samples does not matter for such a cluster", running(append(slices.Repeat([]ranv1.ClusterStatus{took(1, 10*m)}, 100), started(2, 30*m, 0, 3), started(2, 9*m, 0, 3))...), 54 * time.Second, 15 * m, 30 * m},
		{"without a complete cluster its nodes are the sample", running(started(1, 10*m, 2, 4), waiting(2)), 10 * m, 30 * m, 70 * m},
		{"a skipped cluster is not a sample", running(took(1, 10*m), waiting(2), ranv1.ClusterStatus{State: ranv1.ClusterSkipped}), 5 * m, 10 * m, 20 * m},
		{"a failed cluster is not a sample", running(took(1, 10*m), ranv1.ClusterStatus{Batch: 1, State: ranv1.ClusterFailed, StartedAt: ago(m), CompletedAt: ago(0)}, waiting(2)), 5 * m, 10 * m, 20 * m},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			estimate := rollout.Estimate(test.status, 0, noon)
			require.NotNil(t, estimate)
			require.Equal(t, test.earliest, estimate.Earliest.Sub(noon), "earliest")
			require.Equal(t, test.expected, estimate.End.Sub(noon), "expected")
			require.Equal(t, test.latest, estimate.Latest.Sub(noon), "latest")
		})
	}
}

// soaks is a cluster that took this long and has soaked since.
func soaks(batch int32, took, soaked time.Duration) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterSoaking, StartedAt: ago(took + soaked), CompletedAt: ago(soaked)}
}

// Each batch but the last soaks for an hour.
func TestSoakTimesArePartOfTheEstimateNotOfDurations(t *testing.T) {
	const m, soak = time.Minute, time.Hour
	done := slices.Repeat([]ranv1.ClusterStatus{took(1, 10*m)}, 999)
	tests := []struct {
		name     string
		clusters []ranv1.ClusterStatus
		expected time.Duration
	}{
		{"the last batch does not soak", []ranv1.ClusterStatus{waiting(2)}, 10 * m},
		{"a batch with another after it soaks", []ranv1.ClusterStatus{waiting(2), waiting(3)}, 10*m + soak + 10*m},
		{"so does a running batch", []ranv1.ClusterStatus{started(2, 4*m, 0, 3), waiting(3)}, 6*m + soak + 10*m},
		{"the rest of a soak counts", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), waiting(3)}, 20*m + 10*m},
		{"a soak ends while other clusters run", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), started(2, 4*m, 0, 3), waiting(3)}, 6*m + soak + 10*m},
		{"the last cluster of a batch to soak", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), soaks(2, 10*m, 5*m), waiting(3)}, 55*m + 10*m},
		{"the next batch has started", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), started(3, 4*m, 0, 3)}, 6 * m},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			estimate := rollout.Estimate(running(append(slices.Clone(done), test.clusters...)...), soak, noon)
			require.Equal(t, test.expected, estimate.End.Sub(noon))
			require.WithinDuration(t, estimate.End.Time, estimate.Earliest.Time, 5*time.Second, "all samples are equal")
			require.WithinDuration(t, estimate.End.Time, estimate.Latest.Time, 5*time.Second)
		})
	}
	estimate := rollout.Estimate(running(soaks(1, 10*m, 0), waiting(2)), soak, noon)
	require.NotNil(t, estimate, "a cluster that soaks is a sample")
	require.Equal(t, soak+10*m, estimate.End.Sub(noon))
}

func TestThereIsNoEstimateWithoutSamples(t *testing.T) {
	paused, over, planned := running(took(1, time.Minute), waiting(2)), running(took(1, time.Minute)), running(took(1, time.Minute))
	held := running(took(1, time.Minute), waiting(2))
	held.Held = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	unapproved := running(took(1, time.Minute), waiting(2))
	unapproved.Wait = &drydockv1.Wait{Reason: ranv1.ReasonWaitingForApproval}
	paused.Paused, over.Status.CompletedAt, planned.Status.StartedAt = true, ago(0), nil
	for name, status := range map[string]*ranv1.ClusterGroupUpgradeStatus{
		"paused": paused, "waiting for an approval": unapproved, "held": held, "over": over, "planned": planned, "no node is done": running(started(1, time.Minute, 0, 4)),
	} {
		require.Nil(t, rollout.Estimate(status, time.Hour, noon), name)
	}
}

func TestTheEstimateIsInItsRangeAndNotInThePast(t *testing.T) {
	minutes := func(t *rapid.T, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 100).Draw(t, name)) * time.Minute
	}
	rapid.Check(t, func(t *rapid.T) {
		list := []ranv1.ClusterStatus{took(1, minutes(t, "first"))}
		for batch := range int32(rapid.IntRange(0, 4).Draw(t, "batches")) {
			for range rapid.IntRange(1, 3).Draw(t, "clusters") {
				list = append(list, rapid.SampledFrom([]ranv1.ClusterStatus{
					took(batch, minutes(t, "took")), started(batch, minutes(t, "since"), 0, 2), waiting(batch), soaks(batch, minutes(t, "worked"), minutes(t, "soaked")),
				}).Draw(t, "cluster"))
			}
		}
		estimate := rollout.Estimate(running(list...), minutes(t, "soak"), noon)
		if left := slices.ContainsFunc(list, func(c ranv1.ClusterStatus) bool { return !c.State.Over() }); !left {
			require.Nil(t, estimate)
			return
		}
		require.False(t, estimate.Earliest.Time.Before(noon))
		require.False(t, estimate.End.Before(&estimate.Earliest), "%v", estimate)
		require.False(t, estimate.Latest.Before(&estimate.End), "%v", estimate)
	})
}
