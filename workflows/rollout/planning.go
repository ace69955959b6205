package rollout

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// planRollout makes the plan, waits until the rollout is enabled, and makes the plan again before it freezes it. A rollout with an invalid plan waits for
// an edit, or until the hub has what the plan lacks, and then starts if it is enabled. A retry loads its plan.
func (g *groupUpgrade) planRollout(ctx workflow.Context) (rollout.End, error) {
	if end, err := g.followSource(ctx); end != "" || err != nil {
		return end, err
	}
	if g.in.Retry != nil {
		return g.loadSaved(ctx)
	}
	if err := g.checkDuties(&g.spec, g.starters); err != nil {
		return "", kit.InvalidSpec(err)
	}
	for {
		edits, enabled := g.edits, g.enabled
		outdated := func() bool { return g.edits != edits || g.enabled != enabled }
		valid, err := g.plan(ctx, outdated)
		switch {
		case ctx.Err() != nil:
			return rollout.EndCancelled, nil
		case err != nil && g.in.Source == nil && kit.ReasonOf(err) == temporal.ErrInvalidSpec:
			return "", err // nothing on the hub can make it valid
		case err != nil:
			g.record.notPlanned(ctx, err)
		case outdated():
			continue
		case g.enabled && valid:
			return g.endIfAllFailed(), nil
		default:
			g.record.notStarting(ctx, g.enabled, valid)
		}
		if len(g.activeParts) == 0 && kit.ShouldContinueAsNew(ctx, g.signals) { // the hub may change for weeks
			return endContinueAsNew, nil
		}
		if g.awaitReplan(ctx, outdated) != nil {
			return rollout.EndCancelled, nil
		}
	}
}

// plan plans the rollout in an activity next to the hub, and precaches the clusters of the plan until it is outdated.
func (g *groupUpgrade) plan(ctx workflow.Context, outdated func() bool) (valid bool, err error) {
	edits := g.edits
	plan, err := g.makePlan(ctx)
	if err != nil {
		return false, err
	}
	if plan.Spec != nil && g.edits == edits { // an edit during the activity has its defaults already
		g.setSpec(*plan.Spec)
	}
	g.defaulted, g.planDigest = true, plan.Digest
	g.taskQueues, g.status.ManagedPoliciesNs = plan.TaskQueues, plan.PolicyNamespaces
	plan.Plan.PolicyNamespaces, g.status.ManagedPoliciesContent = plan.PolicyNamespaces, plan.PolicyContent
	g.notBound = rollout.ExpandNotBound(plan.NotBound, slices.Concat(plan.RemediationPlan...))
	g.record.planned(ctx, plan.Plan)
	g.applyPreparations(plan)
	if plan.Valid() {
		// Do not register an invalid plan: with a cycle of blockers it would end the other rollout, which came first.
		g.register(ctx)
		g.precache(ctx, outdated)
	}
	return plan.Valid(), nil
}

// register saves the rollout on the hub for the rollouts that it blocks. It ignores a failure, since the final status is saved later.
func (g *groupUpgrade) register(ctx workflow.Context) {
	registered := g.toSave(ctx)
	registered.Object.Status = ranv1.ClusterGroupUpgradeStatus{Conditions: slices.Clone(g.status.Conditions)}
	retrier := kit.HubRetrier(nil).Until(workflow.Now(ctx))
	g.saved = true // also after an error: only the answer may be lost
	_ = retrier.Run(ctx, "register the rollout on the hub", g.hub.SaveRollout, registered, nil)
}

// checkDuties rejects separate duties if the person who started the rollout is unknown.
func (g *groupUpgrade) checkDuties(spec *ranv1.ClusterGroupUpgradeSpec, starters []string) error {
	if spec.Approvals != nil && spec.Approvals.SeparateDuties && (len(starters) == 0 || slices.Contains(starters, "")) {
		return errors.New("spec.approvals.separateDuties: it is not known who started, edited or enabled the rollout: do it with `drydock upgrade`")
	}
	return nil
}
