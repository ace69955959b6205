package rollout

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/health"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// maxHealthChecks is the maximum number of clusters that are checked at the same time. Each check is an activity, and the server refuses a run with
// too many.
const maxHealthChecks = 50

// healthOf checks clusters in parallel, and returns the errors of those that do not pass in time.
func (g *groupUpgrade) healthOf(ctx workflow.Context, clusters []string) map[string]error {
	failures := map[string]error{}
	left := len(clusters)
	for _, cluster := range clusters {
		workflow.GoNamed(ctx, "health of "+cluster, func(ctx workflow.Context) {
			if err := g.awaitClusterHealth(ctx, cluster); err != nil {
				failures[cluster] = err
			}
			left--
		})
	}
	waiting, stop := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return left == 0 })
	stop()
	return failures
}

// awaitClusterHealth waits until a cluster passes the health checks of the rollout. Only observations from now on count.
func (g *groupUpgrade) awaitClusterHealth(ctx workflow.Context, cluster string) error {
	if err := g.healthChecks.Acquire(ctx, 1); err != nil {
		return err
	}
	defer g.healthChecks.Release(1)
	now := workflow.Now(ctx)
	in := health.AwaitClusterHealthyInput{Cluster: cluster, Since: now, Checks: g.spec.HealthChecks}
	retrier := g.retrier()
	retrier.TaskQueue = g.taskQueueOf(cluster)
	return retrier.Wait(ctx, "check the health of "+cluster, kit.LastDeadline(ctx, &now, in.Checks), temporal.ErrHealthGateFailed,
		(&health.Activities{}).AwaitClusterHealthy, in, nil)
}

// checkHealth keeps the place of a cluster until it passes the health checks of the rollout.
func (b *batch) checkHealth(cluster *activeCluster, result ranv1.ClusterStatus) {
	g := b.group
	result.State = ranv1.ClusterComplete
	workflow.GoNamed(cluster.ctx, "health of "+cluster.name, func(ctx workflow.Context) {
		g.record.clusterChecked(ctx, cluster.name, nil)
		err := g.awaitClusterHealth(ctx, cluster.name)
		switch {
		case ctx.Err() != nil:
			result.State = ranv1.ClusterCancelled
		case err != nil:
			failed := policy.FailedCluster(err)
			result.State, result.Reason, result.Message = failed.State, failed.Reason, failed.Message
		}
		b.clusterEnded(ctx, cluster, result)
	})
}

// recordHealthWait records the wait of a health check: in the status of a running cluster or, at the health gate, in that of the rollout.
func (g *groupUpgrade) recordHealthWait(ctx workflow.Context, seen temporal.Observation) {
	switch {
	case seen.Wait == nil || g.cancelledBy != nil || g.healthStale():
	case g.batch == nil:
		wait := *seen.Wait
		wait.Message = "cluster " + seen.Cluster + ": " + wait.Message
		g.record.awaitingHealth(&wait)
	case g.batch.active[seen.Cluster] != nil:
		g.record.clusterChecked(ctx, seen.Cluster, seen.Wait)
	}
}

// clusterChecked records the wait of the health checks of a cluster; nil: they start.
func (r *groupRecord) clusterChecked(ctx workflow.Context, name string, wait *drydockv1.Wait) {
	report := *r.cluster(name)
	report.Step, report.Reason, report.Message, report.Since = string(ranv1.StepHealthChecks), "", "", nil
	if wait == nil {
		r.log.Info("Cluster enters a step", "cluster", name, "batch", report.Batch, "step", report.Step)
	} else {
		report.Reason, report.Message, report.Since = wait.Reason, wait.Message, &wait.Since
	}
	r.clusterProgressed(ctx, report)
}
