package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// changedAtOnce is how many clusters' labels and annotations one activity changes.
const changedAtOnce = 200

// completions are the clusters that are complete, and what afterCompletion does to them. Those that complete while others are being changed are
// changed together.
type completions struct {
	change rollout.ClusterChange
	// due are the clusters that are to be changed still.
	due    []string
	atWork bool
}

// add takes in clusters that are complete, or needed no work.
func (c *completions) add(clusters ...string) {
	if !c.change.Empty() {
		c.due = append(c.due, clusters...)
	}
}

// changeBefore does what beforeEnable asks for, before any cluster is worked on. What afterCompletion asks for is due for the clusters that need no
// work.
func (g *groupUpgrade) changeBefore(ctx workflow.Context) (rollout.End, error) {
	before := rollout.ClustersToChange(g.record.remediation, g.status.Clusters)
	if change := rollout.ChangeBefore(&g.spec.Actions); !change.Empty() {
		for some := range slices.Chunk(before, changedAtOnce) {
			err := g.change(ctx, "beforeEnable", some, change)
			switch {
			case ctx.Err() != nil:
				return rollout.EndCancelled, nil
			case err != nil:
				return "", err
			}
		}
	}
	g.completions.add(g.record.inState(ranv1.ClusterSkipped)...)
	return "", nil
}

// changeCompleted does what afterCompletion asks for to clusters as they complete, until ctx is cancelled.
func (g *groupUpgrade) changeCompleted(ctx workflow.Context) {
	c := &g.completions
	workflow.GoNamed(ctx, "afterCompletion", func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return len(c.due) > 0 }) == nil {
			some := slices.Clone(c.due[:min(len(c.due), changedAtOnce)])
			c.atWork = true
			err := g.change(ctx, "afterCompletion", some, c.change)
			c.atWork = false
			if err != nil && ctx.Err() == nil {
				g.record.note(fmt.Sprintf("actions.afterCompletion could not be done to %s: %s", strings.Join(some, ", "), temporal.ErrorMessage(err)))
			}
			c.due = c.due[len(some):]
		}
	})
}

func (g *groupUpgrade) change(ctx workflow.Context, action string, clusters []string, change rollout.ClusterChange) error {
	summary := action + " on " + clusters[0]
	if len(clusters) > 1 {
		summary += fmt.Sprintf(" and %d more", len(clusters)-1)
	}
	insist := g.insist()
	return insist.effect(ctx, summary, g.hub.ChangeClusters, activities.ChangeClustersInput{Clusters: clusters, Change: change}, nil)
}

// finishChanges waits until afterCompletion is done to every complete cluster. A rollout that is cancelled does not wait for longer than it insists on keeping its
// status.
func (g *groupUpgrade) finishChanges(work, listening workflow.Context) {
	made := func() bool { return len(g.completions.due) == 0 }
	if workflow.Await(work, made) == nil {
		return
	}
	waiting, stop := workflow.WithCancel(listening)
	limit := workflow.NewTimerWithOptions(waiting, keepLimit, workflow.TimerOptions{Summary: "afterCompletion"})
	_ = workflow.Await(waiting, func() bool { return made() || limit.IsReady() })
	stop() // not deferred: a run that is evicted from the cache must give no command
	if !made() {
		g.record.note("actions.afterCompletion was not done to " + strings.Join(g.completions.due, ", "))
	}
}
