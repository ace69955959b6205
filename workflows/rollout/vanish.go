package rollout

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// deletionWatch watches whether ManagedClusters of running clusters are deleted.
type deletionWatch struct {
	watched []string
	// number of the current watch. Reports of earlier ones are ignored.
	number int
	stop   workflow.CancelFunc
	// noted: a note says that the hub could not be watched.
	noted bool
}

// watchAhead is the number of pending clusters that are watched along with the running ones. Each change of the watched clusters costs an
// activity, and a rolling rollout starts one cluster after another.
const watchAhead = 50

// watchDeletions watches clusters that were just started. If the hub cannot be watched, work continues: the watch is retried, and the clusters
// are looked up when the batch is over.
func (b *batch) watchDeletions(clusters []*policy.ClusterWork) {
	v := &b.deletions
	unwatched := func(work *policy.ClusterWork) bool { return !slices.Contains(v.watched, work.Cluster) }
	if !slices.ContainsFunc(clusters, unwatched) {
		return
	}
	v.stopWatching()
	watching, stop := workflow.WithCancel(b.work)
	v.stop, v.watched = stop, slices.Concat(b.active(), b.pending[:min(watchAhead, len(b.pending))])
	number := v.number
	retrier := kit.HubRetrier(nil)
	workflow.GoNamed(watching, "watch for deleted clusters", func(ctx workflow.Context) {
		for len(v.watched) > 0 {
			var vanished []string
			err := retrier.Wait(ctx, fmt.Sprintf("watch for deleted clusters of batch %d", b.first), nil, "", b.group.hub.AwaitDeletedClusters, v.watched, &vanished)
			if v.number != number || ctx.Err() != nil {
				return
			}
			if err != nil {
				if b.pauseWatch(ctx, err) != nil {
					return
				}
				continue
			}
			v.watched = slices.DeleteFunc(slices.Clone(v.watched), func(name string) bool { return slices.Contains(vanished, name) })
			b.failDeleted(ctx, vanished)
		}
	})
}

// pauseWatch notes that the hub cannot be watched, and waits before the next try.
func (b *batch) pauseWatch(ctx workflow.Context, err error) error {
	if !b.deletions.noted {
		b.deletions.noted = true
		b.group.record.note("could not watch for deleted clusters: " + temporal.ErrorMessage(err))
	}
	return workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before the watch for deleted clusters is retried"}).Get(ctx, nil)
}

// stopWatching ends the watch. Its reports are ignored from now on.
func (v *deletionWatch) stopWatching() {
	v.number++
	if v.stop != nil {
		v.stop()
	}
}

// active are the clusters of the batch that are running or soak, in order.
func (b *batch) active() []string {
	return slices.DeleteFunc(slices.Clone(b.clusters), func(name string) bool { return b.running[name] == nil })
}

// retrier retries activities on the hub for no longer than the batch has time.
func (b *batch) retrier(ctx workflow.Context) kit.Retrier {
	now := workflow.Now(ctx)
	return b.group.retrier().Until(now.Add(b.timeLeft(now)))
}

// failDeletedNow fails those of the clusters whose ManagedCluster is gone. If the hub does not answer, it returns the error and fails none.
func (b *batch) failDeletedNow(ctx workflow.Context, retrier kit.Retrier, names []string) error {
	if len(names) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	var vanished []string
	err := retrier.Run(ctx, b.deletedSummary(), b.group.hub.DeletedClusters, names, &vanished)
	b.failDeleted(ctx, vanished)
	return err
}

func (b *batch) deletedSummary() string {
	return fmt.Sprintf("check for deleted clusters of batch %d", b.first)
}

// failDeleted fails clusters whose ManagedCluster is gone, even complete ones. A running cluster is withdrawn.
func (b *batch) failDeleted(ctx workflow.Context, names []string) {
	if len(names) == 0 {
		return
	}
	g := b.group
	g.record.clustersDeleted(ctx, names)
	for _, name := range names {
		cluster := b.running[name]
		if cluster == nil {
			continue
		}
		if cluster.withdrawDeleted(); cluster.state == rollout.WorkEnded {
			delete(b.running, name)
			g.record.batchReached(ctx, b.currentBatch())
		}
	}
	b.pending = g.record.pending(b.pending)
	b.changed = true
}
