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

// vanishWatch watches whether ManagedClusters of running clusters are deleted.
type vanishWatch struct {
	watched []string
	// number of the current watch. Reports of earlier ones are ignored.
	number int
	stop   workflow.CancelFunc
	// failed: a note says that the hub could not be watched.
	failed bool
}

// watchedAhead is the number of pending clusters that are watched along with the running ones. Each change of the watched clusters costs an
// activity, and a rolling rollout starts one cluster after another.
const watchedAhead = 50

// watchVanishing watches clusters that were just started. If the hub cannot be watched, work continues: the watch is retried, and the clusters
// are looked up when the batch is over.
func (b *batch) watchVanishing(clusters []*policy.ClusterWork) {
	v := &b.vanishing
	unwatched := func(work *policy.ClusterWork) bool { return !slices.Contains(v.watched, work.Cluster) }
	if !slices.ContainsFunc(clusters, unwatched) {
		return
	}
	v.end()
	watching, stop := workflow.WithCancel(b.work)
	v.stop, v.watched = stop, slices.Concat(b.begun(), b.pending[:min(watchedAhead, len(b.pending))])
	number := v.number
	retrier := kit.HubRetrier(nil)
	workflow.GoNamed(watching, "watch for deleted clusters", func(ctx workflow.Context) {
		for len(v.watched) > 0 {
			var vanished []string
			err := retrier.Wait(ctx, fmt.Sprintf("watch for deleted clusters of batch %d", b.first), nil, "", b.group.hub.AwaitVanished, v.watched, &vanished)
			if v.number != number || ctx.Err() != nil {
				return
			}
			if err != nil {
				if b.notWatched(ctx, err) != nil {
					return
				}
				continue
			}
			v.watched = slices.DeleteFunc(slices.Clone(v.watched), func(name string) bool { return slices.Contains(vanished, name) })
			b.vanish(ctx, vanished)
		}
	})
}

// notWatched notes that the hub cannot be watched, and waits before the next try.
func (b *batch) notWatched(ctx workflow.Context, err error) error {
	if !b.vanishing.failed {
		b.vanishing.failed = true
		b.group.record.note("could not watch for deleted clusters: " + temporal.ErrorMessage(err))
	}
	return workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before the watch for deleted clusters is retried"}).Get(ctx, nil)
}

// end ends the watch. Its reports are ignored from now on.
func (v *vanishWatch) end() {
	v.number++
	if v.stop != nil {
		v.stop()
	}
}

// begun are the clusters of the batch that are running or soak, in order.
func (b *batch) begun() []string {
	return slices.DeleteFunc(slices.Clone(b.clusters), func(name string) bool { return b.running[name] == nil })
}

// retrier retries activities on the hub for no longer than the batch has time.
func (b *batch) retrier(ctx workflow.Context) kit.Retrier {
	now := workflow.Now(ctx)
	return b.group.retrier().Until(now.Add(b.left(now)))
}

// dropVanished fails those of the clusters whose ManagedCluster is gone. If the hub does not answer, it returns the error and fails none.
func (b *batch) dropVanished(ctx workflow.Context, retrier kit.Retrier, names []string) error {
	if len(names) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	var vanished []string
	err := retrier.Run(ctx, b.vanishedSummary(), b.group.hub.VanishedClusters, names, &vanished)
	b.vanish(ctx, vanished)
	return err
}

func (b *batch) vanishedSummary() string {
	return fmt.Sprintf("check for deleted clusters of batch %d", b.first)
}

// vanish fails clusters whose ManagedCluster is gone, even complete ones. A running cluster is withdrawn.
func (b *batch) vanish(ctx workflow.Context, names []string) {
	if len(names) == 0 {
		return
	}
	g := b.group
	g.record.vanished(ctx, names)
	for _, name := range names {
		cluster := b.running[name]
		if cluster == nil {
			continue
		}
		if cluster.vanish(); cluster.state == rollout.WorkEnded {
			delete(b.running, name)
			g.record.batchReached(ctx, b.reached())
		}
	}
	b.pending = g.record.pending(b.pending)
	b.changed = true
}
