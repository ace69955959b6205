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

func atWork(batch int32, since time.Duration, done, total int32) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterRunning, StartedAt: ago(since), Nodes: ranv1.NodeCounts{Done: done, Total: total}}
}

func waiting(batch int32) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterPending}
}

func underWay(clusters ...ranv1.ClusterStatus) *ranv1.ClusterGroupUpgradeStatus {
	return &ranv1.ClusterGroupUpgradeStatus{Clusters: clusters, Status: ranv1.RunStatus{StartedAt: ago(time.Hour)}}
}

func TestTheEstimateFollowsFromTheDurationsOfClusters(t *testing.T) {
	const m = time.Minute
	tests := []struct {
		name                       string
		status                     *ranv1.ClusterGroupUpgradeStatus
		earliest, expected, latest time.Duration
	}{
		{"one batch left, like the one before, of which nobody knows whether it was a usual one", underWay(took(1, 10*m), waiting(2)), 5 * m, 10 * m, 20 * m},
		{"the more clusters were seen the narrower is the range", underWay(took(1, 10*m), took(1, 10*m), took(1, 10*m), took(1, 10*m), waiting(2)), 8 * m, 10 * m, 12*m + 30*time.Second},
		{"batches one after the other", underWay(took(1, 10*m), waiting(2), waiting(3)), 10 * m, 20 * m, 40 * m},
		{"clusters of a batch at the same time", underWay(took(1, 10*m), waiting(2), waiting(2)), 5 * m, 10 * m, 20 * m},
		{"one cluster takes the mean", underWay(took(1, 10*m), took(2, 20*m), waiting(3)), 6*m + 40*time.Second, 15 * m, 30 * m},
		{"three clusters take as long as their slowest", underWay(took(1, 10*m), took(2, 20*m), waiting(3), waiting(3), waiting(3)), 6*m + 40*time.Second, 17*m + 30*time.Second, 30 * m},
		{"time at work counts", underWay(took(1, 10*m), atWork(2, 4*m, 0, 3), waiting(3)), 6 * m, 16 * m, 36 * m},
		{"a batch lasts until its last cluster", underWay(took(1, 10*m), atWork(2, 4*m, 0, 3), atWork(2, 1*m, 0, 3)), 4 * m, 9 * m, 19 * m},
		{"what takes longer than any before may end at once, or take as long again", underWay(took(1, 10*m), atWork(2, 30*m, 0, 3)), 0, 15 * m, 30 * m},
		{"and so may those that come after it", underWay(took(1, 10*m), atWork(2, 30*m, 0, 3), waiting(3)), 5 * m, 25 * m, 90 * m},
		{"however many there were before", underWay(append(slices.Repeat([]ranv1.ClusterStatus{took(1, 10*m)}, 100), atWork(2, 30*m, 0, 3), atWork(2, 9*m, 0, 3))...), 54 * time.Second, 15 * m, 30 * m},
		{"nodes tell as long as no cluster is complete", underWay(atWork(1, 10*m, 2, 4), waiting(2)), 10 * m, 30 * m, 70 * m},
		{"what needed no work says nothing", underWay(took(1, 10*m), waiting(2), ranv1.ClusterStatus{State: ranv1.ClusterSkipped}), 5 * m, 10 * m, 20 * m},
		{"a failure says nothing", underWay(took(1, 10*m), ranv1.ClusterStatus{Batch: 1, State: ranv1.ClusterFailed, StartedAt: ago(m), CompletedAt: ago(0)}, waiting(2)), 5 * m, 10 * m, 20 * m},
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

// soaks took so long, and has soaked since.
func soaks(batch int32, took, soaked time.Duration) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Batch: batch, State: ranv1.ClusterSoaking, StartedAt: ago(took + soaked), CompletedAt: ago(soaked)}
}

// Each batch but the last keeps those that follow waiting for an hour.
func TestSoakTimesArePartOfTheEstimateNotOfDurations(t *testing.T) {
	const m, soak = time.Minute, time.Hour
	done := slices.Repeat([]ranv1.ClusterStatus{took(1, 10*m)}, 999)
	tests := []struct {
		name     string
		clusters []ranv1.ClusterStatus
		expected time.Duration
	}{
		{"nobody waits for the last batch", []ranv1.ClusterStatus{waiting(2)}, 10 * m},
		{"a batch that others follow", []ranv1.ClusterStatus{waiting(2), waiting(3)}, 10*m + soak + 10*m},
		{"and one that is at work", []ranv1.ClusterStatus{atWork(2, 4*m, 0, 3), waiting(3)}, 6*m + soak + 10*m},
		{"of a soak what is left of it", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), waiting(3)}, 20*m + 10*m},
		{"a soak ends while others are at work", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), atWork(2, 4*m, 0, 3), waiting(3)}, 6*m + soak + 10*m},
		{"the last of a batch to soak", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), soaks(2, 10*m, 5*m), waiting(3)}, 55*m + 10*m},
		{"those that follow are at work already", []ranv1.ClusterStatus{soaks(2, 10*m, 40*m), atWork(3, 4*m, 0, 3)}, 6 * m},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			estimate := rollout.Estimate(underWay(append(slices.Clone(done), test.clusters...)...), soak, noon)
			require.Equal(t, test.expected, estimate.End.Sub(noon))
			require.WithinDuration(t, estimate.End.Time, estimate.Earliest.Time, 5*time.Second, "all took the same")
			require.WithinDuration(t, estimate.End.Time, estimate.Latest.Time, 5*time.Second)
		})
	}
	estimate := rollout.Estimate(underWay(soaks(1, 10*m, 0), waiting(2)), soak, noon)
	require.NotNil(t, estimate, "the work on a cluster is done")
	require.Equal(t, soak+10*m, estimate.End.Sub(noon))
}

func TestThereIsNoEstimateWithoutSamples(t *testing.T) {
	paused, over, planned := underWay(took(1, time.Minute), waiting(2)), underWay(took(1, time.Minute)), underWay(took(1, time.Minute))
	held := underWay(took(1, time.Minute), waiting(2))
	held.Held = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	unapproved := underWay(took(1, time.Minute), waiting(2))
	unapproved.Wait = &drydockv1.Wait{Reason: ranv1.ReasonWaitingForApproval}
	paused.Paused, over.Status.CompletedAt, planned.Status.StartedAt = true, ago(0), nil
	for name, status := range map[string]*ranv1.ClusterGroupUpgradeStatus{
		"paused": paused, "waiting for an approval": unapproved, "held": held, "over": over, "planned": planned, "no node is done": underWay(atWork(1, time.Minute, 0, 4)),
	} {
		require.Nil(t, rollout.Estimate(status, time.Hour, noon), name)
	}
}

func TestTheEstimateLiesInItsRangeAndNotInThePast(t *testing.T) {
	minutes := func(t *rapid.T, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 100).Draw(t, name)) * time.Minute
	}
	rapid.Check(t, func(t *rapid.T) {
		list := []ranv1.ClusterStatus{took(1, minutes(t, "first"))}
		for batch := range int32(rapid.IntRange(0, 4).Draw(t, "batches")) {
			for range rapid.IntRange(1, 3).Draw(t, "clusters") {
				list = append(list, rapid.SampledFrom([]ranv1.ClusterStatus{
					took(batch, minutes(t, "took")), atWork(batch, minutes(t, "since"), 0, 2), waiting(batch), soaks(batch, minutes(t, "worked"), minutes(t, "soaked")),
				}).Draw(t, "cluster"))
			}
		}
		estimate := rollout.Estimate(underWay(list...), minutes(t, "soak"), noon)
		if left := slices.ContainsFunc(list, func(c ranv1.ClusterStatus) bool { return !c.State.Over() }); !left {
			require.Nil(t, estimate)
			return
		}
		require.False(t, estimate.Earliest.Time.Before(noon))
		require.False(t, estimate.End.Before(&estimate.Earliest), "%v", estimate)
		require.False(t, estimate.Latest.Before(&estimate.End), "%v", estimate)
	})
}
