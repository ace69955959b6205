package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

const (
	// changesPerActivity is the number of clusters that one activity labels and annotates.
	changesPerActivity = 200
	// minRefusalPause and maxRefusalPause limit the pause before a refused change is retried.
	minRefusalPause = 2 * time.Second
	maxRefusalPause = 5 * time.Minute
	// refusalsNamed is the maximum number of refusing clusters that a status names.
	refusalsNamed = 5
)

// The reason of a refused change: the rollout waits for clusters that refuse it.
const reasonRefused = "ClustersRefused"

// completions runs afterCompletion on complete clusters. It changes many clusters in one activity.
type completions struct {
	change rollout.ClusterChange
	// due are the clusters on which afterCompletion has not run yet.
	due     []string
	running bool
	// reportRetry shows why a change is retried.
	reportRetry kit.Report
	// refused are the due clusters that refused the change.
	refused []rollouts.RefusedChange
}

// add makes afterCompletion due on clusters.
func (c *completions) add(clusters ...string) {
	if !c.change.Empty() {
		c.due = append(c.due, clusters...)
	}
}

// runBeforeEnable runs beforeEnable on all clusters before work starts on the first one. It then makes afterCompletion due for clusters that need no work.
func (g *groupUpgrade) runBeforeEnable(ctx workflow.Context) (rollout.End, error) {
	before := rollout.ClustersToChange(g.record.remediation, g.status.Clusters)
	if change := rollout.ChangeBefore(&g.spec.Actions); !change.Empty() {
		for some := range slices.Chunk(before, changesPerActivity) {
			err := g.changeUntilAccepted(ctx, some, change)
			switch {
			case ctx.Err() != nil:
				return rollout.EndCancelled, nil
			case err != nil:
				return "", err
			}
		}
	}
	g.queueSkippedClusters()
	return "", nil
}

// queueSkippedClusters makes afterCompletion due for clusters that need no work, unless an earlier run did: a label that a person removed since then must
// not come back.
func (g *groupUpgrade) queueSkippedClusters() {
	if g.completions.change.Empty() || g.status.AfterCompletion != nil {
		return
	}
	g.status.AfterCompletion = &ranv1.AfterCompletionStatus{}
	g.completions.add(rollout.DoneBefore(g.status.Clusters)...)
}

// queueUnchangedClusters makes afterCompletion due for the clusters on which the previous rollout did not run it.
func (g *groupUpgrade) queueUnchangedClusters() {
	left := g.status.AfterCompletion
	if left == nil {
		return
	}
	g.status.AfterCompletion = &ranv1.AfterCompletionStatus{}
	g.completions.add(slices.DeleteFunc(slices.Clone(left.NotDone), func(name string) bool {
		c := g.record.cluster(name)
		return c != nil && c.State != ranv1.ClusterComplete && c.State != ranv1.ClusterSkipped // the cluster is retried
	})...)
}

// recordNotDone records clusters on which afterCompletion did not run.
func (g *groupUpgrade) recordNotDone(clusters []string) {
	if after := g.status.AfterCompletion; after != nil {
		after.NotDone = append(after.NotDone, clusters...)
	}
}

// changeUntilAccepted runs beforeEnable on clusters. It retries clusters that refuse the change, until one refuses it finally.
func (g *groupUpgrade) changeUntilAccepted(ctx workflow.Context, clusters []string, change rollout.ClusterChange) error {
	refused, err := g.change(ctx, "beforeEnable", clusters, change)
	trouble := g.record.retries.Add()
	for pause := minRefusalPause; err == nil && len(refused) > 0; pause = min(2*pause, maxRefusalPause) {
		if final := finalRefusals(refused); len(final) > 0 {
			trouble(ctx, "", "")
			return temporal.Error(temporal.ErrInvalidSpec, "actions.beforeEnable: "+refusalMessages(final), nil)
		}
		trouble(ctx, reasonRefused, "beforeEnable: "+refusalMessages(refused))
		if err = workflow.Sleep(ctx, pause); err == nil {
			refused, err = g.change(ctx, "beforeEnable", namesOf(refused), change)
		}
	}
	trouble(ctx, "", "")
	return err
}

// runAfterCompletion runs afterCompletion on due clusters until ctx is cancelled.
func (g *groupUpgrade) runAfterCompletion(ctx workflow.Context) {
	c := &g.completions
	workflow.GoNamed(ctx, "afterCompletion", func(ctx workflow.Context) {
		pause := minRefusalPause
		for workflow.Await(ctx, func() bool { return len(c.due) > 0 }) == nil {
			some := slices.Clone(c.due[:min(len(c.due), changesPerActivity)])
			c.running = true
			refused, err := g.change(ctx, "afterCompletion", some, c.change)
			c.running = false
			if err != nil && ctx.Err() == nil {
				g.recordNotDone(some)
				g.record.note(fmt.Sprintf("actions.afterCompletion failed on %s: %s", kit.JoinNames(some), temporal.ErrorMessage(err)))
			}
			if final := finalRefusals(refused); len(final) > 0 {
				g.recordNotDone(namesOf(final))
				g.record.note("actions.afterCompletion failed: " + refusalMessages(final))
			}
			if g.recordRefusals(ctx, some, refused); len(c.refused) == 0 {
				pause = minRefusalPause
			} else if c.awaitOthers(ctx, pause) {
				pause = min(2*pause, maxRefusalPause)
			}
		}
	})
}

// recordRefusals records which of the changed clusters refused the change. They are retried after all other due clusters.
func (g *groupUpgrade) recordRefusals(ctx workflow.Context, changed []string, refused []rollouts.RefusedChange) {
	c := &g.completions
	isChanged := func(r rollouts.RefusedChange) bool { return slices.Contains(changed, r.Cluster) }
	retried := slices.DeleteFunc(slices.Clone(refused), func(r rollouts.RefusedChange) bool { return r.Final })
	c.refused = append(slices.DeleteFunc(c.refused, isChanged), retried...)
	c.due = append(c.due[len(changed):], namesOf(retried)...)
	reason, message := "", ""
	if len(c.refused) > 0 {
		reason, message = reasonRefused, "afterCompletion: "+refusalMessages(c.refused)
	}
	c.reportRetry(ctx, reason, message)
}

// awaitOthers waits until another cluster is due, or until the pause has passed; then it returns true.
func (c *completions) awaitOthers(ctx workflow.Context, pause time.Duration) bool {
	waiting, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(waiting, pause, workflow.TimerOptions{Summary: "retry afterCompletion on clusters that refused it"})
	_ = workflow.Await(ctx, func() bool { return len(c.due) > len(c.refused) || timer.IsReady() })
	over := timer.IsReady()
	stop()
	return over
}

// finalRefusals returns the refusals that no retry can change.
func finalRefusals(refused []rollouts.RefusedChange) []rollouts.RefusedChange {
	return slices.DeleteFunc(slices.Clone(refused), func(r rollouts.RefusedChange) bool { return !r.Final })
}

func namesOf(refused []rollouts.RefusedChange) []string {
	var names []string
	for _, r := range refused {
		names = append(names, r.Cluster)
	}
	return names
}

// refusalMessages joins the messages of the first refusing clusters.
func refusalMessages(refused []rollouts.RefusedChange) string {
	var messages []string
	for _, r := range refused[:min(len(refused), refusalsNamed)] {
		messages = append(messages, r.Message)
	}
	if more := len(refused) - len(messages); more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}

func (g *groupUpgrade) change(ctx workflow.Context, action string, clusters []string, change rollout.ClusterChange) ([]rollouts.RefusedChange, error) {
	summary := action + " on " + clusters[0]
	if len(clusters) > 1 {
		summary += fmt.Sprintf(" and %d more", len(clusters)-1)
	}
	var refused []rollouts.RefusedChange
	err := g.retrier().Run(ctx, summary, g.hub.ChangeClusters, rollouts.ChangeClustersInput{Clusters: clusters, Change: change}, &refused)
	return refused, err
}

// finishAfterCompletion waits until afterCompletion has run on every complete cluster; in a cancelled rollout, at most for policy.HubLimit.
func (g *groupUpgrade) finishAfterCompletion(work, listening workflow.Context) {
	finished := func() bool { return len(g.completions.due) == 0 }
	if workflow.Await(work, finished) == nil {
		return
	}
	waiting, stop := workflow.WithCancel(listening)
	limit := workflow.NewTimerWithOptions(waiting, policy.HubLimit, workflow.TimerOptions{Summary: "afterCompletion"})
	_ = workflow.Await(waiting, func() bool { return finished() || limit.IsReady() })
	stop() // not deferred: deferred code also runs when the workflow is evicted from the cache
	if !finished() {
		g.recordNotDone(g.completions.due)
		note := "actions.afterCompletion did not run on " + kit.JoinNames(g.completions.due)
		if len(g.completions.refused) > 0 {
			note += ": " + refusalMessages(g.completions.refused)
		}
		g.record.note(note)
		g.completions.reportRetry(listening, "", "")
	}
}
