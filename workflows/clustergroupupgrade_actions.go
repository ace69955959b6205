package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// changedAtOnce is how many clusters' labels and annotations one activity changes.
	changedAtOnce = 200
	// shortestRefusal and longestRefusal are how long clusters are left alone that have refused a change.
	shortestRefusal = 2 * time.Second
	longestRefusal  = 5 * time.Minute
	// refusalsNamed is how many of the clusters that refuse a change a status names.
	refusalsNamed = 5
	// reasonRefused is the reason of a rollout that waits for clusters which refuse a change.
	reasonRefused = "ClustersRefused"
)

// completions are the clusters that are complete, and what afterCompletion does to them. Those that complete while others are being changed are
// changed together.
type completions struct {
	change rollout.ClusterChange
	// due are the clusters that are to be changed still.
	due    []string
	atWork bool
	// trouble shows why a change does not succeed yet.
	trouble func(ctx workflow.Context, reason, message string)
	// refused are those of them that have refused it.
	refused []activities.RefusedChange
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
			err := g.changeAll(ctx, some, change)
			switch {
			case ctx.Err() != nil:
				return rollout.EndCancelled, nil
			case err != nil:
				return "", err
			}
		}
	}
	g.changeSkipped()
	return "", nil
}

// changeSkipped: what afterCompletion asks for is due for the clusters that need no work, unless an earlier run has done it: who has removed a label since
// does not want it back.
func (g *groupUpgrade) changeSkipped() {
	if g.completions.change.Empty() || g.status.AfterCompletion != nil {
		return
	}
	g.status.AfterCompletion = &ranv1.AfterCompletionStatus{}
	g.completions.add(g.record.inState(ranv1.ClusterSkipped)...)
}

// changeLeft: what afterCompletion asks for is due for the clusters that the run before has left without it.
func (g *groupUpgrade) changeLeft() {
	left := g.status.AfterCompletion
	if left == nil {
		return
	}
	g.status.AfterCompletion = &ranv1.AfterCompletionStatus{}
	g.completions.add(slices.DeleteFunc(slices.Clone(left.NotDone), func(name string) bool {
		c := g.record.cluster(name)
		return c != nil && c.State != ranv1.ClusterComplete && c.State != ranv1.ClusterSkipped // it has failed since, and is done once more
	})...)
}

// notDone remembers that afterCompletion was not done to clusters.
func (g *groupUpgrade) notDone(clusters []string) {
	if after := g.status.AfterCompletion; after != nil {
		after.NotDone = append(after.NotDone, clusters...)
	}
}

// changeAll does what beforeEnable asks for to clusters. Those that refuse it are asked again until they take it, or have refused it for good.
func (g *groupUpgrade) changeAll(ctx workflow.Context, clusters []string, change rollout.ClusterChange) error {
	refused, err := g.change(ctx, "beforeEnable", clusters, change)
	trouble := g.record.troubles.add()
	for pause := shortestRefusal; err == nil && len(refused) > 0; pause = min(2*pause, longestRefusal) {
		if final := finally(refused); len(final) > 0 {
			trouble(ctx, "", "")
			return temporal.Error(temporal.ErrInvalidSpec, "actions.beforeEnable: "+answers(final), nil)
		}
		trouble(ctx, reasonRefused, "beforeEnable: "+answers(refused))
		if err = workflow.Sleep(ctx, pause); err == nil {
			refused, err = g.change(ctx, "beforeEnable", namesOf(refused), change)
		}
	}
	trouble(ctx, "", "")
	return err
}

// changeCompleted does what afterCompletion asks for to clusters as they complete, until ctx is cancelled.
func (g *groupUpgrade) changeCompleted(ctx workflow.Context) {
	c := &g.completions
	workflow.GoNamed(ctx, "afterCompletion", func(ctx workflow.Context) {
		pause := shortestRefusal
		for workflow.Await(ctx, func() bool { return len(c.due) > 0 }) == nil {
			some := slices.Clone(c.due[:min(len(c.due), changedAtOnce)])
			c.atWork = true
			refused, err := g.change(ctx, "afterCompletion", some, c.change)
			c.atWork = false
			if err != nil && ctx.Err() == nil {
				g.notDone(some)
				g.record.note(fmt.Sprintf("actions.afterCompletion could not be done to %s: %s", listed(some), temporal.ErrorMessage(err)))
			}
			if final := finally(refused); len(final) > 0 {
				g.notDone(namesOf(final))
				g.record.note("actions.afterCompletion could not be done: " + answers(final))
			}
			if g.takeRefusals(ctx, some, refused); len(c.refused) == 0 {
				pause = shortestRefusal
			} else if c.awaitOthers(ctx, pause) {
				pause = min(2*pause, longestRefusal)
			}
		}
	})
}

// takeRefusals takes in what came of changing some clusters: those that have refused come again, after all others.
func (g *groupUpgrade) takeRefusals(ctx workflow.Context, some []string, refused []activities.RefusedChange) {
	c := &g.completions
	asked := func(r activities.RefusedChange) bool { return slices.Contains(some, r.Cluster) }
	again := slices.DeleteFunc(slices.Clone(refused), func(r activities.RefusedChange) bool { return r.Final })
	c.refused = append(slices.DeleteFunc(c.refused, asked), again...)
	c.due = append(c.due[len(some):], namesOf(again)...)
	reason, message := "", ""
	if len(c.refused) > 0 {
		reason, message = reasonRefused, "afterCompletion: "+answers(c.refused)
	}
	c.trouble(ctx, reason, message)
}

// awaitOthers waits until other clusters are due than those that have refused, or for as long as those are left alone; then it returns true.
func (c *completions) awaitOthers(ctx workflow.Context, pause time.Duration) bool {
	waiting, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(waiting, pause, workflow.TimerOptions{Summary: "ask clusters again that refuse afterCompletion"})
	_ = workflow.Await(ctx, func() bool { return len(c.due) > len(c.refused) || timer.IsReady() })
	over := timer.IsReady()
	stop()
	return over
}

// finally are those that have refused for good.
func finally(refused []activities.RefusedChange) []activities.RefusedChange {
	return slices.DeleteFunc(slices.Clone(refused), func(r activities.RefusedChange) bool { return !r.Final })
}

func namesOf(refused []activities.RefusedChange) []string {
	var names []string
	for _, r := range refused {
		names = append(names, r.Cluster)
	}
	return names
}

// answers are what the hub says of the first of the clusters that refuse a change.
func answers(refused []activities.RefusedChange) string {
	var messages []string
	for _, r := range refused[:min(len(refused), refusalsNamed)] {
		messages = append(messages, r.Message)
	}
	if more := len(refused) - len(messages); more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}

func (g *groupUpgrade) change(ctx workflow.Context, action string, clusters []string, change rollout.ClusterChange) ([]activities.RefusedChange, error) {
	summary := action + " on " + clusters[0]
	if len(clusters) > 1 {
		summary += fmt.Sprintf(" and %d more", len(clusters)-1)
	}
	var refused []activities.RefusedChange
	err := g.insist().effect(ctx, summary, g.hub.ChangeClusters, activities.ChangeClustersInput{Clusters: clusters, Change: change}, &refused)
	return refused, err
}

// finishChanges waits until afterCompletion is done to every complete cluster. A rollout that is cancelled does not wait for longer than it insists on keeping its
// status.
func (g *groupUpgrade) finishChanges(work, listening workflow.Context) {
	made := func() bool { return len(g.completions.due) == 0 }
	if workflow.Await(work, made) == nil {
		return
	}
	waiting, stop := workflow.WithCancel(listening)
	limit := workflow.NewTimerWithOptions(waiting, hubLimit, workflow.TimerOptions{Summary: "afterCompletion"})
	_ = workflow.Await(waiting, func() bool { return made() || limit.IsReady() })
	stop() // not deferred: a run that is evicted from the cache must give no command
	if !made() {
		g.notDone(g.completions.due)
		note := "actions.afterCompletion was not done to " + listed(g.completions.due)
		if len(g.completions.refused) > 0 {
			note += ": " + answers(g.completions.refused)
		}
		g.record.note(note)
		g.completions.trouble(listening, "", "")
	}
}
