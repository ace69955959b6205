package rollout

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Clusters that are offline do not hold the preparation of the others. They are prepared when they start.

// watchAvailability watches which clusters are offline or deleted while they are prepared. A rollout that is not enabled waits for them, and one that charges
// offline clusters waits until their Jobs time out.
func (g *groupUpgrade) watchAvailability(ctx workflow.Context, p *preparation, clusters []string) {
	if p.away = nil; !g.enabled || g.spec.RemediationStrategy.OfflineAction == ranv1.OfflineFail || len(clusters) == 0 {
		return
	}
	retrier := g.retrier()
	retrier.Abandon = true
	workflow.GoNamed(ctx, "watch for offline clusters, "+string(p.work.Kind), func(ctx workflow.Context) {
		for {
			var seen rollouts.SeenClusters
			err := retrier.Watch(ctx, fmt.Sprintf("watch whether %d clusters are Available", len(clusters)), g.hub.AwaitAvailabilityChange,
				rollouts.AvailabilityWatch{Clusters: clusters, Away: workflow.DeterministicKeys(p.away)}, &seen)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				g.record.note("could not watch for offline clusters: " + temporal.ErrorMessage(err))
				if workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before the watch for offline clusters is retried"}).Get(ctx, nil) != nil {
					return
				}
			case seen.WorkersAway == nil:
				p.away = map[string]bool{}
				for _, name := range slices.Concat(seen.Offline, seen.Deleted) {
					p.away[name] = true
				}
			}
		}
	})
}

// leaveOffline ends the preparation without the clusters that are offline, also if their Jobs have timed out.
func (g *groupUpgrade) leaveOffline(ctx workflow.Context, p *preparation, clusters []string) {
	for _, name := range clusters {
		state := p.progress[name].State
		if p.away[name] && (!state.Over() || state == p.work.Kind.TimedOut()) {
			p.progress[name] = precache.Progress{State: ranv1.PreparationNotStarted}
			p.late = true
			g.record.log.Info("Cluster is offline and will be prepared when it starts", "kind", p.work.Kind, "cluster", name)
		}
	}
	if p.late {
		p.stop()
		g.record.showPreparation(ctx, p)
	}
}

// prepared reports whether a cluster was not left out of a preparation.
func (g *groupUpgrade) prepared(cluster *activeCluster) bool {
	return !g.lacks(precache.Precaching, cluster) && !g.lacks(precache.Backup, cluster)
}

func (g *groupUpgrade) lacks(kind precache.Kind, cluster *activeCluster) bool {
	return g.statesOf(kind)[cluster.name] == ranv1.PreparationNotStarted
}

// prepareFirst prepares a started cluster that was offline when the others were prepared, and then starts the work on it. It takes its place in the batch
// meanwhile.
func (b *batch) prepareFirst(cluster *activeCluster) {
	workflow.GoNamed(cluster.ctx, "prepare "+cluster.name, func(ctx workflow.Context) {
		ending, _ := workflow.NewDisconnectedContext(ctx)
		for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
			if b.group.lacks(kind, cluster) {
				progress := b.prepareLate(ctx, kind, cluster.name)
				switch {
				case ctx.Err() != nil:
					b.clusterEnded(ending, cluster, ranv1.ClusterStatus{State: ranv1.ClusterCancelled})
					return
				case progress.State != ranv1.PreparationSucceeded:
					reason, message := failureOf(kind, progress)
					b.clusterEnded(ending, cluster, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: reason, Message: message})
					return
				}
			}
		}
		b.group.remediator.Start(b.workOn([]*activeCluster{cluster}))
	})
}

// maxLatePreparations is the maximum number of clusters that are prepared at the same time after the others.
const maxLatePreparations = 50

// prepareLate precaches or backs up a cluster, and waits for that, also if its agent is offline again. After a cancellation it waits until its Job is stopped.
func (b *batch) prepareLate(ctx workflow.Context, kind precache.Kind, name string) precache.Progress {
	g := b.group
	p := g.latePreparation(b.work, kind)
	isBack := func() bool { _, offline := p.offline[name]; return !offline }
	for again := true; again; again = p.progress[name].State == ranv1.PreparationNotStarted {
		g.record.preparesFirst(ctx, p, name)
		g.prepareOne(ctx, p, name)
		g.record.preparesFirst(ctx, p, name)
		if workflow.Await(ctx, isBack) != nil {
			break
		}
	}
	return p.progress[name]
}

func (g *groupUpgrade) prepareOne(ctx workflow.Context, p *preparation, name string) {
	// The first preparation of the cluster may still remove what it has left on the hub.
	mayStart := func() bool {
		return len(g.activeParts) < maxLatePreparations && !slices.ContainsFunc(g.activeParts, func(part *preparationPart) bool { return slices.Contains(part.clusters, name) })
	}
	if workflow.Await(ctx, mayStart) != nil {
		return
	}
	p.progress[name] = precache.Progress{State: ranv1.PreparationPreparingToStart}
	g.record.showPreparation(ctx, p)
	g.preparePart(ctx, g.newPart(p, []string{name}))
}

// latePreparation is the preparation of clusters that were offline when the others were prepared.
func (g *groupUpgrade) latePreparation(ctx workflow.Context, kind precache.Kind) *preparation {
	current := &g.precaching
	if kind == precache.Backup {
		current = &g.backup
	}
	if *current == nil || (*current).ctx.Err() != nil {
		*current = g.newPreparation(ctx, kind)
		(*current).late = true
		for _, name := range workflow.DeterministicKeys(g.statesOf(kind)) {
			(*current).progress[name] = precache.Progress{State: g.statesOf(kind)[name]}
		}
	}
	return *current
}
