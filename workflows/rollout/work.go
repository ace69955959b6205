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

// newRemediator returns the remediator for the kind of remediation of the rollout. Prepared is what an earlier run found.
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

// activeCluster is a cluster from the start of its work until its place in the batch is free.
type activeCluster struct {
	name string
	// batch of the plan that it belongs to, counted from 1.
	batch int32
	// ctx is cancelled when the cluster is withdrawn, alone or with all others.
	ctx      workflow.Context
	withdraw workflow.CancelFunc
	// usedBefore is what was charged to the rollout when it was started.
	usedBefore time.Duration
	state      rollout.WorkState
}

// withdrawTimedOut withdraws a cluster whose time, or that of its batch, is over.
func (c *activeCluster) withdrawTimedOut() {
	if c.state.Timed() {
		c.state = c.state.TimeOut()
		c.withdraw()
	}
}

// withdrawDeleted withdraws a cluster that is no longer a ManagedCluster.
func (c *activeCluster) withdrawDeleted() {
	c.state = c.state.ClusterDeleted()
	c.withdraw()
}

// recheckTimedOut looks at timed-out clusters again. Those that are complete by now count as complete.
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
		g.record.note("could not look at timed-out clusters again: " + temporal.ErrorMessage(err))
	}
	if len(g.spec.HealthChecks) > 0 {
		failures := g.healthOf(ctx, complete)
		complete = slices.DeleteFunc(complete, func(cluster string) bool { return failures[cluster] != nil })
	}
	g.record.completedLate(ctx, complete)
	return "", nil
}
