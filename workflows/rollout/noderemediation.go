package rollout

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/sweeper"
)

// nodeRemediator maintains the nodes of each cluster in a child workflow ClusterUpgrade.
type nodeRemediator struct{ group *groupUpgrade }

// Relapses implements Remediator.
func (n nodeRemediator) Relapses() policy.Relapses { return nil }

// Start implements Remediator.
func (n nodeRemediator) Start(clusters []*policy.ClusterWork) {
	for _, work := range clusters {
		n.startOne(work)
	}
	n.group.batch.watchDeletions(clusters)
}

func (n nodeRemediator) startOne(work *policy.ClusterWork) {
	g, ctx := n.group, work.Ctx
	meta := g.in.Object.ObjectMeta
	in := clusterupgrade.Input{
		Namespace: meta.Namespace, Rollout: meta.Name, Cluster: work.Cluster, TaskQueue: g.taskQueueOf(work.Cluster), Batch: work.Batch,
		ProgressLimit: kit.ProgressLimit(g.batch.maxConcurrency(), g.timeout()),
		Held:          g.holds.ForCluster(work.Cluster),
	}
	if g.spec.NodeMaintenance != nil {
		in.Remediation = *g.spec.NodeMaintenance
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.ClusterUpgradeID(meta.Namespace, meta.Name, work.Cluster),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       fmt.Sprintf("%s, batch %d", work.Cluster, work.Batch),
		StaticDetails:       temporal.ClusterDetails(work.Cluster, meta.Namespace+"/"+meta.Name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(meta.Namespace+"/"+meta.Name),
			temporal.AttributeCluster.ValueSet(work.Cluster),
			temporal.AttributeBatch.ValueSet(int64(work.Batch)),
		),
	}), temporal.ClusterUpgrade, in)
	childEnded := false
	ended := func() bool { return childEnded }
	workflow.GoNamed(ctx, "pause "+work.Cluster, func(ctx workflow.Context) { g.forwardPause(ctx, child, ended) })
	workflow.GoNamed(ctx, "hold "+work.Cluster, func(ctx workflow.Context) {
		g.holds.Forward(ctx, func() emergency.State { return g.holds.ForCluster(work.Cluster) }, in.Held, child, ended)
	})
	workflow.GoNamed(ctx, "cluster "+work.Cluster, func(ctx workflow.Context) {
		// Wait for the child even when this run is cancelled: the child returns its nodes first.
		var result ranv1.ClusterStatus
		err := child.Get(ctx, &result)
		childEnded = true
		sweeper.WakeIfTerminated(ctx, err, work.Cluster)
		work.Ended(ctx, resultOf(result, err))
	})
}

// forwardPause signals every pause and resume to a child, in order. A child starts while the rollout is not paused.
func (g *groupUpgrade) forwardPause(ctx workflow.Context, child workflow.ChildWorkflowFuture, ended func() bool) {
	status := &g.status
	forwarded := false
	for {
		_ = workflow.Await(ctx, func() bool { return ended() || status.Paused != forwarded })
		if ended() || ctx.Err() != nil {
			return
		}
		forwarded = status.Paused
		signal := temporal.SignalResume
		if forwarded {
			signal = temporal.SignalPause
		}
		// The only error is that the child has ended: ignore it.
		_ = child.SignalChildWorkflow(ctx, signal, g.pauseRequest).Get(ctx, nil)
	}
}

// FindComplete implements Remediator. It finds none: timed-out clusters were cancelled.
func (nodeRemediator) FindComplete(workflow.Context, []string) ([]string, error) { return nil, nil }

// MaxConcurrency implements Remediator: each cluster has a child workflow.
func (nodeRemediator) MaxConcurrency() int { return maxChildren }

// MaxStartsPerTask implements Remediator: each child is a command of a workflow task.
func (nodeRemediator) MaxStartsPerTask() int { return clusterupgrade.MaxStartsPerTask }

// Settle implements Remediator: a ClusterUpgrade cleans up before it ends.
func (nodeRemediator) Settle(workflow.Context) {}

// CleanUp implements Remediator: nodes need no objects for the rollout as a whole.
func (nodeRemediator) CleanUp(workflow.Context, bool) {}

// Prepared implements Remediator.
func (nodeRemediator) Prepared() *policy.PreparedItems { return nil }

// resultOf is the status of a cluster after its ClusterUpgrade has ended.
func resultOf(result ranv1.ClusterStatus, err error) ranv1.ClusterStatus {
	if err != nil && !kit.DetailsOf(err, &result) {
		failure := kit.FailureOf(err)
		result.State, result.Reason, result.Message = ranv1.ClusterFailed, failure.Reason, failure.Message
	}
	if sdktemporal.IsCanceledError(err) {
		result.State = ranv1.ClusterCancelled
	}
	return result
}
