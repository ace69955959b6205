package rollout

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// deletionWatch watches for deleted ManagedClusters of active clusters. It runs as long as they do, so it also notices when no worker does.
type deletionWatch struct {
	watched []string
	// number is that of the current watch. Reports of earlier ones are ignored.
	number int
	stop   workflow.CancelFunc
	// noted: the status has a note that the watch failed.
	noted bool
}

// watchAhead is the number of pending clusters in a watch, besides the active ones. A watch with other clusters costs another activity, and a rolling
// rollout starts clusters one by one.
const watchAhead = 50

// watchDeletions includes newly started clusters in the watch. If the watch fails, it is retried and work continues: the ManagedClusters are also
// looked up at the end of the batch.
func (b *batch) watchDeletions(clusters []*policy.ClusterWork) {
	v := &b.deletions
	unwatched := func(work *policy.ClusterWork) bool { return !slices.Contains(v.watched, work.Cluster) }
	if !slices.ContainsFunc(clusters, unwatched) {
		return
	}
	v.stopWatching()
	watching, stop := workflow.WithCancel(b.work)
	v.stop, v.watched = stop, slices.Concat(b.activeNames(), b.pending[:min(watchAhead, len(b.pending))])
	number := v.number
	retrier := kit.HubRetrier(nil)
	workflow.GoNamed(watching, "watch for deleted clusters", func(ctx workflow.Context) {
		for len(v.watched) > 0 {
			var seen rollouts.SeenClusters
			err := retrier.Wait(ctx, fmt.Sprintf("watch for deleted clusters of batch %d", b.first), nil, "", b.group.hub.AwaitDeletedClusters, v.watched, &seen)
			if seen.WorkersAway != nil {
				b.group.workersAway(ctx, *seen.WorkersAway)
			}
			if v.number != number || ctx.Err() != nil {
				return
			}
			if err != nil {
				if b.pauseWatch(ctx, err) != nil {
					return
				}
				continue
			}
			v.watched = slices.DeleteFunc(slices.Clone(v.watched), func(name string) bool { return slices.Contains(seen.Deleted, name) })
			b.failDeleted(ctx, seen.Deleted)
		}
	})
}

// pauseWatch notes that the watch failed, and waits before the next attempt.
func (b *batch) pauseWatch(ctx workflow.Context, err error) error {
	if !b.deletions.noted {
		b.deletions.noted = true
		b.group.record.note("could not watch for deleted clusters: " + temporal.ErrorMessage(err))
	}
	return workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before the watch for deleted clusters is retried"}).Get(ctx, nil)
}

// stopWatching stops the watch. Its later reports are ignored.
func (v *deletionWatch) stopWatching() {
	v.number++
	if v.stop != nil {
		v.stop()
	}
}

// activeNames are the active clusters of the batch, in its order.
func (b *batch) activeNames() []string {
	return slices.DeleteFunc(slices.Clone(b.clusters), func(name string) bool { return b.active[name] == nil })
}

// retrier retries activities on the hub until the batch times out.
func (b *batch) retrier(ctx workflow.Context) kit.Retrier {
	now := workflow.Now(ctx)
	return b.group.retrier().Until(now.Add(b.timeLeft(now)))
}

// lookUp looks up clusters, and fails those whose ManagedCluster was deleted. If the lookup fails, it returns the error and fails none.
func (b *batch) lookUp(ctx workflow.Context, retrier kit.Retrier, names []string) (seen rollouts.SeenClusters, err error) {
	if len(names) == 0 || ctx.Err() != nil {
		return seen, ctx.Err()
	}
	err = retrier.Run(ctx, b.lookupSummary(), b.group.hub.LookUpClusters, names, &seen)
	b.failDeleted(ctx, seen.Deleted)
	return seen, err
}

func (b *batch) lookupSummary() string {
	return fmt.Sprintf("look up the clusters of batch %d", b.first)
}

// failDeleted fails clusters whose ManagedCluster was deleted, even complete ones. It cancels those that are running.
func (b *batch) failDeleted(ctx workflow.Context, names []string) {
	if len(names) == 0 {
		return
	}
	g := b.group
	g.record.clustersDeleted(ctx, names)
	for _, name := range names {
		cluster := b.active[name]
		if cluster == nil {
			continue
		}
		if cluster.cancelDeleted(); cluster.state == rollout.WorkEnded {
			delete(b.active, name)
			g.record.batchReached(ctx, b.currentBatch())
		}
	}
	b.pending, b.offline = g.record.notStarted(b.pending), g.record.notStarted(b.offline)
	b.changed = true
}
