package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// nodeRemedy maintains the nodes of each cluster: a ClusterUpgrade for each.
type nodeRemedy struct{ group *groupUpgrade }

func (n nodeRemedy) start(b *batch, clusters []*clusterAtWork) {
	for _, cluster := range clusters {
		n.startOne(b, cluster)
	}
	b.watchVanishing(clusters)
}

func (n nodeRemedy) startOne(b *batch, cluster *clusterAtWork) {
	g, ctx := n.group, cluster.ctx
	meta := g.in.Object.ObjectMeta
	in := ClusterUpgradeInput{
		Namespace: meta.Namespace, Rollout: meta.Name, Cluster: cluster.name, TaskQueue: temporal.TaskQueue, Batch: cluster.batch,
		ProgressLimit: progressLimit(b.atOnce(), g.timeout()),
		Held:          g.holds.about(cluster.name),
	}
	if queue, own := g.taskQueues[cluster.name]; own {
		in.TaskQueue = queue
	}
	if g.spec.NodeMaintenance != nil {
		in.Remediation = *g.spec.NodeMaintenance
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.ClusterUpgradeID(meta.Namespace, meta.Name, cluster.name),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       fmt.Sprintf("%s, batch %d", cluster.name, cluster.batch),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(meta.Namespace+"/"+meta.Name),
			temporal.AttributeCluster.ValueSet(cluster.name),
			temporal.AttributeBatch.ValueSet(int64(cluster.batch)),
		),
	}), temporal.ClusterUpgrade, in)
	over := func() bool { return !b.atWork(cluster) }
	workflow.GoNamed(ctx, "pause "+cluster.name, func(ctx workflow.Context) { g.passOnPause(ctx, child, over) })
	workflow.GoNamed(ctx, "hold "+cluster.name, func(ctx workflow.Context) {
		g.holds.passOn(ctx, func() emergency.State { return g.holds.about(cluster.name) }, in.Held, child, over)
	})
	workflow.GoNamed(ctx, "cluster "+cluster.name, func(ctx workflow.Context) {
		// The child is waited for even when this run is cancelled: it returns its nodes first.
		var result ranv1.ClusterStatus
		err := child.Get(ctx, &result)
		sweepAfter(ctx, err, cluster.name)
		b.ended(ctx, cluster, resultOf(result, err))
	})
}

// passOnPause tells a child at work of every pause and resume, in order. One is only started while the rollout is not paused.
func (g *groupUpgrade) passOnPause(ctx workflow.Context, child workflow.ChildWorkflowFuture, over func() bool) {
	status := &g.status
	told := false
	for {
		_ = workflow.Await(ctx, func() bool { return over() || status.Paused != told })
		if over() || ctx.Err() != nil {
			return
		}
		told = status.Paused
		signal := temporal.SignalResume
		if told {
			signal = temporal.SignalPause
		}
		// A child that is over meanwhile needs not be told: nothing to do about an error.
		_ = child.SignalChildWorkflow(ctx, signal, g.pauseRequest).Get(ctx, nil)
	}
}

// completeNow: none. What was not maintained in time is not maintained by now, as it was withdrawn.
func (nodeRemedy) completeNow(workflow.Context, []string) ([]string, error) { return nil, nil }

// atOnce: each has a child workflow.
func (nodeRemedy) atOnce() int { return clustersAtOnce }

// startedTogether: a child is a command of a workflow task.
func (nodeRemedy) startedTogether() int { return childrenAtOnce }

// settle: a ClusterUpgrade has cleaned up when it is over.
func (nodeRemedy) settle(workflow.Context) {}

// takeBack: nothing is made for the rollout as a whole.
func (nodeRemedy) takeBack(workflow.Context, bool) {}

// resultOf is the record of a cluster whose ClusterUpgrade is over.
func resultOf(result ranv1.ClusterStatus, err error) ranv1.ClusterStatus {
	if err != nil && !detailsOf(err, &result) {
		failure := failureOf(err)
		result.State, result.Reason, result.Message = ranv1.ClusterFailed, failure.Reason, failure.Message
	}
	if sdktemporal.IsCanceledError(err) {
		result.State = ranv1.ClusterCancelled
	}
	return result
}
