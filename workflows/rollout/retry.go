package rollout

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// loadSaved loads the saved spec and plan of a rollout from the hub, for a retry.
func (g *groupUpgrade) loadSaved(ctx workflow.Context) (rollout.End, error) {
	retrier := g.retrier()
	in := rollouts.LoadRolloutInput{Namespace: g.in.Object.Namespace, Name: g.in.Object.Name, Request: *g.in.Retry}
	var saved rollouts.LoadedRollout
	err := retrier.Run(ctx, "load the saved rollout", g.hub.LoadRollout, in, &saved)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled, nil
	case err != nil:
		return "", err
	}
	if err := g.checkDuties(&saved.Object.Spec, g.starters); err != nil {
		return "", temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	g.taskQueues = saved.TaskQueues
	g.notBound = rollout.ExpandNotBound(saved.NotBound, rollout.NamesOf(saved.Object.Status.Clusters))
	g.in.Object.ObjectMeta = saved.Object.ObjectMeta
	g.enabled, g.saved, g.defaulted = true, true, true
	g.setSpec(saved.Object.Spec)
	g.record.planLoaded(saved.Object.Status)
	g.queueUnchangedClusters()
	if g.precache(ctx, func() bool { return false }); ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	return g.endIfAllFailed(), nil
}
