package rollout

import (
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// awaitBlockers waits until the blocking rollouts have succeeded. This time does not count against the timeout. If the rollout asks for it, it then leaves out the
// clusters that are not complete in all of them.
func (g *groupUpgrade) awaitBlockers(ctx workflow.Context) (rollout.End, error) {
	if len(g.spec.BlockingCRs) == 0 {
		return "", nil
	}
	// Keep the input short: the activity needs only the blockers.
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: g.in.Object.ObjectMeta, Spec: ranv1.ClusterGroupUpgradeSpec{BlockingCRs: g.spec.BlockingCRs}}
	retrier := g.retrier()
	var unblocked rollout.Unblocked
	err := retrier.Wait(ctx, "wait for the rollouts that block this one", nil, "", g.hub.AwaitBlockers, object, &unblocked)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled, nil
	case err != nil:
		return "", err
	case !rollout.FiltersClusters(&object):
		return "", nil
	}
	if g.record.leaveOut(&g.spec.RemediationStrategy, unblocked.Complete); rollout.NoneLeft(g.status.Clusters) {
		return rollout.EndNoneLeft, nil
	}
	return "", nil
}

// handleObservation records the wait that an activity reports.
func (g *groupUpgrade) handleObservation(ctx workflow.Context, seen temporal.Observation) {
	if seen.Activity == "AwaitClusterHealthy" {
		g.recordHealthWait(ctx, seen)
		return
	}
	if g.phase == phaseBlocked && seen.Activity == "AwaitBlockers" && seen.Wait != nil && g.cancelledBy == nil {
		g.record.blocked(ctx, seen.Wait)
	}
}
