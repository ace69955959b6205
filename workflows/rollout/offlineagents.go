package rollout

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// A cluster whose agent is offline before its Job exists leaves its ClusterPreparation, so that it takes no place. It waits for one again when it is back: no
// more clusters are prepared at once than otherwise, even if all come back together.

// reported records the progress of a cluster as its ClusterPreparation reports it.
func (p *preparation) reported(ctx workflow.Context, name string, progress precache.Progress) {
	p.progress[name] = progress
	if _, known := p.offline[name]; !known && progress.Reason == temporal.ErrAgentOffline {
		p.offline[name], p.offlineChanged = workflow.Now(ctx).Add(p.work.Timeout), true
	}
}

// watchAgents waits for the agents that are offline, for each as long as its Job may take. One activity watches them all.
func (g *groupUpgrade) watchAgents(p *preparation) {
	workflow.GoNamed(p.ctx, string(p.work.Kind)+", offline agents", func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return len(p.offline) > 0 }) == nil {
			p.offlineChanged = false
			back := g.awaitAgents(ctx, p)
			if ctx.Err() != nil {
				return
			}
			g.agentsBack(p, back)
			g.giveUp(p, workflow.Now(ctx))
			g.record.showPreparation(ctx, p)
		}
	})
}

// awaitAgents returns the clusters that are back. It returns early when there are more to watch, or when the wait for one is over.
func (g *groupUpgrade) awaitAgents(ctx workflow.Context, p *preparation) []string {
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	watched := workflow.DeterministicKeys(p.offline)
	first := p.offline[watched[0]]
	for _, name := range watched {
		if p.offline[name].Before(first) {
			first = p.offline[name]
		}
	}
	var seen rollouts.SeenClusters
	ended := false
	retrier := g.retrier()
	retrier.Abandon = true
	workflow.GoNamed(ctx, "watch offline agents, "+string(p.work.Kind), func(ctx workflow.Context) {
		err := retrier.Watch(ctx, fmt.Sprintf("watch the offline agents of %d clusters", len(watched)), g.hub.AwaitClustersBack, watched, &seen)
		if err != nil && ctx.Err() == nil {
			g.record.note("could not watch for offline agents: " + temporal.ErrorMessage(err))
			_ = workflow.NewTimerWithOptions(ctx, kit.LongestRound, workflow.TimerOptions{Summary: "before offline agents are watched again"}).Get(ctx, nil)
		}
		ended = true
	})
	over := workflow.NewTimerWithOptions(ctx, first.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "end of the wait for the agent of a cluster"})
	_ = workflow.Await(ctx, func() bool { return ended || over.IsReady() || p.offlineChanged })
	return seen.Back
}

// agentsBack lets clusters wait for a place again, unless they are no longer in the plan. A late preparation waits for its cluster itself.
func (g *groupUpgrade) agentsBack(p *preparation, back []string) {
	if len(back) == 0 {
		return
	}
	planned := map[string]bool{}
	for _, name := range g.record.notStarted(slices.Concat(g.status.RemediationPlan...)) {
		planned[name] = true
	}
	g.leaveParts(p, back)
	for _, name := range back {
		p.progress[name] = precache.Progress{State: ranv1.PreparationNotStarted}
		switch {
		case p.late:
		case planned[name]:
			p.waiting = append(p.waiting, name)
		default:
			delete(p.progress, name)
		}
	}
}

// giveUp ends the wait for agents that is over.
func (g *groupUpgrade) giveUp(p *preparation, now time.Time) {
	over := slices.DeleteFunc(workflow.DeterministicKeys(p.offline), func(name string) bool { return now.Before(p.offline[name]) })
	g.leaveParts(p, over)
	for _, name := range over {
		p.progress[name] = precache.Progress{
			State: p.work.Kind.TimedOut(), Reason: temporal.ErrJobTimedOut,
			Message: fmt.Sprintf("its agent was offline for %s: %s", p.work.Timeout, p.progress[name].Message),
		}
	}
}

// leaveParts ends the wait for clusters. Their ClusterPreparations, which may still work on others, report nothing new about them.
func (g *groupUpgrade) leaveParts(p *preparation, names []string) {
	for _, name := range names {
		delete(p.offline, name)
	}
	for _, part := range g.activeParts {
		if part.of == p {
			part.clusters = slices.DeleteFunc(part.clusters, func(name string) bool { return slices.Contains(names, name) })
		}
	}
}
