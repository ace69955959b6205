package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// remedy is how the remediation of a rollout is carried out on clusters; each kind of remediation has one.
type remedy interface {
	// start begins the work on clusters of a batch and returns at once. For each of them batch.ended is called, once, when its work is over
	// and what had to be taken back is. A cluster is withdrawn by cancelling its context; it then ends in state cancelled, unless it was
	// complete in the same moment.
	start(b *batch, clusters []*clusterAtWork)
	// completeNow returns those of the clusters, which have timed out, that are found complete after all.
	completeNow(ctx workflow.Context, clusters []string) ([]string, error)
	// atOnce is how many clusters one run can keep at work, and startedTogether how many it can start in one workflow task.
	atOnce() int
	startedTogether() int
	// settle returns when nothing is under way any more for clusters whose work is over.
	settle(ctx workflow.Context)
	// takeBack removes what was made for the rollout as a whole. No cluster is at work.
	takeBack(ctx workflow.Context, succeeded bool)
}

func newRemedy(g *groupUpgrade) remedy {
	switch rollout.RemediationOf(&g.in.Object) {
	case rollout.ManagedPolicies:
		return newSequence(g, &policyItems{group: g})
	case rollout.ManifestWorks:
		return newSequence(g, &workItems{group: g})
	default:
		return nodeRemedy{g}
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
	complete, err := g.remedy.completeNow(ctx, late)
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
