package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Estimate predicts the end of a rollout from the durations of its clusters so far; nil: no estimate is possible, for example during a pause, or while a
// cluster is offline.
// - The earliest end assumes that the remaining clusters are as fast as the fastest one so far, the latest end that they are as slow as the slowest.
// - The expected end assumes that a batch takes as long as its slowest cluster. The larger the batch, the nearer that is to the slowest cluster so
// far.
// - A running cluster that exceeds all durations so far may end now, or take as long again.
// - Before the first cluster is complete, running clusters are expected to continue at the speed of their nodes.
func Estimate(status *ranv1.ClusterGroupUpgradeStatus, soak time.Duration, now time.Time) *ranv1.Estimate {
	unapproved := status.Wait != nil && status.Wait.Reason == ranv1.ReasonWaitingForApproval
	if status.Paused || unapproved || status.Held != nil || status.Status.StartedAt == nil || status.Status.CompletedAt != nil {
		return nil
	}
	if status.Counts.Offline > 0 {
		return nil
	}
	seen, batches := durationsOf(status.Clusters, now), remainingBatches(status.Clusters, now)
	if seen.count == 0 || len(batches) == 0 {
		return nil
	}
	var least, expected, most time.Duration
	for i, batch := range batches {
		soak := soak
		if !slices.ContainsFunc(batches[i+1:], func(b remainingBatch) bool { return b.waiting }) {
			soak = 0
		}
		left, usually := batch.workLeft(seen.slow()), batch.workLeft(seen.slowestOf(batch.clusters))
		if batch.oldest > seen.before {
			left, usually = max(left, batch.oldest), max(usually, batch.oldest/2)
		}
		least += batch.timeLeft(batch.workLeft(seen.fast()), soak)
		most += batch.timeLeft(left, soak)
		if usually > 0 {
			left = usually
		} else {
			left /= 2 // it exceeds the usual duration by an unknown time
		}
		expected += batch.timeLeft(left, soak)
	}
	at := func(left time.Duration) metav1.Time { return metav1.NewTime(now.Add(left).Truncate(time.Second)) }
	return &ranv1.Estimate{End: at(expected), Earliest: at(least), Latest: at(most)}
}

// remainingBatches returns the remaining work of each batch, by batch number.
func remainingBatches(clusters []ranv1.ClusterStatus, now time.Time) []remainingBatch {
	var batches []remainingBatch
	for i := range clusters {
		c := &clusters[i]
		if c.State.Over() {
			continue
		}
		for len(batches) <= int(c.Batch) {
			batches = append(batches, remainingBatch{})
		}
		batches[c.Batch].add(c, now)
	}
	return batches
}

// remainingBatch are the unfinished clusters of a batch.
type remainingBatch struct {
	// clusters is the number of clusters that need more work than to soak.
	clusters int
	// waiting: a cluster is pending. youngest is the age of the running cluster that started last, oldest of the one that started first.
	waiting          bool
	youngest, oldest time.Duration
	// soaking: some clusters only soak. soaked is how long the last of them has soaked.
	soaking bool
	soaked  time.Duration
}

func (b *remainingBatch) add(c *ranv1.ClusterStatus, now time.Time) {
	if soaks(c) {
		if soaked := now.Sub(c.CompletedAt.Time); !b.soaking || soaked < b.soaked {
			b.soaking, b.soaked = true, soaked
		}
		return
	}
	b.clusters++
	if c.StartedAt == nil {
		b.waiting = true
		return
	}
	age := now.Sub(c.StartedAt.Time)
	b.oldest = max(b.oldest, age)
	if b.clusters == 1 || age < b.youngest {
		b.youngest = age
	}
}

// soaks reports whether the work on a cluster is done, and it only soaks.
func soaks(c *ranv1.ClusterStatus) bool {
	return c.State == ranv1.ClusterSoaking && c.CompletedAt != nil
}

// workLeft is the remaining time of the work if a cluster takes that long.
func (b *remainingBatch) workLeft(cluster time.Duration) time.Duration {
	switch {
	case b.clusters == 0:
		return 0
	case b.waiting:
		return cluster
	}
	return max(cluster-b.youngest, 0)
}

// timeLeft is the time until the next batch starts, given the remaining time of the work.
func (b *remainingBatch) timeLeft(work, soak time.Duration) time.Duration {
	left := time.Duration(0)
	if b.soaking {
		left = max(soak-b.soaked, 0)
	}
	if b.clusters > 0 {
		left = max(left, work+soak)
	}
	return left
}

// durations of clusters.
type durations struct {
	count                    int
	shortest, longest, total time.Duration
	// before is the longest counted duration. longest may also be that of a running cluster.
	before time.Duration
}

// durationsOf returns the durations of the clusters whose work is done or, without any, the projected durations of running clusters. longest is at
// least the age of the oldest running cluster.
func durationsOf(clusters []ranv1.ClusterStatus, now time.Time) durations {
	var complete, projected durations
	var oldest time.Duration
	for i := range clusters {
		c := &clusters[i]
		if c.StartedAt == nil {
			continue
		}
		age := now.Sub(c.StartedAt.Time)
		switch {
		case c.State == ranv1.ClusterComplete && c.CompletedAt != nil, soaks(c):
			complete.add(c.CompletedAt.Sub(c.StartedAt.Time))
			continue
		case c.State.Over():
			continue
		case c.Nodes.Done > 0:
			projected.add(age * time.Duration(c.Nodes.Total) / time.Duration(c.Nodes.Done))
		}
		oldest = max(oldest, age)
	}
	seen := complete
	if complete.count == 0 {
		seen = projected
	}
	seen.before, seen.longest = seen.longest, max(seen.longest, oldest)
	return seen
}

func (d *durations) add(duration time.Duration) {
	if d.count == 0 || duration < d.shortest {
		d.shortest = duration
	}
	d.longest = max(d.longest, duration)
	d.total += duration
	d.count++
}

// fast and slow bound the probable duration of the next cluster. With one sample the bounds are half and twice its duration; with many samples they
// approach the fastest and the slowest.
func (d *durations) fast() time.Duration {
	return d.shortest * time.Duration(d.count) / time.Duration(d.count+1)
}

func (d *durations) slow() time.Duration {
	return d.longest * time.Duration(d.count+1) / time.Duration(d.count)
}

// slowestOf is the expected duration of the slowest of that many clusters: the mean for one cluster, nearer to the longest with more.
func (d *durations) slowestOf(clusters int) time.Duration {
	mean := d.total / time.Duration(d.count)
	return mean + (d.longest-mean)*time.Duration(clusters-1)/time.Duration(clusters+1)
}
