package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// recall begins once more what is over: with the spec and the plan that the hub has kept, for the clusters that are taken.
func (g *groupUpgrade) recall(ctx workflow.Context) (rollout.End, error) {
	insist := g.insist()
	in := activities.RecallRolloutInput{Namespace: g.in.Object.Namespace, Name: g.in.Object.Name, Request: *g.in.Retry}
	var recalled activities.RecalledRollout
	err := insist.effect(ctx, "recall the rollout", g.hub.RecallRollout, in, &recalled)
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled, nil
	case err != nil:
		return "", err
	}
	if err := g.checkDuties(&recalled.Object.Spec, g.starters); err != nil {
		return "", temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	g.taskQueues = recalled.TaskQueues
	g.notBound = rollout.ExpandNotBound(recalled.NotBound, rollout.NamesOf(recalled.Object.Status.Clusters))
	g.in.Object.ObjectMeta = recalled.Object.ObjectMeta
	g.enabled, g.recalled, g.complete = true, true, true
	g.respecify(recalled.Object.Spec)
	g.record.recalled(recalled.Object.Status)
	g.changeLeft()
	if g.precache(ctx, func() bool { return false }); ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	return g.unlessAllFailed(), nil
}
