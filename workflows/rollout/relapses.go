package rollout

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

const (
	// relapseGather is how long complete clusters are gathered before the watch for relapses includes them.
	relapseGather = 10 * time.Second
	// maxRelapseRetries is how often a rollout retries relapsed clusters: something else may undo what the policies do, again and again.
	maxRelapseRetries = 3
)

// watchRelapses marks complete clusters that relapse, until ctx is cancelled. The watch includes complete clusters once they are half as many again: each
// watch has all their names in its input. Others are looked at when the last batch has ended.
func (g *groupUpgrade) watchRelapses(ctx workflow.Context) {
	relapses := g.remediator.Relapses()
	if relapses == nil {
		return
	}
	included := int32(0)
	grown := func() bool { return g.status.Counts.Complete > included+included/2 }
	workflow.GoNamed(ctx, "watch for relapses", func(ctx workflow.Context) {
		for workflow.Await(ctx, grown) == nil && workflow.Sleep(ctx, relapseGather) == nil {
			included = g.status.Counts.Complete
			for clusters := g.clustersToWatch(); len(clusters) > 0 && !grown(); clusters = g.clustersToWatch() {
				err := g.markRelapses(ctx, relapses, clusters, grown)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					g.record.note("could not watch complete clusters for relapses: " + temporal.ErrorMessage(err))
					return
				}
			}
		}
	})
}

// markRelapses watches some complete clusters, and marks those that relapse, until they are too few of all complete ones.
func (g *groupUpgrade) markRelapses(ctx workflow.Context, relapses policy.Relapses, clusters []string, tooFew func() bool) error {
	watching, stop := workflow.WithCancel(ctx)
	defer stop()
	var seen []policy.Relapse
	var err error
	ended := false
	workflow.GoNamed(watching, "relapses", func(ctx workflow.Context) {
		seen, err = relapses.Await(ctx, clusters)
		ended = true
	})
	if failed := workflow.Await(ctx, func() bool { return ended || tooFew() }); failed != nil || !ended {
		return failed
	}
	g.record.relapsed(ctx, seen)
	return err
}

// clustersToWatch are the done clusters that are not known to have relapsed.
func (g *groupUpgrade) clustersToWatch() []string {
	return slices.DeleteFunc(rollout.Done(g.status.Clusters), func(name string) bool { return g.record.cluster(name).Reason == rollout.ReasonRelapsed })
}

// relapsesDue reports whether clusters have relapsed that are retried before the catch-up batch continues. They are not retried in the time to catch up.
func (b *batch) relapsesDue(ctx workflow.Context) bool {
	g := b.group
	relapsed := func(c ranv1.ClusterStatus) bool { return c.Reason == rollout.ReasonRelapsed && rollout.IsDone(&c) }
	return b.catchUp && g.clock.elapsed(workflow.Now(ctx)) < g.timeout() && slices.ContainsFunc(g.status.Clusters, relapsed)
}

// retryRelapsed looks at the done clusters again after the last batch, and makes those pending that have relapsed. It reports whether there are some.
// Without time, after too many retries, or if batchTimeoutAction is Abort, they fail instead.
func (g *groupUpgrade) retryRelapsed(ctx workflow.Context) bool {
	relapsed := g.findRelapsed(ctx)
	if len(relapsed) == 0 || ctx.Err() != nil {
		return false
	}
	switch {
	case g.clock.elapsed(workflow.Now(ctx)) >= g.timeout():
		g.record.relapsesOver(ctx, relapsed, ranv1.ClusterTimedOut, "no time is left to retry it")
	case g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort:
		g.record.relapsesOver(ctx, relapsed, ranv1.ClusterFailed, "it is not retried because batchTimeoutAction is Abort")
	case g.relapseRetries == maxRelapseRetries:
		g.record.relapsesOver(ctx, relapsed, ranv1.ClusterFailed, fmt.Sprintf("relapsed clusters have been retried %d times", maxRelapseRetries))
	default:
		g.relapseRetries++
		g.record.retryRelapsed(relapsed, g.spec.RemediationStrategy.Canaries)
		return true
	}
	return false
}

// failRelapsed looks at the done clusters again when a rollout ends before its last batch. Those that have relapsed have failed.
func (g *groupUpgrade) failRelapsed(ctx workflow.Context) {
	g.record.relapsesOver(ctx, g.findRelapsed(ctx), ranv1.ClusterFailed, "the rollout has ended")
}

// findRelapsed returns the done clusters that have relapsed, and marks them. If they cannot be read, these are the clusters that were marked before.
func (g *groupUpgrade) findRelapsed(ctx workflow.Context) []string {
	relapses, done := g.remediator.Relapses(), rollout.Done(g.status.Clusters)
	if relapses == nil || g.status.Status.CurrentBatchStartedAt == nil || len(done) == 0 {
		return nil
	}
	seen, err := relapses.Find(ctx, done)
	if err == nil {
		g.record.recovered(done, seen)
		g.record.relapsed(ctx, seen)
	} else if ctx.Err() == nil {
		g.record.note("could not look at complete clusters again: " + temporal.ErrorMessage(err))
	}
	return slices.DeleteFunc(done, func(name string) bool { return g.record.cluster(name).Reason != rollout.ReasonRelapsed })
}

// relapsed marks done clusters that have relapsed.
func (r *groupRecord) relapsed(ctx workflow.Context, seen []policy.Relapse) {
	var names []string
	for _, relapse := range seen {
		c := r.cluster(relapse.Cluster)
		if !rollout.IsDone(c) || c.Reason == rollout.ReasonRelapsed {
			continue
		}
		c.Reason, c.Since, c.CurrentPolicy = rollout.ReasonRelapsed, r.now(ctx), &relapse.Policy
		c.Message = fmt.Sprintf("policy %s is no longer Compliant", relapse.Policy.Name)
		if relapse.Policy.Status != "" {
			c.Message += ", but " + relapse.Policy.Status
		}
		names = append(names, relapse.Cluster)
		r.log.Info("Cluster relapsed", "cluster", c.Name, "batch", c.Batch, "policy", relapse.Policy.Name, "compliance", relapse.Policy.Status)
	}
	if len(names) > 0 {
		r.note("clusters that no longer comply, although they were complete: " + kit.JoinNames(names))
	}
}

// recovered removes the marks of done clusters that are not among those seen.
func (r *groupRecord) recovered(done []string, seen []policy.Relapse) {
	for _, name := range done {
		c := r.cluster(name)
		if c.Reason != rollout.ReasonRelapsed || slices.ContainsFunc(seen, func(relapse policy.Relapse) bool { return relapse.Cluster == name }) {
			continue
		}
		c.Reason, c.Message, c.Since, c.CurrentPolicy = "", "complied again when the last batch had ended", nil, nil
		if c.State == ranv1.ClusterSkipped {
			c.Reason = rollout.ReasonAlreadyCompliant
		}
		r.log.Info("Cluster complies again", "cluster", c.Name, "batch", c.Batch)
	}
}

// retryRelapsed makes relapsed clusters pending. Those that had been skipped join the plan.
func (r *groupRecord) retryRelapsed(names, canaries []string) {
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.StartedAt, c.CompletedAt = ranv1.ClusterPending, nil, nil
		c.Message += "; it is retried"
	}
	rollout.AddToPlan(r.status, canaries)
	r.setClusters(r.status.Clusters)
	r.log.Info("Rollout retries relapsed clusters", "clusters", len(names))
	r.show()
}

// relapsesOver ends relapsed clusters that are not retried.
func (r *groupRecord) relapsesOver(ctx workflow.Context, names []string, state ranv1.ClusterState, why string) {
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.Since = state, r.now(ctx)
		c.Message += "; " + why
		r.log.Info("Cluster ended", "cluster", name, "batch", c.Batch, "state", c.State, "reason", c.Reason, "message", c.Message)
	}
	r.setClusters(r.status.Clusters)
	r.show()
}
