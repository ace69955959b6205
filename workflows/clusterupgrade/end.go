package clusterupgrade

import (
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// cleanUp withdraws the maintenance request of the cluster, so that its locks become active again.
func (c *clusterUpgrade) cleanUp(ctx workflow.Context) {
	c.record.enter(ranv1.StepCleaningUp)
	if !c.state.Locks.Request.Possible() {
		return
	}
	if c.state.Locks.Answer == nodemaintenance.LocksRequested && !c.awaitSwept(ctx) {
		return
	}
	retrier := c.retrier()
	retrier.Deadline = workflow.Now(ctx).Add(clusterCleanUpLimit)
	in := locks.ClusterLockInput{Cluster: c.in.Cluster, Owner: c.owner}
	summary := "withdraw the request for " + c.in.Cluster
	c.record.stages.Begin(ctx, ranv1.StageClusterMaintenanceRemoved)
	err := retrier.Run(ctx, summary, c.locks.WithdrawClusterMaintenance, in, nil)
	c.record.stages.End(ctx, ranv1.StageClusterMaintenanceRemoved, err, c.lockNote())
	c.record.log.Info("Cleanup step ended", "step", summary, "error", err)
	if err != nil {
		c.record.note("could not " + summary + ": " + temporal.ErrorMessage(err))
	}
}

// awaitSwept waits until the sweeper has returned the unreturned nodes, so that the locks of the cluster stay inactive until then. It returns false if
// that takes too long; then the sweeper also withdraws the request, after the nodes.
func (c *clusterUpgrade) awaitSwept(ctx workflow.Context) bool {
	deadline := workflow.Now(ctx).Add(sweptLimit)
	for _, node := range c.nodes.unreturned {
		object := c.nodes.objectFor(node)
		in := nodeactivities.AwaitNodeFreeInput{
			NodeRef: activitykit.NodeRef{Cluster: c.in.Cluster, Node: node, Owner: c.owner},
			Of:      temporal.NodeMaintenanceID(c.in.Cluster, object.Namespace, object.Name),
		}
		var nodes *nodeactivities.Activities
		err := c.await(ctx, "AwaitNodeFree", "wait until the sweeper has returned "+node, &deadline, temporal.ErrNodeBusy, nodes.AwaitNodeFree, in)
		if err != nil && temporal.ErrorType(err) != temporal.ErrNodeGone {
			c.record.note("the request for " + c.in.Cluster + " is left to the sweeper, which deletes it after node " + node + " is returned")
			return false
		}
	}
	return true
}

// sweptLimit limits the wait for the sweeper, which takes about ten seconds if the cluster answers.
const sweptLimit = 5 * time.Minute

// clusterCleanUpLimit limits the retries to withdraw the maintenance request of the cluster.
const clusterCleanUpLimit = 10 * time.Minute

// finish turns the error of the upgrade into the result of the workflow.
func (c *clusterUpgrade) finish(ctx workflow.Context, err error) (ranv1.ClusterStatus, error) {
	c.state.Status.State = ranv1.ClusterFailed
	cancelled := sdktemporal.IsCanceledError(err) && c.state.Status.Failure == nil
	switch {
	case err == nil:
		c.state.Status.State = ranv1.ClusterComplete
	case cancelled:
		c.state.Status.State = ranv1.ClusterCancelled
		if c.cancelled != nil {
			c.record.note("cancelled" + kit.ActorSuffix(*c.cancelled))
		}
	}
	now := c.record.now(ctx)
	c.state.Status.CompletedAt = &now
	c.record.enter(ranv1.StepOver)
	c.record.attributes.Flush()
	summary := c.record.summary()
	switch {
	case err == nil:
		return summary, nil
	case cancelled:
		return summary, sdktemporal.NewCanceledError(summary)
	}
	failure := c.state.Status.Failure
	return summary, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{summary}})
}
