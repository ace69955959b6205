package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// newRemediator returns the remediator for the kind of remediation of the rollout. Prepared is what an earlier run found.
func newRemediator(g *groupUpgrade, prepared *PreparedItems) Remediator {
	switch rollout.RemediationOf(&g.in.Object) {
	case rollout.ManagedPolicies:
		return newPolicySequence(&remediatedRollout{g}, prepared)
	case rollout.ManifestWorks:
		return newWorkSequence(&remediatedRollout{g}, prepared)
	default:
		return nodeRemediator{g}
	}
}

// clusterAtWork is a cluster whose work has been started and is not over.
type clusterAtWork struct {
	name string
	// batch of the plan that it belongs to, counted from 1.
	batch int32
	// ctx is cancelled when the cluster is withdrawn, alone or with all others.
	ctx      workflow.Context
	withdraw workflow.CancelFunc
	// chargedBefore is what was charged to the rollout when it was started.
	chargedBefore time.Duration
	// timedOut: it was withdrawn because its own time was over.
	timedOut bool
	// vanished: it was withdrawn because its ManagedCluster is gone, and has failed already.
	vanished bool
	// checked: its work is over, and the health checks of the rollout must hold on it, or did.
	checked bool
	// soaking: its work is over, and has to last for a while.
	soaking bool
}

// lookAgain looks once more at the clusters that have timed out: those that are complete by now count as complete.
func (g *groupUpgrade) lookAgain(ctx workflow.Context) (rollout.End, error) {
	late := g.record.inState(ranv1.ClusterTimedOut)
	if len(late) == 0 || ctx.Err() != nil {
		return "", nil
	}
	complete, err := g.remediator.CompleteNow(ctx, late)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled, nil
	case err != nil:
		g.record.note("the clusters that timed out could not be looked at once more: " + temporal.ErrorMessage(err))
	}
	if len(g.spec.HealthChecks) > 0 {
		failures := g.healthOf(ctx, complete)
		complete = slices.DeleteFunc(complete, func(cluster string) bool { return failures[cluster] != nil })
	}
	g.record.lateComplete(ctx, complete)
	return "", nil
}
