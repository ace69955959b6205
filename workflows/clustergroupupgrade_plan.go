package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// prepare makes the plan and waits until the rollout is enabled; then the plan is made once more, and frozen. A rollout that is only
// planned stays so however wrong its plan is; one that is enabled from the start ends with a plan that cannot be carried out. One that is
// done once more has its plan already.
func (g *groupUpgrade) prepare(ctx workflow.Context) (rollout.End, error) {
	if g.in.Retry != nil {
		return g.recall(ctx)
	}
	if err := g.checkDuties(&g.spec, g.starters); err != nil {
		return "", refused(err)
	}
	fromTheStart := g.enabled
	for {
		g.edited = false
		enabled := g.enabled
		outdated := func() bool { return g.edited || g.enabled != enabled }
		valid, err := g.plan(ctx, outdated)
		switch {
		case ctx.Err() != nil:
			return rollout.EndCancelled, nil
		case err != nil:
			return "", err
		case outdated():
			continue
		case !valid && fromTheStart:
			return rollout.EndFinished, nil
		case g.enabled && valid:
			return g.unlessAllFailed(), nil
		}
		g.enabled = false
		g.record.notEnabled(ctx, valid)
		if workflow.Await(ctx, func() bool { return g.enabled || g.edited }) != nil {
			return rollout.EndCancelled, nil
		}
	}
}

// plan selects the clusters and divides them into batches, next to the hub's objects, and has them precached until the plan is outdated.
func (g *groupUpgrade) plan(ctx workflow.Context, outdated func() bool) (valid bool, err error) {
	var plan activities.RolloutPlan
	insist := g.insist()
	if err := insist.effect(ctx, "plan the rollout", g.hub.PlanRollout, g.in.Object, &plan); err != nil {
		return false, err
	}
	if plan.Spec != nil && !g.edited { // what was edited meanwhile has its defaults
		g.respecify(*plan.Spec)
	}
	g.complete = true
	g.taskQueues, g.status.ManagedPoliciesNs = plan.TaskQueues, plan.PolicyNamespaces
	g.notBound = rollout.ExpandNotBound(plan.NotBound, slices.Concat(plan.RemediationPlan...))
	g.record.planned(ctx, plan.Plan)
	g.takePreparations(plan)
	if plan.Valid() {
		// One that waits for a rollout that waits for it is not known: it would stop the other, which was there first.
		g.register(ctx)
		g.precache(ctx, outdated)
	}
	return plan.Valid(), nil
}

// register makes the rollout known on the hub to those that it blocks. It goes on without if that is not possible: the final status will tell.
func (g *groupUpgrade) register(ctx workflow.Context) {
	object := g.in.Object
	object.Status = ranv1.ClusterGroupUpgradeStatus{Conditions: slices.Clone(g.status.Conditions)}
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}, giveUpAt: workflow.Now(ctx)}
	g.registered = true // also if only the answer is lost
	_ = insist.effect(ctx, "make the rollout known on the hub", g.hub.KeepRollout, activities.KeepRolloutInput{Object: object, Owner: owner(ctx)}, nil)
}

// checkDuties refuses to separate duties when it is not known who has started the rollout.
func (g *groupUpgrade) checkDuties(spec *ranv1.ClusterGroupUpgradeSpec, starters []string) error {
	if spec.Approvals != nil && spec.Approvals.SeparateDuties && (len(starters) == 0 || slices.Contains(starters, "")) {
		return errors.New("spec.approvals.separateDuties: it is not known who started, edited or enabled the rollout: do it with `drydock upgrade`")
	}
	return nil
}
