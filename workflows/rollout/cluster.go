package rollout

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// newRemediator returns the remediator of the rollout. prepared are the items that an earlier run prepared; nil: none.
func newRemediator(g *groupUpgrade, prepared *policy.PreparedItems) policy.Remediator {
	switch rollout.RemediationOf(&g.in.Object) {
	case rollout.ManagedPolicies:
		return policy.NewPolicySequence(&policyRollout{g}, prepared)
	case rollout.ManifestWorks:
		return policy.NewWorkSequence(&policyRollout{g}, prepared)
	default:
		return nodeRemediator{g}
	}
}

// activeCluster is a cluster of the running batch that runs or soaks.
type activeCluster struct {
	name string
	// cancel cancels ctx, the context of the work.
	ctx    workflow.Context
	cancel workflow.CancelFunc
	// usedBefore is the elapsed time of the rollout's clock when the cluster was started.
	usedBefore time.Duration
	state      rollout.WorkState
}

// cancelTimedOut cancels a cluster that has timed out, or whose batch has.
func (c *activeCluster) cancelTimedOut() {
	if c.state.Timed() {
		c.state = c.state.TimeOut()
		c.cancel()
	}
}

// cancelDeleted cancels a cluster whose ManagedCluster was deleted.
func (c *activeCluster) cancelDeleted() {
	c.state = c.state.ClusterDeleted()
	c.cancel()
}

// recheckTimedOut checks timed-out clusters again at the end of the rollout. Those that are complete now count as complete.
func (g *groupUpgrade) recheckTimedOut(ctx workflow.Context) (rollout.End, error) {
	late := g.record.inState(ranv1.ClusterTimedOut)
	if len(late) == 0 || ctx.Err() != nil {
		return "", nil
	}
	complete, err := g.remediator.FindComplete(ctx, late)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled, nil
	case err != nil:
		g.record.note("could not check timed-out clusters again: " + temporal.ErrorMessage(err))
	}
	if len(g.spec.HealthChecks) > 0 {
		failures := g.healthOf(ctx, complete)
		complete = slices.DeleteFunc(complete, func(cluster string) bool { return failures[cluster] != nil })
	}
	g.record.completedLate(ctx, complete)
	return "", nil
}
