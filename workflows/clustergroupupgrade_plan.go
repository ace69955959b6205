package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// prepare makes the plan and waits until the rollout is enabled; then the plan is made once more, and frozen. A rollout that is only
// planned stays so however wrong its plan is; one that is enabled from the start ends with a plan that cannot be carried out.
func (g *groupUpgrade) prepare(ctx workflow.Context) (rollout.End, error) {
	if problems := rollout.NotYetRunnable(&g.in.Object); len(problems) > 0 {
		return "", temporal.Error(temporal.ErrInvalidSpec, problems.ToAggregate().Error(), nil)
	}
	fromTheStart := g.enabled
	for {
		valid, err := g.plan(ctx)
		switch {
		case ctx.Err() != nil:
			return rollout.EndCancelled, nil
		case err != nil:
			return "", err
		case g.enabled && valid:
			return "", nil
		case fromTheStart:
			return rollout.EndFinished, nil
		}
		g.enabled = false
		g.record.notEnabled(ctx, valid)
		if workflow.Await(ctx, func() bool { return g.enabled }) != nil {
			return rollout.EndCancelled, nil
		}
	}
}

// plan selects the clusters and divides them into batches, next to the hub's objects.
func (g *groupUpgrade) plan(ctx workflow.Context) (valid bool, err error) {
	var plan activities.RolloutPlan
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: g.record.reason.set}
	if err := insist.effect(ctx, "plan the rollout", g.hub.PlanRollout, g.in.Object, &plan); err != nil {
		return false, err
	}
	g.taskQueues = plan.TaskQueues
	g.record.planned(ctx, plan.Plan)
	return plan.Valid(), nil
}
