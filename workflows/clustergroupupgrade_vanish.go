package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// vanishWatch watches, while clusters of a batch are worked on one by one, whether their ManagedClusters are deleted.
type vanishWatch struct {
	watched []string
	// number of the watch whose word counts.
	number int
	stop   workflow.CancelFunc
	// failed: it was said that the hub could not be watched.
	failed bool
}

// watchedAhead is how many clusters whose turn is to come are watched with those at work: each change of who is watched costs an activity, and a rolling
// rollout starts one cluster after the other.
const watchedAhead = 50

// watchVanishing sees to it that the clusters are watched, which are at work as of now. A hub that cannot be watched keeps nothing from going on: it is
// asked once more after a while, and when the batch is over.
func (b *batch) watchVanishing(clusters []*ClusterWork) {
	v := &b.vanishing
	unwatched := func(work *ClusterWork) bool { return !slices.Contains(v.watched, work.Cluster) }
	if !slices.ContainsFunc(clusters, unwatched) {
		return
	}
	v.end()
	watching, stop := workflow.WithCancel(b.work)
	v.stop, v.watched = stop, slices.Concat(b.begun(), b.pending[:min(watchedAhead, len(b.pending))])
	number := v.number
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}}
	workflow.GoNamed(watching, "watch whether clusters vanish", func(ctx workflow.Context) {
		for len(v.watched) > 0 {
			var vanished []string
			err := insist.wait(ctx, fmt.Sprintf("watch whether clusters of batch %d vanish", b.first), nil, "", b.group.hub.AwaitVanished, v.watched, &vanished)
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

// notWatched says that the hub refuses to be watched, and waits until that is tried once more.
func (b *batch) notWatched(ctx workflow.Context, err error) error {
	if !b.vanishing.failed {
		b.vanishing.failed = true
		b.group.record.note("whether clusters vanish could not be watched: " + temporal.ErrorMessage(err))
	}
	return workflow.NewTimerWithOptions(ctx, longestRound, workflow.TimerOptions{Summary: "before it is watched again whether clusters vanish"}).Get(ctx, nil)
}

// end ends the watch: what it says does not count any more.
func (v *vanishWatch) end() {
	v.number++
	if v.stop != nil {
		v.stop()
	}
}

// begun are the clusters of the batch that are at work or soak, in its order.
func (b *batch) begun() []string {
	return slices.DeleteFunc(slices.Clone(b.clusters), func(name string) bool { return b.running[name] == nil })
}

// insist returns an insistence on the hub for no longer than the batch has time.
func (b *batch) insist(ctx workflow.Context) insistence {
	now := workflow.Now(ctx)
	return b.group.insist().until(now.Add(b.left(now)))
}

// dropVanished fails those of the clusters that are no ManagedClusters any more: they are not worked on, and what was done to them counts for
// nothing. A hub that cannot be asked ends nothing that works.
func (b *batch) dropVanished(ctx workflow.Context, insist insistence, names []string) error {
	if len(names) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	var vanished []string
	err := insist.effect(ctx, b.vanishedSummary(), b.group.hub.VanishedClusters, names, &vanished)
	b.vanish(ctx, vanished)
	return err
}

func (b *batch) vanishedSummary() string {
	return fmt.Sprintf("look which clusters of batch %d have vanished", b.first)
}

// vanish fails clusters that are no ManagedClusters any more, also those that are complete. One at work is withdrawn.
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
